// Walks through the console as a person would, against a running cluster. The Rust test that starts
// the cluster (`app/tests/program/console.rs`) says in a file where it is and what runs in it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Browser } from './browser.mjs';
import { machines, models, training } from './work.mjs';
import { chat, graph, jobs, kindsLayout, overview, pod } from './failures.mjs';
import { past } from './past.mjs';
import { refused } from './refused.mjs';
import { turned } from './turned.mjs';

const given = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const browser = await Browser.open(given);
const { page } = browser;

async function step(name, walk) {
  const began = performance.now();
  try {
    await walk();
  } catch (error) {
    await browser.picture(`failed-${name}`).catch(() => undefined);
    throw new Error(`${name}: ${error.stack}\n${browser.complaints.join('\n')}`);
  }
  console.log(`${name}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
}

/** Asks the API as the page does, with the rights of who is signed in. */
async function ask(method, path, body) {
  try {
    return await askOnce(method, path, body);
  } catch (error) {
    // The network of the machine changed; see `Browser.go`.
    if (!String(error).includes('Failed to fetch')) throw error;
    return askOnce(method, path, body);
  }
}

function askOnce(method, path, body) {
  return page.evaluate(
    async ([method, path, body]) => {
      const token = sessionStorage.getItem('setpoint.token');
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
      return { code: answer.status, body: await answer.json() };
    },
    [method, path, body],
  );
}

await step('sign-in', async () => {
  const answer = await browser.go('/k/core/v1/pods?ns=default');
  const headers = answer.headers();
  assert.match(headers['content-security-policy'], /default-src 'none'; script-src 'self';/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  await browser.see('text=With a token');
  await browser.inspect('sign-in');
  await page.fill('#token', 'nonsense');
  await page.click('button:has-text("Sign in")');
  await browser.see('text=does not accept this token');
  await page.goto(given.link);
  await browser.see('nav[aria-label=Console]');
  assert.equal(await page.evaluate(() => location.hash), '', 'the code must not stay');
  const { body } = await ask('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'SelfSubjectReview',
  });
  assert.equal(await browser.text('.who .cut'), body.status.userInfo.username);
  // The link works once, and another tab is not signed in by the first.
  const other = await browser.context.newPage();
  // The network of the host changes with each pod, and Chromium then drops what a page loads.
  const used = async () => {
    await other.goto('about:blank');
    await other.goto(given.link);
    return other.locator('[role=alert]').innerText({ timeout: 10_000 });
  };
  await browser.until('a used link', used, (text) => text.includes('was used already'));
  await other.close();
});

await step('overview', async () => {
  await browser.see('section:has(#inference) >> text=split');
  await overview(browser);
  // Events of pods that were deleted lead to no request for them.
  await browser.go('/events');
  await browser.see('[data-testid=events] tr:has-text("gone"):has-text("BackOff")');
  browser.missing.length = 0;
  await browser.go('/');
  await browser.see('[data-testid=problem] [data-testid=last-line]');
  await page.waitForLoadState('load');
  assert.deepEqual(browser.missing, [], 'requests for objects that do not exist');
});

await step('kind', async () => {
  await browser.go('/k/core/v1/pods?ns=default');
  await browser.see('[data-row] >> text=broken');
  await browser.see('[role=columnheader] >> text=Restarts');
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'aa-new' },
    spec: { containers: [{ name: 'main', image: 'x', command: ['sleep', '1000'] }] },
  };
  const { code } = await ask('POST', '/api/v1/namespaces/default/pods', pod);
  assert.ok([201, 409].includes(code), 'it is made, by the first or by the second who asked');
  await browser.see('[data-row]:has-text("aa-new"):has-text("Running")');
  await ask('DELETE', '/api/v1/namespaces/default/pods/aa-new?gracePeriodSeconds=0');
  await page.locator('[data-row]:has-text("aa-new")').waitFor({ state: 'detached' });
  await page.fill('input[type=search]', 'broken');
  await browser.until(
    'one row',
    () => page.locator('[data-row]').count(),
    (count) => count === 1,
  );
  assert.match(page.url(), /q=broken/, 'a view is an address');
  await browser.inspect('kind');
  await browser.go('/k/batch/v1/cronjobs');
  await browser.see('[data-testid=empty] >> text=No CronJob objects');
  await browser.go('/kinds');
  await browser.see('a:has-text("TrainJob")');
  // A kind that only the older version of its group has.
  await browser.see('a:has-text("DynamoCheckpoint")');
  await kindsLayout(browser);
  await browser.inspect('kinds');
  await page.setViewportSize({ width: 390, height: 844 });
  await kindsLayout(browser);
  await page.setViewportSize({ width: 1_360, height: 860 });
});

await step('object', async () => {
  await browser.go('/o/apps/v1/deployments/default/hello');
  await browser.see('text=Available: Deployment has minimum availability.');
  await browser.see('[data-testid=tree] >> text=ReplicaSet');
  await browser.see('[data-testid=tree] li:has-text("Pod")');
  await browser.inspect('object');
  await page.click('button:text-is("+")');
  await browser.see('dialog >> text=kubectl scale deployments/hello -n default --replicas=3');
  await browser.picture('confirm');
  await page.click('[data-testid=confirm]');
  await browser.see('text=hello scaled to 3');
  await page.click('[data-testid=tab-events]');
  await browser.see('text=ScalingReplicaSet');
  await browser.inspect('object-events');
  await page.click('[data-testid=tab-yaml]');
  await browser.see('[data-testid=yaml] >> text=replicas: 3');
  await browser.inspect('object-yaml');
  await page.click('[data-testid=edit]');
  const text = await page.inputValue('textarea');
  await page.fill('textarea', text.replace('replicas: 3', 'replicas: three'));
  await page.click('[data-testid=review]');
  await browser.see('[role=alert]');
  await page.fill('textarea', text.replace('replicas: 3', 'replicas: 2'));
  await page.click('[data-testid=review]');
  await browser.see('dialog [data-testid=diff] .removed:has-text("replicas: 3")');
  await browser.see('dialog [data-testid=diff] .added:has-text("replicas: 2")');
  assert.equal(await page.locator('[data-testid=diff] .added').count(), 1, 'only what changes');
  await browser.inspect('diff');
  await page.click('[data-testid=confirm]');
  await browser.see('[data-testid=yaml] >> text=replicas: 2');
});

await step('palette', async () => {
  await page.keyboard.press('Control+k');
  await page.fill('[data-testid=palette]', 'hello');
  await browser.see('[role=option] >> text=Deployment');
  await browser.inspect('palette');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/o\/apps\/v1\/deployments\/default\/hello/);
});

await step('keyboard', async () => {
  await browser.go('/k/core/v1/pods?ns=default');
  await browser.see('[data-row] >> text=broken');
  const focused = () =>
    page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.id);
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Skip to the page', 'the first stop leads past the menu');
  await page.keyboard.press('Enter');
  await page.focus('[data-testid=rows]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await browser.until('a row has the focus', focused, (name) => /^(broken|crashing|echo|ends|hello|large)/.test(name));
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/o\/core\/v1\/pods\/default\//);
  const place = await page.evaluate(() => document.activeElement?.id);
  assert.equal(place, 'main', 'who listens is told');
  // A dialog takes the focus, lets go of it with Escape, and changes nothing.
  await browser.go('/o/apps/v1/deployments/default/hello');
  await page.focus('[data-testid=delete]');
  await page.keyboard.press('Enter');
  await browser.see('dialog[open]');
  const isInside = () => document.querySelector('dialog').contains(document.activeElement);
  assert.ok(await page.evaluate(isInside));
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  assert.equal((await ask('GET', '/apis/apps/v1/namespaces/default/deployments/hello')).code, 200);
});

await step('no-answer', async () => {
  await browser.go('/k/core/v1/pods?ns=default');
  await browser.see('[data-row] >> text=broken');
  await browser.context.setOffline(true);
  await page.click('nav[aria-label=Console] a:has-text("Deployments")');
  await browser.see('[data-testid=lost]');
  await browser.see('[data-testid=empty] >> text=The server does not answer');
  await browser.inspect('no-answer');
  await browser.context.setOffline(false);
  await page.locator('[data-testid=lost]').waitFor({ state: 'detached' });
  await browser.see('[data-row] >> text=hello');
});

await step('nodes', async () => {
  await browser.go('/nodes');
  await browser.see('[data-testid=node] >> text=Ready');
  await browser.see('[data-testid=node] >> text=memory');
  await browser.inspect('nodes');
});

await step('events', async () => {
  await browser.go('/events');
  await browser.see('[data-testid=events] >> text=Started');
  const before = await page.locator('[data-testid=events] tbody tr').count();
  await page.check('[data-testid=warnings-only]');
  await browser.see('[data-testid=events] >> text=BackOff');
  assert.ok((await page.locator('[data-testid=events] tbody tr').count()) < before);
  await browser.inspect('events');
  // A part of the time is chosen with the mouse.
  await page.uncheck('[data-testid=warnings-only]');
  const chosen = async () => Number(await browser.text('h1 + [role=status]'));
  const all = await chosen();
  const { x, y, width } = await page.locator('[data-testid=timeline]').boundingBox();
  await page.mouse.move(x + width * 0.02, y + 20);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.4, y + 20, { steps: 4 });
  await page.mouse.up();
  await browser.until('fewer are shown', chosen, (count) => count > 0 && count < all);
  await page.click('button:has-text("Show all")');
  await browser.until('all are shown', chosen, (count) => count >= all);
});

await step('pods', async () => {
  await browser.go('/o/core/v1/pods/default/broken?tab=logs');
  await browser.see('[data-testid=output] >> text=no model');
  await browser.inspect('logs');
  await browser.go('/o/core/v1/pods/default/large?tab=why');
  await browser.see('[data-testid=why] th:has-text("Scheduler verdict")');
  await browser.see('[data-testid=why] td:has-text("Insufficient cpu")');
  await browser.inspect('why-not');
  await pod(browser);
});

await step('failing graph', () => graph(browser));
await step('chat', () => chat(browser));
await step('jobs', () => jobs(browser));

const moments = {};
await step('training', async () => (moments.job = await training(browser, ask)));
await step('inference', async () => (moments.graph = await models(browser, ask)));
await step('machine', async () => {
  moments.machine = await machines(browser, ask, given.machine);
});
await step('past', () => past(browser, ask));
await step('turned', () => turned(browser, ask, moments));

await step('many', async () => {
  await browser.go('/k/core/v1/configmaps?ns=many');
  // Every namespace has one more.
  const all = (given.many + 1).toLocaleString('en-US');
  await browser.until(
    'all are there',
    () => browser.text('[data-testid=count]'),
    (text) => text.startsWith(all),
  );
  const frames = await page.evaluate(async () => {
    const area = document.querySelector('[data-testid=rows]');
    const took = [];
    let before = performance.now();
    const steps = 120;
    for (let step = 0; step <= steps; step++) {
      area.scrollTop = (area.scrollHeight * step) / steps;
      await new Promise(requestAnimationFrame);
      took.push(performance.now() - before);
      before = performance.now();
    }
    return took.sort((one, other) => one - other);
  });
  const name = `many-${String(given.many - 1).padStart(5, '0')}`;
  await browser.see(`[data-row] >> text=${name}`);
  const drawn = await page.locator('[data-row]').count();
  assert.ok(drawn < 60, `${drawn} rows are drawn`);
  const at = (part) => frames[Math.floor(frames.length * part)].toFixed(1);
  console.log(`frames of ${given.many} rows: median ${at(0.5)} ms, 95th ${at(0.95)} ms`);
  // On a machine that does much else besides the time of a frame says little of the page.
  if (given.isFull) assert.ok(Number(at(0.5)) < 50, 'scrolling is not smooth');
  await browser.inspect('many');
  await page.fill('input[type=search]', name);
  await browser.until(
    'one row',
    () => page.locator('[data-row]').count(),
    (count) => count === 1,
  );
  assert.ok(
    (await browser.text('[data-testid=count]')).startsWith(all),
    'a filter reads nothing again',
  );
});

await step('rights', async () => {
  await page.click('button[aria-label="Sign out"]');
  await browser.see('text=With a token');
  assert.equal(await page.evaluate(() => sessionStorage.getItem('setpoint.token')), null);
  await page.fill('#token', given.tenant);
  await page.click('button:has-text("Sign in")');
  await browser.see('.who >> text=system:serviceaccount:tenant:ada');
  await browser.go('/k/core/v1/configmaps?ns=tenant');
  await browser.see('[data-row] >> text=kube-root-ca.crt');
  await browser.go('/k/core/v1/secrets?ns=default');
  await browser.see('[data-testid=empty] >> text=cannot list resource');
  await browser.go('/');
  await browser.see('[data-testid=refused] >> text=You may not see: nodes');
  assert.equal(await page.locator('[data-testid=no-problems]').count(), 0);
  await browser.inspect('rights');
  await page.fill('[data-testid=namespace]', 'tenant');
  await page.keyboard.press('Enter');
  await browser.see('[data-testid=no-problems]');
});

await step('refused', () => refused(browser, given.machine));

await browser.close();
console.log('walked');
