// Failing work: the overview has one row for each workload with its last log line, and the pages of
// graphs and pods show why they fail.

import assert from 'node:assert/strict';

const GRAPHS = '/o/nvidia.com/v1beta1/dynamographdeployments/default';
const HOUR = 3_600_000;

const row = (page, title) => page.locator(`[data-testid=problem]:has(h3 a:text-is("${title}"))`);

export async function overview(browser) {
  const { page } = browser;
  await browser.go('/');
  for (const name of ['Training jobs', 'Graphs', 'Machines', 'Nodes']) {
    await browser.see(`[data-counter="${name}"] strong`);
  }
  await browser.see('[data-counter=Nodes]:has-text("1 ready")');
  const more = page.locator('button:has-text(" more")');
  if (await more.count()) await more.click();
  // A workload and its pods are one row, which has the last line of the log.
  for (const [title, line, pods] of [
    ['Pod broken: CrashLoopBackOff', 'no model', 0],
    ['Job ends failed', 'disk quota exceeded', 1],
    ['Deployment site is failing', 'permission denied', 2],
    ['Graph crashing is failing', 'CUDA is not available', 2],
  ]) {
    const found = row(page, title);
    await found.locator(`[data-testid=last-line]:has-text("${line}")`).waitFor();
    assert.equal(await found.count(), 1, title);
    await browser.until(
      `pods of ${title}`,
      () => found.locator('.pods a').count(),
      (count) => count === pods,
    );
  }
  await row(page, 'Pod large is unschedulable').waitFor();
  const titles = await page.locator('[data-testid=problem] h3').allInnerTexts();
  const repeated = titles.filter((title) => /^Pod (ends|site|crashing)/.test(title));
  assert.deepEqual(repeated, [], 'pods are part of the row of their owner');
  await browser.see('section:has(#inference) a:has-text("crashing") .tone-bad:has-text("failing")');
  await browser.see('section:has(#training) >> text=line');
  await browser.inspect('overview');
  await dismissed(browser);
  await later(browser);
}

async function dismissed(browser) {
  const { page } = browser;
  const ends = row(page, 'Job ends failed');
  await ends.locator('[data-testid=dismiss]').click();
  await ends.waitFor({ state: 'detached' });
  await browser.go('/');
  await browser.see('button:has-text("Show again")');
  assert.equal(await ends.count(), 0, 'a dismissed problem stays away');
  await page.click('button:has-text("Show again")');
  await ends.waitFor();
}

/** The overview as it is some hours later. */
async function later(browser) {
  const token = await browser.page.evaluate(() => sessionStorage.getItem('setpoint.token'));
  for (const [hours, isShown] of [
    [2, true],
    [25, false],
  ]) {
    const page = await browser.context.newPage();
    await page.addInitScript(
      ([token, shift]) => {
        sessionStorage.setItem('setpoint.token', token);
        const real = Date.now.bind(Date);
        Date.now = () => real() + shift;
      },
      [token, hours * HOUR],
    );
    await page.goto(`${browser.base}/console/`);
    await page.locator('section:has(#older) h3 a:text-is("Pod large is unschedulable")').waitFor();
    const order = await page.evaluate(() => {
      const [work, older] = ['training', 'older'].map((id) => document.getElementById(id));
      return work.compareDocumentPosition(older) & Node.DOCUMENT_POSITION_FOLLOWING;
    });
    assert.ok(order, 'running work comes before old problems');
    assert.equal((await row(page, 'Job ends failed').count()) > 0, isShown, `after ${hours} h`);
    await page.close();
  }
}

export async function graph(browser) {
  await browser.go(`${GRAPHS}/crashing`);
  await browser.see('[data-testid=graph-state] .tone-bad:has-text("failing")');
  await browser.see('[data-testid=component-Worker].tone-bad');
  const pods = '[data-testid=graph-pods]';
  await browser.see(`${pods} tr:has-text("Worker") .tone-bad`);
  await browser.see(`${pods} [data-testid=last-line]:has-text("CUDA is not available")`);
  await browser.see(`${pods} [data-testid=last-line]:has-text("No module named")`);
  await browser.inspect('graph-failing');
}

/** Answers that are not streamed, several turns, and as many tokens as the user wants. */
export async function chat(browser) {
  const { page } = browser;
  await browser.go(`${GRAPHS}/echo`);
  await browser.see('[data-testid=graph-state] >> text=serving');
  const sent = [];
  page.on('request', (request) => {
    if (request.url().endsWith('/chat/completions')) sent.push(JSON.parse(request.postData()));
  });
  const say = async (text, turn) => {
    await page.fill('[data-testid=question]', text);
    await page.click('[data-testid=send]');
    const answer = page.locator('[data-testid=answer]').nth(turn);
    await browser.until(`the answer to ${text}`, () => answer.innerText(), (said) => said === text);
  };
  await say('the quick brown fox', 0);
  await page.fill('[data-testid=tokens]', '7');
  await say('and its second question', 1);
  await page.fill('[data-testid=tokens]', '');
  await say('no limit', 2);
  assert.deepEqual(sent.map(({ messages }) => messages.length), [1, 3, 5], 'turns are sent along');
  assert.deepEqual(sent.map((one) => one.max_tokens), [512, 7, undefined]);
  await browser.inspect('chat');
  await page.click('[data-testid=new-chat]');
  assert.equal(await page.locator('[data-testid=answer]').count(), 0);
}

export async function pod(browser) {
  const { page } = browser;
  await browser.go('/o/core/v1/pods/default/broken');
  await browser.see('[data-testid=pod-state] .tone-bad');
  await browser.see('[data-testid=pod-failure] [data-testid=last-line]:has-text("no model")');
  const cells = page.locator('[data-testid=containers] tbody td');
  assert.equal(await cells.nth(0).innerText(), 'main');
  assert.equal(await cells.nth(3).innerText(), '3', 'the exit code');
  await browser.inspect('pod');
}

/** Columns of training jobs; on a telephone the state is beside the name. */
export async function jobs(browser) {
  const { page } = browser;
  await browser.go('/k/trainer.kubeflow.org/v1alpha1/trainjobs');
  await browser.see('[role=columnheader] >> text=Name');
  const heads = await page.locator('[role=columnheader] button').allInnerTexts();
  const names = heads.map((name) => name.trim());
  for (const name of ['State', 'Progress', 'Loss', 'Nodes', 'Duration']) {
    assert.ok(names.includes(name), `${name} of ${names}`);
  }
  const cell = (name) =>
    page
      .locator('[data-row]:has(a:text-is("line")) [role=cell]')
      .nth(1 + names.indexOf(name))
      .innerText();
  await browser.until('its state', () => cell('State'), (text) => text === 'running');
  await browser.until('its progress', () => cell('Progress'), (text) => /^\d+%$/.test(text));
  await browser.until('its loss', () => cell('Loss'), (text) => Number(text) >= 0);
  assert.equal(await cell('Nodes'), '3');
  assert.match(await cell('Duration'), /\d+[smh]/);
  await browser.inspect('jobs');
}

/** Every kind is in its card, and short names are on one line. */
export async function kindsLayout(browser) {
  const broken = await browser.page.evaluate(() => {
    const found = [];
    for (const item of document.querySelectorAll('.groups li')) {
      const card = item.closest('section').getBoundingClientRect();
      for (const part of item.children) {
        const box = part.getBoundingClientRect();
        const isTall = part.tagName === 'SPAN' && box.height > 30;
        if (box.right > card.right + 1 || isTall) found.push(part.textContent);
      }
    }
    return found;
  });
  assert.deepEqual(broken, [], 'kinds that do not fit');
}
