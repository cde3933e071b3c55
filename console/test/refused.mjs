// Somebody who may see a job, a graph, a machine and a deployment, and nothing of what they are made
// of: each page says what is not allowed, and shows the rest.

import assert from 'node:assert/strict';

const JOB = '/o/trainer.kubeflow.org/v1alpha1/trainjobs/default/line';
const GRAPH = '/o/nvidia.com/v1beta1/dynamographdeployments/default/split';
const HELLO = '/o/apps/v1/deployments/default/hello';

export async function refused(browser, name) {
  const { page } = browser;
  await pages(browser);
  await browser.go(JOB);
  await browser.see('[data-testid=percent]');
  await browser.see('[data-testid=ranks] >> text=You may not see pods here');
  await browser.inspect('refused-training');
  await page.click('[data-testid=suspend]');
  await page.click('[data-testid=confirm]');
  await browser.see('dialog [role=alert] >> text=cannot patch resource "trainjobs"');
  await browser.inspect('refused-deed');
  await page.click('dialog button:has-text("Cancel")');

  await browser.go(GRAPH);
  await browser.see('[data-testid=component-Frontend]');
  await browser.see('[data-testid=revisions-refused] >> text=cannot list resource');
  await page.fill('[data-testid=question]', 'is anybody there');
  await page.click('[data-testid=send]');
  await browser.see('[role=alert] >> text=services/proxy');
  await browser.inspect('refused-inference');

  await browser.go(`/o/kubevirt.io/v1/virtualmachines/default/${name}`);
  await browser.see('[data-testid=power] >> text=Stopped');
  await browser.see('[data-testid=instance-refused] >> text=cannot list resource');
  assert.ok(await page.locator('[data-testid=vm-start]').isDisabled());
  await browser.inspect('refused-machine');

  await browser.go(HELLO);
  await browser.see('text=Available: Deployment has minimum availability.');
  await browser.see('[data-testid=tree-refused] >> text=ReplicaSet');
  await browser.inspect('refused-object');
  await page.click('[data-testid=tab-events]');
  await browser.see('[data-testid=list-failed] >> text=You may not see events');
  await page.click('[data-testid=tab-yaml]');
  await browser.see('[data-testid=yaml] >> text=replicas:');
  for (const [tab, title] of [
    ['history', 'The history cannot be read'],
    ['why', 'The trace cannot be read'],
  ]) {
    await page.click(`[data-testid=tab-${tab}]`);
    await browser.see(`[data-testid=empty]:has-text("${title}"):has-text("history.setpoint.dev")`);
    await browser.inspect(`refused-${tab}`);
  }
  // What may be seen may be seen as it was, and nothing else.
  await page.click('[data-testid=earlier]');
  await browser.see('[data-testid=moment-label] >> text=read-only');
  await page.click('[data-testid=tab-yaml]');
  await browser.see('[data-testid=yaml] >> text=replicas:');
  await page.click('nav[aria-label=Console] a:has-text("Pods")');
  await browser.see('[data-testid=empty] >> text=You may not see Pods here');
  assert.match(page.url(), /at=/, 'a link keeps the moment');
  await browser.go('/o/core/v1/configmaps/tenant/kube-root-ca.crt?tab=history');
  await browser.see('[data-testid=history] li >> text=created');
}

async function pages(browser) {
  await browser.go('/nodes');
  await browser.see('[data-testid=list-failed] >> text=You may not see nodes');
  await browser.inspect('refused-nodes');
  await browser.go('/events?ns=default');
  await browser.see('[data-testid=list-failed] >> text=You may not see events');
  await browser.inspect('refused-events');
  await browser.go('/k/core/v1/pods?ns=default');
  await browser.see('[data-testid=empty] >> text=You may not see Pods here');
  await browser.inspect('refused-kind');
  await browser.go('/o/core/v1/pods/default/broken');
  await browser.see('[data-testid=empty] >> text=You may not see this');
  await browser.go('/kinds');
  await browser.see('a:has-text("TrainJob")');
  await browser.go('/?ns=default');
  await browser.see('[data-testid=refused] >> text=pods');
  await browser.see('section:has(#training) >> text=line');
}
