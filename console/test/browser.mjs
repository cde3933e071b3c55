// A browser for the walk through the console: it notes what a page must not do, and looks at every
// page with axe.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

import { isolatedChromium } from './namespace.mjs';

const PATIENCE = 60_000;
const WIDE = { width: 1_360, height: 860 };
const NARROW = { width: 390, height: 844 };
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Browser {
  /** Things that no page may do. */
  complaints = [];
  /** Requests for objects that do not exist. */
  missing = [];

  static async open({ base, directory }) {
    const browser = new Browser();
    browser.base = base;
    browser.pictures = join(directory, 'pictures');
    mkdirSync(browser.pictures, { recursive: true });
    browser.context = await chromium.launchPersistentContext(
      mkdtempSync(join(directory, 'user-')),
      {
        executablePath: isolatedChromium(base, directory),
        headless: true,
        ignoreHTTPSErrors: true,
        viewport: WIDE,
        reducedMotion: 'reduce',
        args: FLAGS,
      },
    );
    browser.context.setDefaultTimeout(PATIENCE);
    browser.page = await browser.context.newPage();
    browser.watch(browser.page);
    return browser;
  }

  watch(page) {
    page.on('pageerror', (error) => this.complaints.push(`the page failed: ${error.message}`));
    page.on('console', (message) => {
      if (/Content.Security.Policy|Refused to/i.test(message.text())) {
        this.complaints.push(message.text());
      }
    });
    page.on('response', (response) => {
      if (response.status() === 404) this.missing.push(response.url());
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      const isOwn =
        url.host === new URL(this.base).host || ['data:', 'blob:'].includes(url.protocol);
      if (!isOwn) this.complaints.push(`it asked ${url.host}`);
    });
  }

  async go(path) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.page.goto(`${this.base}/console${path}`);
      } catch (error) {
        // Pods of other tests come with interfaces, and Chromium gives up what it asks for then:
        // it shows an error, or asks again by itself just as we do.
        const isLost = /ERR_NETWORK_CHANGED|interrupted by another navigation/;
        if (attempt === 5 || !isLost.test(String(error))) throw error;
      }
    }
  }

  see(selector, options = {}) {
    return this.page.locator(selector, options).first().waitFor();
  }

  /** Waits until something holds, and says what was there when it does not. */
  async until(what, look, holds, patience = PATIENCE) {
    const began = performance.now();
    let seen;
    while (performance.now() - began < patience) {
      seen = await look().catch((error) => String(error));
      if (holds(seen)) return seen;
      await this.page.waitForTimeout(100);
    }
    await this.picture('failed');
    assert.fail(`${what}: ${JSON.stringify(seen)}`);
  }

  text(selector) {
    return this.page.locator(selector).first().innerText();
  }

  picture(name) {
    return this.page.screenshot({ path: join(this.pictures, `${name}.png`) });
  }

  /** What axe finds that would keep somebody from using the page. */
  serious() {
    return this.page.evaluate(async () => {
      const { violations } = await window.axe.run(document, {
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'],
      });
      const isSerious = ({ impact }) => ['serious', 'critical'].includes(impact);
      return violations.filter(isSerious).map(
        ({ id, nodes }) =>
          `${id}: ${nodes
            .map((node) => node.html)
            .slice(0, 3)
            .join(' | ')}`,
      );
    });
  }

  /** Looks at a page as people do: in both colours, with axe, and on a telephone. */
  async inspect(name) {
    for (const theme of ['light', 'dark']) {
      await this.page.emulateMedia({ colorScheme: theme });
      const isShown = (next) => document.documentElement.dataset.theme === next;
      await this.page.waitForFunction(isShown, theme);
      await this.page.evaluate(
        () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
      );
      await this.picture(theme === 'light' ? name : `${name}-dark`);
      await this.page.evaluate(axe);
      // Colours change over a moment, which on a busy machine is not so short.
      let found = await this.serious();
      for (let look = 1; look < 4 && found.length > 0; look += 1) {
        await this.page.waitForTimeout(250);
        found = await this.serious();
      }
      assert.deepEqual(found, [], `axe on ${name} in ${theme} colours`);
    }
    await this.page.emulateMedia({ colorScheme: 'light' });
    await this.narrow(name);
  }

  /** On a narrow screen nothing may lie beside the page, where nobody finds it. */
  async narrow(name) {
    await this.page.setViewportSize(NARROW);
    let hidden = await this.beside();
    // What is drawn to measure is drawn again a moment later.
    for (let look = 1; look < 8 && hidden.length > 0; look += 1) {
      await this.page.waitForTimeout(250);
      hidden = await this.beside();
    }
    await this.picture(`${name}-narrow`);
    await this.page.setViewportSize(WIDE);
    assert.deepEqual(hidden, [], `${name} on a narrow screen`);
  }

  /** What lies beside the screen and cannot be moved onto it. */
  beside() {
    return this.page.evaluate(() => {
      const main = document.querySelector('main') ?? document.documentElement;
      const isBeside = (one) => {
        const { right, width, height } = one.getBoundingClientRect();
        return width > 0 && height > 0 && right > innerWidth + 1;
      };
      /** What can be moved sideways is found by who moves it. */
      const isMoved = (one) => {
        for (let at = one.parentElement; at && at !== main; at = at.parentElement) {
          if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(at).overflowX))
            return true;
        }
        return false;
      };
      const found = [...main.querySelectorAll('*')].filter((one) => isBeside(one) && !isMoved(one));
      return found.slice(0, 3).map((one) => one.outerHTML.slice(0, 160));
    });
  }

  async close() {
    await this.context.close();
    assert.deepEqual(this.complaints, []);
  }
}
