"""Waits until the leader of a replica answers: it has a name, its pod runs, and its port is open."""
import json
import os
import socket
import ssl
import time
import urllib.request

HOST, PORT = os.environ["LEADER_HOST"], int(os.environ["LEADER_PORT"])
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PAUSE, PROGRESS = 5, 30


def pod_runs(address):
    """Whether the pod at an address runs and is not about to go; true if nobody can say."""
    try:
        namespace = open(ACCOUNT + "/namespace").read().strip()
        token = open(ACCOUNT + "/token").read().strip()
        server = "https://%s:%s" % (
            os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"])
        url = "%s/api/v1/namespaces/%s/pods?fieldSelector=status.podIP=%s" % (
            server, namespace, address)
        request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
        trust = ssl.create_default_context(cafile=ACCOUNT + "/ca.crt")
        with urllib.request.urlopen(request, context=trust, timeout=5) as answer:
            pods = json.load(answer)["items"]
    except Exception:
        return True
    return any(pod["status"].get("phase") == "Running"
               and not pod["metadata"].get("deletionTimestamp") for pod in pods)


def answers():
    try:
        address = socket.getaddrinfo(HOST, PORT, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return "no address of " + HOST
    if not pod_runs(address):
        return "the pod at " + address + " does not run"
    try:
        socket.create_connection((address, PORT), 2).close()
    except OSError as error:
        return "%s:%d: %s" % (address, PORT, error)
    return None


time.sleep(PAUSE)
began = told = time.monotonic()
while (why := answers()) is not None:
    if time.monotonic() - told >= PROGRESS:
        told = time.monotonic()
        print("waiting for %s for %d s: %s" % (HOST, told - began, why), flush=True)
    time.sleep(PAUSE)
print("the leader answers", flush=True)
