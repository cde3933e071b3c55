// CRUD, patches and lists with the typed API.

import assert from "node:assert/strict";
import * as k8s from "@kubernetes/client-node";

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = "node";

async function refused(promise) {
  const error = await promise.then(() => null, (error) => error);
  assert(error instanceof k8s.ApiException, `it went through, or ${error}`);
  return { code: error.code, status: JSON.parse(error.body) };
}

const space = await core.createNamespace({ body: { metadata: { name: namespace } } });
assert.equal(space.status.phase, "Active");

const body = { metadata: { name: "a", labels: { app: "a" } }, data: { x: "1" } };
const made = await core.createNamespacedConfigMap({ namespace, body });
assert(made.metadata.uid && made.metadata.creationTimestamp instanceof Date);
made.data.y = "2";
const replaced = await core.replaceNamespacedConfigMap({ name: "a", namespace, body: made });
assert.deepEqual(replaced.data, { x: "1", y: "2" });
const conflict = await refused(
  core.replaceNamespacedConfigMap({ name: "a", namespace, body: made }),
);
assert.equal(conflict.code, 409);
assert.equal(conflict.status.reason, "Conflict");
const missing = await refused(core.readNamespacedConfigMap({ name: "none", namespace }));
assert.equal(missing.code, 404);
assert.equal(missing.status.message, 'configmaps "none" not found');

for (let index = 0; index < 5; index += 1) {
  const labels = { app: "many", index: `${index}` };
  const body = { metadata: { name: `many-${index}`, labels } };
  await core.createNamespacedConfigMap({ namespace, body });
}
async function names(options) {
  const list = await core.listNamespacedConfigMap({ namespace, ...options });
  return list.items.map((item) => item.metadata.name);
}
assert.deepEqual(await names({ labelSelector: "index in (1,3)" }), ["many-1", "many-3"]);
assert.deepEqual(await names({ fieldSelector: "metadata.name=a" }), ["a"]);
const labelSelector = "app=many";
const page = await core.listNamespacedConfigMap({ namespace, labelSelector, limit: 3 });
assert.equal(page.items.length, 3);
const rest = await names({ labelSelector, limit: 3, _continue: page.metadata._continue });
assert.deepEqual(rest, ["many-3", "many-4"]);

const labels = { app: "web" };
const containers = [{ name: "main", image: "nginx" }];
const deployment = {
  metadata: { name: "web" },
  spec: {
    replicas: 2,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers } },
  },
};
await apps.createNamespacedDeployment({ namespace, body: deployment });
async function patch(strategy, body) {
  const options = k8s.setHeaderOptions("Content-Type", strategy);
  return apps.patchNamespacedDeployment({ name: "web", namespace, body }, options);
}
const side = { spec: { template: { spec: { containers: [{ name: "side", image: "b" }] } } } };
const strategic = await patch(k8s.PatchStrategy.StrategicMergePatch, side);
assert.equal(strategic.spec.template.spec.containers.length, 2);
const merged = await patch(k8s.PatchStrategy.MergePatch, side);
assert.deepEqual(merged.spec.template.spec.containers.map((one) => one.name), ["side"]);
const operations = [{ op: "replace", path: "/spec/replicas", value: 7 }];
const replicas = (await patch(k8s.PatchStrategy.JsonPatch, operations)).spec.replicas;
assert.equal(replicas, 7);
const wrong = await refused(patch(k8s.PatchStrategy.MergePatch, { spec: { replicas: -1 } }));
assert.equal(wrong.code, 422);
assert.equal(wrong.status.details.causes[0].field, "spec.replicas");
const scale = await apps.readNamespacedDeploymentScale({ name: "web", namespace });
assert.equal(scale.spec.replicas, 7);

const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata: { name: "q", namespace } };
await objects.create({ ...quota, spec: { hard: { pods: "5" } } });
assert.equal((await objects.read(quota)).spec.hard.pods, "5");
await objects.delete(quota);

await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector });
assert.deepEqual(await names({ labelSelector }), []);
await apps.deleteNamespacedDeployment({ name: "web", namespace });
assert.equal((await refused(apps.readNamespacedDeployment({ name: "web", namespace }))).code, 404);
