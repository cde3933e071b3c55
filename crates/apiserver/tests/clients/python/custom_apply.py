"""Server-side apply of a custom object, which the Python client sends as a dictionary."""

import json

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
definitions = client.ApiextensionsV1Api()
objects = client.CustomObjectsApi()

entry = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
}
entries = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": entry,
}
properties = {
    "spec": {"type": "object", "properties": {"colour": {"type": "string"}, "parts": entries}},
    "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
}
definitions.create_custom_resource_definition(
    {
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "toys", "kind": "Toy"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }
)

PLACE = ("example.com", "v1", "default", "toys", "a")


def toy(**fields):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Toy",
        "metadata": {"name": "a"},
        **fields,
    }


def apply(manager, spec, **options):
    return objects.patch_namespaced_custom_object(
        *PLACE,
        toy(spec=spec),
        field_manager=manager,
        _content_type="application/apply-patch+yaml",
        **options,
    )


def owners(made):
    entries = made["metadata"]["managedFields"]
    return {(e["manager"], e["operation"], e.get("subresource", "")): e["fieldsV1"] for e in entries}


# The client answers nothing for what is created so: it knows only the status 200 of a patch.
apply("mine", {"colour": "red", "parts": [{"name": "x", "size": 1}]})
made = objects.get_namespaced_custom_object(*PLACE)
part = {".": {}, "f:name": {}, "f:size": {}}
expected = {"f:spec": {"f:colour": {}, "f:parts": {'k:{"name":"x"}': part}}}
assert owners(made) == {("mine", "Apply", ""): expected}, made
both = apply("other", {"parts": [{"name": "y", "size": 2}]})
names = [part["name"] for part in both["spec"]["parts"]]
assert names == ["x", "y"], both
try:
    apply("other", {"colour": "blue", "parts": [{"name": "y", "size": 2}]})
    raise AssertionError("it went through")
except ApiException as error:
    assert error.status == 409, error
    status = json.loads(error.body)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.colour"], status
forced = apply("other", {"colour": "blue"}, force=True)
assert forced["spec"] == {"colour": "blue", "parts": [{"name": "x", "size": 1}]}, forced
seen = objects.patch_namespaced_custom_object_status(
    *PLACE,
    toy(status={"seen": 1}),
    field_manager="watcher",
    _content_type="application/apply-patch+yaml",
)
assert seen["status"] == {"seen": 1} and seen["spec"] == forced["spec"], seen
assert owners(seen)[("watcher", "Apply", "status")] == {"f:status": {"f:seen": {}}}, seen
