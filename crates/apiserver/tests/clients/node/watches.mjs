// A watch, and an informer that holds the state.

import assert from "node:assert/strict";
import * as k8s from "@kubernetes/client-node";

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = "default";
const path = `/api/v1/namespaces/${namespace}/configmaps`;

// Ends the program, and fails it, if what is waited for does not happen.
const patience = setTimeout(() => assert.fail("it did not happen in time"), 30_000);

const make = (name) => core.createNamespacedConfigMap({
  namespace, body: { metadata: { name, labels: { app: "a" } }, data: { x: "1" } },
});
const change = (name) => core.patchNamespacedConfigMap(
  { name, namespace, body: { data: { x: "2" } } },
  k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.MergePatch),
);
const remove = (name) => core.deleteNamespacedConfigMap({ name, namespace });

// A watch from a revision.
const start = (await core.listNamespacedConfigMap({ namespace })).metadata.resourceVersion;
await make("one");
await change("one");
await remove("one");
const seen = [];
await new Promise((resolve, reject) => {
  const watch = new k8s.Watch(config);
  let request;
  const each = (type, object) => {
    seen.push(`${type} ${object.metadata.name}`);
    if (seen.length === 3) {
      request.then((controller) => controller.abort());
      resolve();
    }
  };
  const done = (error) => (seen.length === 3 ? resolve() : reject(error));
  request = watch.watch(path, { resourceVersion: start }, each, done);
});
assert.deepEqual(seen, ["ADDED one", "MODIFIED one", "DELETED one"]);

// An informer.
await make("old");
const informer = k8s.makeInformer(
  config, path, () => core.listNamespacedConfigMap({ namespace, labelSelector: "app=a" }), "app=a",
);
const until = (verb, name) => new Promise((resolve, reject) => {
  informer.on(verb, (object) => object.metadata.name === name && resolve());
  informer.on("error", reject);
});
const [added, updated, deleted] =
  [until("add", "new"), until("update", "new"), until("delete", "old")];
await informer.start();
await make("new");
await added;
await change("new");
await updated;
await remove("old");
await deleted;
assert.equal(informer.get("new", namespace).data.x, "2");
assert.equal(informer.get("old", namespace), undefined);
await informer.stop();
clearTimeout(patience);
