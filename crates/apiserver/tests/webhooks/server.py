"""A webhook over HTTPS that does what its path says, and notes what it was asked.

Arguments: certificate file, key file, notes file. Prints its port.
"""

import base64
import http.server
import json
import socketserver
import ssl
import sys
import threading
import time
import urllib.request

certificate, key, notes = sys.argv[1:4]
lock = threading.Lock()


def answer(review, **fields):
    response = {"uid": review["request"]["uid"], "allowed": True}
    response.update(fields)
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def patch(review, *operations):
    text = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return answer(review, patchType="JSONPatch", patch=text)


def label(review, name):
    """Counts in a label how often it was asked about the object."""
    labels = review["request"]["object"]["metadata"].get("labels")
    path = "/metadata/labels/" + name
    if labels is None:
        return patch(review, {"op": "add", "path": "/metadata/labels", "value": {name: "1"}})
    count = str(int(labels.get(name, "0")) + 1)
    return patch(review, {"op": "add", "path": path, "value": count})


def label_once(review, name):
    labels = review["request"]["object"]["metadata"].get("labels") or {}
    return answer(review) if name in labels else label(review, name)


def replicas(review):
    return patch(review, {"op": "replace", "path": "/spec/replicas", "value": 5})


def converted(review, **changes):
    request = review["request"]
    objects = []
    for one in request["objects"]:
        one = dict(one, apiVersion=request["desiredAPIVersion"])
        one["metadata"] = dict(one["metadata"], **changes)
        one["spec"] = {"converted": one.get("spec")}
        objects.append(one)
    return answer(review, result={"status": "Success"}, convertedObjects=objects)


def call_back(review):
    """Asks the server for a list, and has it create another map, before it answers."""
    name = review["request"]["name"]
    if name.startswith("made-"):
        return answer(review)
    with open(notes + ".server", encoding="utf-8") as file:
        server = json.load(file)
    trust = ssl._create_unverified_context()
    headers = {"Authorization": "Bearer " + server["token"], "Content-Type": "application/json"}
    maps = server["url"] + "/api/v1/namespaces/default/configmaps"
    made = json.dumps({"metadata": {"name": "made-" + name}}).encode()
    for body in [None, made]:
        request = urllib.request.Request(maps, data=body, headers=headers)
        urllib.request.urlopen(request, context=trust, timeout=8).read()
    return answer(review)


PATHS = {
    "/allow": answer,
    "/deny": lambda review: answer(review, allowed=False),
    "/deny-with-code": lambda review: answer(
        review, allowed=False, status={"code": 418, "message": "no coffee", "reason": "Invalid"}
    ),
    "/deny-with-reason": lambda review: answer(
        review, allowed=False, status={"code": 200, "reason": "Forbidden"}
    ),
    "/deny-in-own-words": lambda review: answer(
        review, allowed=False, status={"code": 422, "message": "m", "reason": "TooPurple"}
    ),
    "/call-back": call_back,
    "/break-owners": lambda review: patch(
        review,
        {"op": "replace", "path": "/metadata/managedFields/0/fieldsV1", "value": {"x:": {}}},
        {"op": "add", "path": "/data/hook", "value": "was here"},
    ),
    "/warn": lambda review: answer(review, warnings=["be careful", "be careful", "twice"]),
    "/label-a": lambda review: label_once(review, "a"),
    "/label-b": lambda review: label_once(review, "b"),
    "/count-a": lambda review: label(review, "a"),
    "/count-b": lambda review: label(review, "b"),
    "/replicas": replicas,
    "/no-container-policy": lambda review: patch(
        review, {"op": "remove", "path": "/spec/restartPolicy"}
    ),
    "/rename": lambda review: patch(
        review, {"op": "replace", "path": "/metadata/namespace", "value": "other"}
    ),
    "/run-true": lambda review: patch(
        review, {"op": "replace", "path": "/command", "value": ["true"]}
    ),
    "/bad-patch": lambda review: patch(review, {"op": "remove", "path": "/spec/nothing/there"}),
    "/bad-type": lambda review: patch(review, {"op": "add", "path": "/data", "value": "text"}),
    "/patch-of-nothing": lambda review: patch(
        review, {"op": "add", "path": "/metadata/labels", "value": {}}
    ),
    "/no-patch-type": lambda review: answer(review, patch=base64.b64encode(b"[]").decode()),
    "/wrong-uid": lambda review: answer(review, uid="another"),
    "/wrong-kind": lambda review: dict(answer(review), kind="Other"),
    "/no-response": lambda review: {"apiVersion": review["apiVersion"], "kind": review["kind"]},
    "/too-long": lambda review: answer(review, warnings=["x" * (17 << 20)]),
    "/convert": converted,
    "/convert-labels": lambda review: converted(review, labels={"by": "webhook"}, generation=99),
    "/convert-renamed": lambda review: converted(review, name="other"),
    "/convert-none": lambda review: answer(
        review, result={"status": "Success"}, convertedObjects=[]
    ),
    "/convert-failed": lambda review: answer(
        review, result={"status": "Failure", "message": "not today"}
    ),
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body leave together; the client does not wait for the second packet.
    wbufsize = -1

    def do_POST(self):
        path, _, query = self.path.partition("?")
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock, open(notes, "a", encoding="utf-8") as file:
            seen = {"path": path, "query": query, "peer": self.client_address[1]}
            file.write(json.dumps(dict(seen, review=review)) + "\n")
        if path == "/slow":
            time.sleep(5)
            return
        if path == "/redirect":
            self.send_response(307)
            self.send_header("Location", "https://127.0.0.1:%d/allow" % port)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        code, body = 200, b"this is not JSON"
        if path == "/fail":
            code, body = 500, b"out of order"
        elif path in PATHS:
            body = json.dumps(PATHS[path](review)).encode()
        elif path != "/not-json":
            code, body = 404, b"no such path"
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def get_request(self):
        stream, address = super().get_request()
        return context.wrap_socket(stream, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = Server(("127.0.0.1", 0), Handler)
port = server.server_address[1]
print(port, flush=True)
server.serve_forever()
