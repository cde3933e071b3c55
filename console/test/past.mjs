// The past: what changed, why, undo, and every page as it was.

import assert from 'node:assert/strict';

const PATH = '/apis/apps/v1/namespaces/default/deployments/hello';
const VIEW = '/o/apps/v1/deployments/default/hello';

export async function past(browser, ask) {
  const { page } = browser;
  const { code } = await ask('GET', '/apis/history.setpoint.dev/v1/timeline');
  await browser.go(`${VIEW}?tab=history`);
  if (code !== 200) {
    await browser.see('text=keeps no history');
    return;
  }
  await browser.see('[data-testid=history] ins >> text=3');
  await browser.see('[data-testid=history] >> text=Undo to here');
  const told = () => page.locator('[data-testid=history] li').count();
  const asked = await told();
  assert.equal(await page.locator('[data-testid=history] th:has-text("status.")').count(), 0);
  await browser.inspect('history');
  await page.click('[data-testid=tab-why]');
  await browser.see('[data-testid=why] li');
  await browser.inspect('why');

  // A bad edit, and its undoing.
  const { body: before } = await ask('GET', PATH);
  const { resourceVersion: revision, ...metadata } = before.metadata;
  const broken = { ...before, metadata, spec: { ...before.spec, replicas: 0 } };
  assert.equal((await ask('PUT', PATH, broken)).code, 200);
  await page.click('[data-testid=tab-history]');
  await browser.see('[data-testid=history] ins >> text="0"');
  // What only the status says is told to who wants it.
  await page.uncheck('[data-testid=history] input[type=checkbox]');
  await browser.until('more is told', told, (count) => count > asked + 1);
  const then = page.locator('[data-testid=history] li', {
    hasText: `revision ${revision}`,
  });
  await then.getByText('Undo to here').click();
  await browser.see(
    `dialog >> text=setpoint undo deployment/hello -n default --to ${revision}`,
  );
  await page.click('[data-testid=confirm]');
  const replicas = async () => (await ask('GET', PATH)).body.spec.replicas;
  await browser.until('it is undone', replicas, (count) => count === before.spec.replicas);

  // The page as it was: read-only, in the colour of the past, by its address alone.
  await browser.go(`${VIEW}?tab=yaml&at=${revision}`);
  await browser.see(`[data-testid=yaml] >> text=replicas: ${before.spec.replicas}`);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.past), 'true');
  assert.ok(await page.locator('[data-testid=delete]').isDisabled(), 'the past cannot be changed');
  await browser.see('[data-testid=moment-label] >> text=read-only');
  await browser.inspect('past');
  await browser.go(`/k/core/v1/pods?ns=default&at=${revision}`);
  await browser.see('[data-row] >> text=hello');
  await browser.inspect('past-kind');
  await page.click('[data-testid=live]');
  assert.ok(!page.url().includes('at='), 'live has no moment in its address');
  await page.click('[data-testid=earlier]');
  await browser.until(
    'earlier',
    async () => page.url(),
    (url) => url.includes('at='),
  );
  await browser.see('[data-row]');
  await browser.go('/');
  await browser.see('h1 >> text=Overview');
}
