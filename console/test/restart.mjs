// A browser stays signed in while the server restarts, and follows a sign-in link in the same tab:
// node restart.mjs FILE. The test that restarts the server writes lines to this program.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Browser } from './browser.mjs';

const given = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => (await input.next()).value;
const browser = await Browser.open(given);
const { page } = browser;
const VIEW = '/k/core/v1/configmaps?ns=default';

await page.goto(given.link);
await browser.see('nav[aria-label=Console]');
await browser.go(VIEW);
await browser.see('[data-row] >> text=kube-root-ca.crt');
console.log('signed in');

assert.equal(await next(), 'restarted');
// The page goes on by itself, and so does one that is loaded again.
await browser.see('[data-row] >> text=made-after-the-restart');
assert.ok(page.url().includes(VIEW), page.url());
await browser.go(VIEW);
await browser.see('[data-row] >> text=made-after-the-restart');
console.log('still signed in');

// Only the fragment of the address changes: no page is loaded.
const link = await next();
await page.goto(`${given.base}/console/`);
await page.click('button[aria-label="Sign out"]');
await browser.see('text=With a token');
await page.goto(link);
await browser.see('nav[aria-label=Console]');
assert.equal(await page.evaluate(() => location.hash), '', 'the code must not stay');
// A link that was used already says so, and the session goes on.
await page.goto(link);
await browser.see('text=This link was used already or has expired');
await browser.see('h1 >> text=Overview');
await browser.close();
console.log('walked');
