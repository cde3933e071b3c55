// The pages of what people run: a training job, an inference graph, a machine.

import assert from 'node:assert/strict';

export const JOB = '/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/line';
export const GRAPH = '/apis/nvidia.com/v1beta1/namespaces/default/dynamographdeployments/split';
export const MACHINES = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';

/** What is shown of an object, and when that was. */
async function moment(ask, path) {
  const { body } = await ask('GET', path);
  return { at: body.metadata.resourceVersion, body };
}

export async function training(browser, ask) {
  const { page } = browser;
  await browser.go('/o/trainer.kubeflow.org/v1alpha1/trainjobs/default/line');
  const percent = async () => Number.parseInt(await browser.text('[data-testid=percent]'), 10);
  const before = await browser.until('progress', percent, (value) => value > 0);
  await browser.see('[data-testid=ranks] >> text=node-2');
  for (const rank of [0, 1, 2]) {
    await browser.see(`[data-testid=output] >> text=rank ${rank} of 3 begins`);
  }
  const points = async () =>
    Number(await page.locator('[data-testid=chart]').first().getAttribute('data-points'));
  const first = await points();
  await browser.until('the chart grows', points, (count) => count > first && count > 1);
  await browser.until('more progress', percent, (value) => value > before || value >= 99);
  const isDrawn = await page.evaluate(() => {
    const canvas = document.querySelector('[data-testid=chart] canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((byte) => byte !== 0);
  });
  assert.ok(isDrawn, 'the chart must have a line');
  await browser.see('[data-testid=chart]:has-text("loss")');
  for (const rank of [0, 1, 2]) {
    await browser.see(`[data-testid=ranks] tr:has-text("node-${rank}"):has-text("Running")`);
  }
  await browser.inspect('training');
  await pictured(browser);
  // One rank alone, and all of them again.
  await page.selectOption('select[aria-label="Pod"]', 'node-1');
  await browser.until(
    'one rank alone',
    () => browser.text('[data-testid=output]'),
    (text) => text.includes('rank 1 of 3') && !text.includes('rank 0 of 3'),
  );
  await page.selectOption('select[aria-label="Pod"]', '');
  const then = await moment(ask, JOB);
  await page.click('[data-testid=suspend]');
  await browser.see('dialog >> text=setpoint train stop line -n default');
  await page.click('[data-testid=confirm]');
  await browser.see('text=line suspended');
  await browser.see('.state:has-text("suspended")');
  return then;
}

/** The picture of the README: a job with a live loss curve. */
async function pictured(browser) {
  const { page } = browser;
  await browser.go('/o/trainer.kubeflow.org/v1alpha1/trainjobs/default/two-moons');
  const points = () => page.locator('[data-testid=chart]').first().getAttribute('data-points');
  await browser.until('a curve', points, (count) => Number(count) > 40, 120_000);
  await page.setViewportSize({ width: 1_280, height: 800 });
  await browser.picture('console');
  await page.setViewportSize({ width: 1_360, height: 860 });
  await browser.go('/o/trainer.kubeflow.org/v1alpha1/trainjobs/default/line');
}

export async function models(browser, ask) {
  const { page } = browser;
  await browser.go('/o/nvidia.com/v1beta1/dynamographdeployments/default/split');
  for (const name of ['Frontend', 'Prefill', 'Decode']) {
    const part = page.locator(`[data-testid=component-${name}]`);
    await browser.until(
      `${name} is ready`,
      () => part.getAttribute('data-ready'),
      (ready) => ready === '1',
      240_000,
    );
  }
  await browser.see('.state:has-text("serving")');
  // A model is known to the frontend a moment after its workers are ready.
  await browser.until(
    'an answer',
    async () => {
      await page.fill('[data-testid=tokens]', '32');
      await page.fill('[data-testid=question]', 'tell me of the fox');
      await page.click('[data-testid=send]');
      await page.locator('[data-testid=stop-chat]').waitFor({ state: 'detached' });
      return page.locator('[data-testid=answer]').last().innerText({ timeout: 1_000 });
    },
    (answer) => answer !== '(empty answer)' && answer.trim().length > 3,
    120_000,
  );
  await browser.inspect('inference');
  const then = await moment(ask, GRAPH);
  await page.click('[data-testid=more-Decode]');
  await browser.see('dialog >> text=setpoint serve scale split Decode 2 -n default');
  await page.click('[data-testid=confirm]');
  const wanted = page.locator('[data-testid=component-Decode]');
  await browser.until(
    'two are wanted',
    () => wanted.getAttribute('data-wanted'),
    (count) => count === '2',
  );
  await browser.picture('inference-scaled');
  return then;
}

export async function machines(browser, ask, name) {
  const { page } = browser;
  await browser.go(`/o/kubevirt.io/v1/virtualmachines/default/${name}`);
  await browser.until(
    'it runs',
    () => browser.text('[data-testid=power]'),
    (text) => text === 'Running',
    120_000,
  );
  await browser.see('[data-testid=serial][data-state=connected]');
  // What is typed before the shell is there is lost.
  const serial = page.locator('[data-testid=serial]');
  const type = async () => {
    await serial.focus();
    await page.keyboard.type('echo answer-$((40+2))');
    await page.keyboard.press('Enter');
    await page.waitForTimeout(500);
    return serial.innerText();
  };
  await browser.until('the shell answers', type, (text) => text.includes('answer-42'), 180_000);
  await browser.inspect('machine');
  await page.click('[data-testid=show-screen]');
  await browser.see('[data-testid=screen][data-state=connected]');
  const isBlank = () =>
    page.evaluate(() => {
      const canvas = document.querySelector('[data-testid=screen] canvas');
      if (!canvas?.width) return true;
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return !data.some((byte, index) => index % 4 !== 3 && byte > 0);
    });
  await browser.until('the screen shows something', isBlank, (blank) => blank === false);
  await browser.inspect('machine-screen');
  for (const [deed, shown] of [
    ['pause', 'Paused'],
    ['unpause', 'Running'],
  ]) {
    await page.click(`[data-testid=vm-${deed}]`);
    await page.click('[data-testid=confirm]');
    await browser.until(
      deed,
      () => browser.text('[data-testid=power]'),
      (text) => text === shown,
    );
  }
  const then = await moment(ask, `${MACHINES}/${name}`);
  await page.click('[data-testid=vm-stop]');
  await browser.see(`dialog >> text=setpoint vm stop ${name} -n default`);
  await page.click('[data-testid=confirm]');
  await browser.until(
    'it stops',
    () => browser.text('[data-testid=power]'),
    (text) => text === 'Stopped',
    120_000,
  );
  await browser.see('text=The machine is not running, so it has no console.');
  return then;
}
