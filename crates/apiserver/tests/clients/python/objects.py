"""CRUD, patches, lists and watches with the typed API."""

import json

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()


def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        return error
    raise AssertionError(f"{call.__name__} went through")


def metadata(name, **more):
    return client.V1ObjectMeta(name=name, **more)


# Namespaces.
space = core.create_namespace(client.V1Namespace(metadata=metadata("python")))
assert space.status.phase == "Active", space.status
assert "python" in [one.metadata.name for one in core.list_namespace().items]

# Config maps.
body = client.V1ConfigMap(metadata=metadata("a", labels={"app": "a"}), data={"x": "1"})
made = core.create_namespaced_config_map("python", body)
assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo, made.metadata
made.data["y"] = "2"
replaced = core.replace_namespaced_config_map("a", "python", made)
assert replaced.data == {"x": "1", "y": "2"}, replaced.data
conflict = refused(core.replace_namespaced_config_map, "a", "python", made)
assert conflict.status == 409, conflict
status = json.loads(conflict.body)
assert status["kind"] == "Status" and status["reason"] == "Conflict", status
assert status["details"] == {"name": "a", "kind": "configmaps"}, status
missing = json.loads(refused(core.read_namespaced_config_map, "none", "python").body)
assert missing["message"] == 'configmaps "none" not found', missing
assert missing["code"] == 404 and missing["reason"] == "NotFound", missing
exists = refused(core.create_namespaced_config_map, "python", body)
assert exists.status == 409 and json.loads(exists.body)["reason"] == "AlreadyExists", exists

# Lists.
for index in range(6):
    labels = {"app": "many", "index": str(index)}
    body = client.V1ConfigMap(metadata=metadata(f"many-{index}", labels=labels))
    core.create_namespaced_config_map("python", body)


def names(**options):
    found = core.list_namespaced_config_map("python", **options)
    return [one.metadata.name for one in found.items]


assert names(label_selector="app=many,index in (1,4)") == ["many-1", "many-4"]
assert "a" not in names(label_selector="app!=a")
assert names(field_selector="metadata.name=many-2") == ["many-2"]
page = core.list_namespaced_config_map("python", label_selector="app=many", limit=4)
assert len(page.items) == 4 and page.metadata._continue, page.metadata
rest = core.list_namespaced_config_map(
    "python", label_selector="app=many", limit=4, _continue=page.metadata._continue
)
assert len(rest.items) == 2 and not rest.metadata._continue, rest.metadata
assert rest.metadata.resource_version == page.metadata.resource_version
wrong = refused(core.list_namespaced_config_map, "python", label_selector="a in b")
assert wrong.status == 400, wrong
wrong = refused(core.list_namespaced_config_map, "python", _continue="nonsense")
assert wrong.status == 400, wrong

# Deployments, and patches of three kinds.
container = client.V1Container(name="main", image="nginx")
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels={"app": "web"}),
    spec=client.V1PodSpec(containers=[container]),
)
selector = client.V1LabelSelector(match_labels={"app": "web"})
spec = client.V1DeploymentSpec(replicas=2, selector=selector, template=template)
deployment = client.V1Deployment(metadata=metadata("web"), spec=spec)
made = apps.create_namespaced_deployment("python", deployment)
assert made.spec.strategy.rolling_update.max_surge == "25%", made.spec.strategy


def patched(body, kind):
    return apps.patch_namespaced_deployment(
        "web", "python", body, _content_type=f"application/{kind}"
    ).spec.template.spec.containers


def with_containers(*containers):
    return {"spec": {"template": {"spec": {"containers": list(containers)}}}}


strategic = with_containers({"name": "side", "image": "busybox"})
found = patched(strategic, "strategic-merge-patch+json")
assert sorted(one.name for one in found) == ["main", "side"], found
merge = with_containers({"name": "only", "image": "caddy"})
assert [one.name for one in patched(merge, "merge-patch+json")] == ["only"]
path = "/spec/template/spec/containers/0/image"
found = patched([{"op": "replace", "path": path, "value": "httpd"}], "json-patch+json")
assert found[0].image == "httpd", found
invalid = refused(apps.patch_namespaced_deployment, "web", "python", {"spec": {"replicas": -1}})
assert invalid.status == 422, invalid
causes = json.loads(invalid.body)["details"]["causes"]
assert causes[0]["field"] == "spec.replicas", causes
scale = apps.patch_namespaced_deployment_scale("web", "python", {"spec": {"replicas": 3}})
assert scale.spec.replicas == 3, scale
update = {"status": {"replicas": 1}}
status = apps.patch_namespaced_deployment_status("web", "python", update).status
assert status.replicas == 1, status

# Pods.
account = client.V1ServiceAccount(metadata=metadata("default"))
try:
    core.create_namespaced_service_account("python", account)
except ApiException as error:
    assert error.status == 409, error
pod = client.V1Pod(metadata=metadata("p"), spec=client.V1PodSpec(containers=[container]))
core.create_namespaced_pod("python", pod)
found = core.read_namespaced_pod("p", "python")
assert found.status.phase == "Pending" and found.spec.dns_policy == "ClusterFirst", found
gone = core.delete_namespaced_pod("p", "python", grace_period_seconds=0)
assert refused(core.read_namespaced_pod, "p", "python").status == 404

# Watches.
start = core.list_namespaced_config_map("python").metadata.resource_version
core.patch_namespaced_config_map("a", "python", {"data": {"x": "9"}})
core.create_namespaced_config_map("python", client.V1ConfigMap(metadata=metadata("late")))
core.delete_namespaced_config_map("late", "python")
seen = []
stream = watch.Watch()
for event in stream.stream(
    core.list_namespaced_config_map, "python", resource_version=start, timeout_seconds=20
):
    seen.append((event["type"], event["object"].metadata.name))
    if len(seen) == 3:
        stream.stop()
assert seen == [("MODIFIED", "a"), ("ADDED", "late"), ("DELETED", "late")], seen

# Collections.
core.delete_collection_namespaced_config_map("python", label_selector="app=many")
assert names(label_selector="app=many") == []
apps.delete_namespaced_deployment("web", "python", propagation_policy="Background")
assert refused(apps.read_namespaced_deployment, "web", "python").status == 404
