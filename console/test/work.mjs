// The pages of what people run: a training job, an inference graph, a machine. Each answers with the
// revision at which it was busy, for those who look at it again as it was.

import assert from 'node:assert/strict';

const JOB = 'trainer.kubeflow.org/v1alpha1';
const GRAPH = 'nvidia.com/v1beta1';
const MACHINE = 'kubevirt.io/v1';

export async function training(browser, ask) {
  const { page } = browser;
  await browser.go(`/o/${JOB}/trainjobs/default/line`);
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
  await browser.inspect('training');
  const { body: busy } = await ask('GET', `/apis/${JOB}/namespaces/default/trainjobs/line`);
  await page.click('[data-testid=hold]');
  await browser.see('dialog >> text=setpoint train stop line -n default');
  await page.click('[data-testid=confirm]');
  await browser.see('text=line is held');
  await browser.see('.state:has-text("held")');
  const percentThen = busy.status.trainerStatus.progressPercentage;
  return { at: Number(busy.metadata.resourceVersion), percent: percentThen };
}

export async function models(browser, ask) {
  const { page } = browser;
  await browser.go(`/o/${GRAPH}/dynamographdeployments/default/split`);
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
      await page.fill('[data-testid=question]', 'tell me of the fox');
      await page.click('button:has-text("Ask")');
      await page.locator('button:has-text("Answering")').waitFor({ state: 'detached' });
      return page.locator('[data-testid=answer]').innerText();
    },
    (answer) => answer.replace('split', '').trim().length > 3,
    120_000,
  );
  await browser.inspect('inference');
  const path = `/apis/${GRAPH}/namespaces/default/dynamographdeployments/split`;
  const { body: busy } = await ask('GET', path);
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
  return { at: Number(busy.metadata.resourceVersion) };
}

export async function machines(browser, ask, name) {
  const { page } = browser;
  await browser.go(`/o/${MACHINE}/virtualmachines/default/${name}`);
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
  const path = `/apis/${MACHINE}/namespaces/default/virtualmachines/${name}`;
  const { body: busy } = await ask('GET', path);
  await page.click('[data-testid=vm-stop]');
  await browser.see(`dialog >> text=setpoint vm stop ${name} -n default`);
  await page.click('[data-testid=confirm]');
  await browser.until(
    'it stops',
    () => browser.text('[data-testid=power]'),
    (text) => text === 'Stopped',
    120_000,
  );
  return { at: Number(busy.metadata.resourceVersion) };
}

/** The same pages as they were then: nothing of what came after is on any of them. */
export async function asTheyWere(browser, { job, graph, machine }, name) {
  const { page } = browser;
  const view = `/o/${JOB}/trainjobs/default/line`;
  await browser.go(`${view}?at=${job.at}`);
  await browser.until(
    'the progress of then',
    () => browser.text('[data-testid=percent]'),
    (text) => text === `${job.percent}%`,
  );
  assert.equal(await page.locator('.state:has-text("held")').count(), 0);
  await browser.see('[data-testid=ranks] >> text=node-2');
  await browser.see('[data-testid=chart]');
  await browser.inspect('past-training');
  const revisions = async (testid) => {
    const text = await page.locator(`[data-testid=${testid}]`).innerText();
    return [...text.matchAll(/revision (\d+)/g)].map((found) => Number(found[1]));
  };
  for (const tab of ['why', 'history']) {
    await browser.go(`${view}?tab=${tab}&at=${job.at}`);
    const told = await browser.until(
      `${tab} is told`,
      () => revisions(tab),
      (found) => found.length > 0,
    );
    assert.ok(Math.max(...told) <= job.at, `${tab} tells of ${told} at ${job.at}`);
  }
  await browser.go(`${view}?tab=why&at=${job.at}`);
  await browser.see('[data-testid=why] li');
  await browser.inspect('past-why');
  await browser.go(`/o/${GRAPH}/dynamographdeployments/default/split?at=${graph.at}`);
  const decode = page.locator('[data-testid=component-Decode]');
  await browser.until(
    'one was wanted',
    () => decode.getAttribute('data-wanted'),
    (count) => count === '1',
  );
  await browser.inspect('past-inference');
  if (!machine) return;
  await browser.go(`/o/${MACHINE}/virtualmachines/default/${name}?at=${machine.at}`);
  await browser.until(
    'it ran',
    () => browser.text('[data-testid=power]'),
    (text) => text === 'Running',
  );
  await browser.see('text=Consoles are of now');
  await browser.inspect('past-machine');
}
