// Every page as it was: by the time bar, and at moments of which is known what was there.

import assert from 'node:assert/strict';

const HELLO = '/o/apps/v1/deployments/default/hello';
const JOB = '/o/trainer.kubeflow.org/v1alpha1/trainjobs/default/line';
const GRAPH = '/o/nvidia.com/v1beta1/dynamographdeployments/default/split';
const MACHINES = '/o/kubevirt.io/v1/virtualmachines/default';

/** Pages, and what is on each of them a moment ago. */
const pages = (machine) => [
  ['overview', '/', '[data-testid=problem] >> text=Pod large is unschedulable'],
  ['pods', '/k/core/v1/pods?ns=default', '[data-row] >> text=broken'],
  ['jobs', '/k/trainer.kubeflow.org/v1alpha1/trainjobs', '[data-row] >> text=line'],
  ['nodes', '/nodes', '[data-testid=node] >> text=Ready'],
  ['events', '/events', '[data-testid=events] >> text=Started'],
  ['object', HELLO, '[data-testid=tree] >> text=ReplicaSet'],
  ['training', JOB, '[data-testid=percent]'],
  ['inference', GRAPH, '[data-testid=component-Frontend][data-ready="1"]'],
  ['machine', `${MACHINES}/${machine}`, '[data-testid=power]'],
];

export async function turned(browser, ask, moments) {
  const { page } = browser;
  const machine = moments.machine.body.metadata.name;
  for (const [name, path, shown] of pages(machine)) {
    await browser.go(path);
    await browser.see(shown);
    await page.click('[data-testid=earlier]');
    await page.waitForURL(/[?&]at=/);
    await browser.see('[data-testid=moment-label] >> text=read-only');
    await browser.see(shown);
    const deeds = page.locator('main button.danger, main [data-testid^=more-]');
    for (const deed of await deeds.all()) {
      assert.ok(await deed.isDisabled(), `the past cannot be changed on ${name}`);
    }
    await browser.inspect(`past-${name}`);
  }
  // Links lead to other pages of the same moment, and one key back to now.
  await browser.go(`/k/core/v1/pods?ns=default&at=${moments.graph.at}`);
  await page.click('[data-row] a:has-text("broken")');
  await page.waitForURL(new RegExp(`/pods/default/broken.*at=${moments.graph.at}`));
  await page.focus('[data-testid=moment]');
  await page.keyboard.press('End');
  await browser.until(
    'it is live',
    async () => page.url(),
    (url) => !url.includes('at='),
  );
  // What is newest moves while one looks: a step back from it may have to be made twice.
  await browser.until(
    'it is a moment ago',
    async () => {
      await page.keyboard.press('ArrowLeft');
      await page.waitForTimeout(200);
      return page.url();
    },
    (url) => url.includes('at='),
  );
  await training(browser, ask, moments.job);
  await inference(browser, moments.graph);
  await machines(browser, moments.machine, machine);
}

/** What is told of a moment tells of nothing that came after it. */
async function told(browser, path, at) {
  const { page } = browser;
  for (const tab of ['why', 'history', 'events', 'yaml', 'about']) {
    await browser.go(`${path}?tab=${tab}&at=${at}`);
    const place = page.locator('[role=tabpanel]');
    if (tab === 'why' || tab === 'history') await browser.see(`[data-testid=${tab}] li`);
    await place.locator('section, pre, table, [data-testid=empty]').first().waitFor();
    const text = await place.innerText();
    assert.ok(!/cannot be (shown|read)/.test(text), `${path} ${tab}: ${text}`);
    const revisions = [...text.matchAll(/revision:? (\d+)/g)].map(([, number]) => Number(number));
    const later = revisions.filter((revision) => revision > Number(at));
    assert.deepEqual(later, [], `${tab} of ${path} at ${at}`);
    if (tab === 'why' || tab === 'history') assert.ok(revisions.length > 0, text);
  }
}

async function training(browser, ask, { at, body }) {
  const { page } = browser;
  await browser.go(`${JOB}?at=${at}`);
  const percent = body.status.trainerStatus.progressPercentage;
  await browser.until(
    'as far as it was',
    () => browser.text('[data-testid=percent]'),
    (text) => text === `${percent}%`,
  );
  await browser.see('.state:has-text("running")');
  // Revisions are not even in time: the bar says when this one was.
  const { body: line } = await ask('GET', `/apis/history.setpoint.dev/v1/timeline?at=${at}`);
  const time = await page.evaluate((time) => {
    const part = '2-digit';
    const parts = { hour: part, minute: part, second: part };
    return new Date(time).toLocaleTimeString(undefined, parts);
  }, line.at.time);
  await browser.see(`[data-testid=moment-label]:has-text("${time}")`);
  for (const rank of [0, 1, 2]) {
    await browser.see(`[data-testid=ranks] tr:has-text("node-${rank}"):has-text("Running")`);
  }
  assert.ok(await page.locator('[data-testid=suspend]').isDisabled(), 'it cannot be held then');
  const points = () =>
    page.locator('[data-testid=chart]').first().getAttribute('data-points').then(Number);
  await browser.until('what was reported until then', points, (count) => count > 1);
  await browser.inspect('then-training');
  await told(browser, JOB, at);
}

async function inference(browser, { at }) {
  const { page } = browser;
  await browser.go(`${GRAPH}?at=${at}`);
  await browser.see('[data-testid=component-Decode][data-wanted="1"]');
  await browser.see('.state:has-text("serving")');
  assert.ok(await page.locator('[data-testid=question]').isDisabled(), 'the past answers nobody');
  assert.ok(await page.locator('[data-testid=more-Decode]').isDisabled());
  await browser.inspect('then-inference');
  await told(browser, GRAPH, at);
  await browser.go(GRAPH);
  await browser.see('[data-testid=component-Decode][data-wanted="2"]');
}

async function machines(browser, { at }, name) {
  const { page } = browser;
  await browser.go(`${MACHINES}/${name}?at=${at}`);
  await browser.until(
    'it ran',
    () => browser.text('[data-testid=power]'),
    (text) => text === 'Running',
  );
  await browser.see('text=Consoles are only available live');
  assert.ok(await page.locator('[data-testid=vm-stop]').isDisabled());
  await browser.inspect('then-machine');
  await told(browser, `${MACHINES}/${name}`, at);
}
