"""An operator as people write them with kopf: a Note asks for a ConfigMap with its text."""

import kopf
import kubernetes


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "example.com/kopf"
    kubernetes.config.load_kube_config()


def core():
    return kubernetes.client.CoreV1Api()


@kopf.on.create("example.com", "v1", "notes")
def created(body, spec, name, namespace, **_):
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name + "-text"},
        "data": {"text": spec["text"]},
    }
    kopf.adopt(child)
    core().create_namespaced_config_map(namespace, child)
    kopf.info(body, reason="Written", message="the text is written")
    return {"child": name + "-text"}


@kopf.on.update("example.com", "v1", "notes", field="spec.text")
def changed(old, new, name, namespace, patch, **_):
    core().patch_namespaced_config_map(name + "-text", namespace, {"data": {"text": new}})
    patch.status["last"] = f"{old} -> {new}"


@kopf.on.delete("example.com", "v1", "notes")
def deleted(name, namespace, **_):
    farewell = {"metadata": {"name": name + "-farewell"}}
    core().create_namespaced_config_map(namespace, farewell)


@kopf.on.field("example.com", "v1", "notes", field="metadata.labels.loud", value="yes")
def loud(patch, **_):
    patch.status["loud"] = True
