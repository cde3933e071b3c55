"""Fits a line to points, on as many nodes as there are: plain Python, no packages.

Every rank has points of its own. In each step the ranks add up their gradients over TCP, through
the first of them, and all take the same step. Run it with

    setpoint train examples/training/linear.py --nodes 3 --watch
    setpoint train examples/training/linear.py --nodes 3 -- --checkpoint /tmp/line.json
"""

import argparse
import json
import os
import random
import socket
import ssl
import struct
import time
import urllib.request
from datetime import datetime, timezone

SLOPE, OFFSET = 2.0, 1.0
POINTS = 50
RATE = 0.3
REPORT_SECONDS = 1.0
JOIN_SECONDS = 60.0


class Ranks:
    """All ranks of the job, as far as one needs to know them: they add up lists of numbers."""

    def __init__(self):
        get = os.environ.get
        processes = get("PET_NPROC_PER_NODE", "1")
        processes = int(processes) if processes.isdigit() else 1
        node = int(get("PET_NODE_RANK", "0"))
        self.rank = int(get("RANK", node * processes + int(get("LOCAL_RANK", "0"))))
        self.count = int(get("WORLD_SIZE", int(get("PET_NNODES", "1")) * processes))
        host = get("MASTER_ADDR", get("PET_MASTER_ADDR", "localhost"))
        self.address = (host, int(get("MASTER_PORT", get("PET_MASTER_PORT", "29500"))))
        self.others = []
        if self.count > 1:
            self.join()

    def join(self):
        """The first waits for the others; they look for it until it is there."""
        if self.rank == 0:
            listener = patiently(lambda: socket.create_server(self.address))
            listener.settimeout(JOIN_SECONDS)
            self.others = [listener.accept()[0] for _ in range(self.count - 1)]
        else:
            self.others = [patiently(lambda: socket.create_connection(self.address, timeout=5))]
        for other in self.others:
            other.settimeout(JOIN_SECONDS)

    def sum(self, numbers):
        if self.rank != 0:
            send(self.others[0], numbers)
            return receive(self.others[0], len(numbers))
        total = list(numbers)
        for other in self.others:
            total = [a + b for a, b in zip(total, receive(other, len(numbers)))]
        for other in self.others:
            send(other, total)
        return total


def patiently(deed):
    """A name is not known before its pod is."""
    deadline = time.monotonic() + JOIN_SECONDS
    while True:
        try:
            return deed()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def send(to, numbers):
    to.sendall(struct.pack(f"<{len(numbers)}d", *numbers))


def receive(whom, count):
    data = b""
    while len(data) < 8 * count:
        part = whom.recv(8 * count - len(data))
        if not part:
            raise ConnectionError("a rank has gone")
        data += part
    return struct.unpack(f"<{count}d", data)


class Reporter:
    """Tells the job how far it is, where somebody listens."""

    def __init__(self):
        self.url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")
        self.last = 0.0
        self.begin = time.monotonic()

    def tell(self, step, steps, loss):
        now = time.monotonic()
        if not self.url or (now - self.last < REPORT_SECONDS and step < steps):
            return
        self.last = now
        remaining = (now - self.begin) / step * (steps - step)
        status = {
            "progressPercentage": 100 * step // steps,
            "estimatedRemainingSeconds": int(remaining),
            "metrics": [{"name": "loss", "value": f"{loss:.6f}"}],
            "lastUpdatedTime": datetime.now(timezone.utc).isoformat(),
        }
        with open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]) as file:
            headers = {"Authorization": f"Bearer {file.read()}", "Content-Type": "application/json"}
        body = json.dumps({"trainerStatus": status}).encode()
        trust = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        try:
            urllib.request.urlopen(request, context=trust, timeout=5).close()
        except OSError as error:
            print(f"nobody was told: {error}")


def say(text):
    """A whole line at once: others may say something on the same node."""
    os.write(1, f"{text}\n".encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", help="a file to go on from, and to keep")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    options = parser.parse_args()
    ranks, reporter = Ranks(), Reporter()
    step, slope, offset = 0, 0.0, 0.0
    if options.checkpoint and ranks.rank == 0 and os.path.exists(options.checkpoint):
        with open(options.checkpoint) as file:
            step, slope, offset = json.load(file)
    # What the first rank knows, all know.
    step, slope, offset = ranks.sum([step, slope, offset])
    step = int(step)
    say(f"rank {ranks.rank} of {ranks.count} begins at step {step}")
    chance = random.Random(ranks.rank)
    points = [chance.uniform(-1, 1) for _ in range(POINTS)]
    points = [(x, SLOPE * x + OFFSET) for x in points]
    while step < options.steps:
        errors = [(slope * x + offset - y, x) for x, y in points]
        mine = [sum(e * x for e, x in errors), sum(e for e, _ in errors),
                sum(e * e for e, _ in errors), len(points)]
        for_slope, for_offset, loss, count = ranks.sum(mine)
        slope -= RATE * for_slope / count
        offset -= RATE * for_offset / count
        step += 1
        if ranks.rank == 0:
            reporter.tell(step, options.steps, loss / count)
            if options.checkpoint:
                with open(options.checkpoint + ".part", "w") as file:
                    json.dump([step, slope, offset], file)
                os.replace(options.checkpoint + ".part", options.checkpoint)
        time.sleep(options.pause)
    say(f"rank {ranks.rank}: y = {slope:.3f} x + {offset:.3f}")


if __name__ == "__main__":
    main()
