"""Server-side apply with the typed API."""

import json

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core = client.CoreV1Api()


def apply(manager, data, **options):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }
    return core.patch_namespaced_config_map(
        "settings",
        "default",
        body,
        field_manager=manager,
        _content_type="application/apply-patch+yaml",
        **options,
    )


made = apply("mine", {"a": "1", "b": "1"})
assert made.data == {"a": "1", "b": "1"}, made.data
entry = made.metadata.managed_fields[0]
assert (entry.manager, entry.operation) == ("mine", "Apply"), entry
assert entry.fields_v1 == {"f:data": {"f:a": {}, "f:b": {}}}, entry.fields_v1
again = apply("mine", {"a": "1", "b": "1"})
assert again.metadata.resource_version == made.metadata.resource_version
try:
    apply("other", {"a": "2"})
    raise AssertionError("it went through")
except ApiException as error:
    assert error.status == 409, error
    causes = json.loads(error.body)["details"]["causes"]
    assert [cause["field"] for cause in causes] == [".data.a"], causes
assert apply("other", {"a": "2"}, force=True).data == {"a": "2", "b": "1"}
assert apply("mine", {}).data == {"a": "2"}
