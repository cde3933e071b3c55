"""Trains a small network to tell two interleaved half circles apart, on all ranks together.

The walk through the console runs it for a job page with a real loss curve.
"""

import argparse
import math
import os
import random
import sys
import time

# The examples stay as they are.
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "training"))
from linear import Ranks, Reporter  # noqa: E402

HIDDEN = 12
BATCH = 48
RATE = 0.05
NOISE = 0.1


def sample(source):
    """A point and its class."""
    label, angle = source.randrange(2), source.uniform(0, math.pi)
    x, y = math.cos(angle), math.sin(angle)
    if label:
        x, y = 1 - x, 0.5 - y
    return x + source.gauss(0, NOISE), y + source.gauss(0, NOISE), label


def gradient(weights, points):
    """The sum of the losses, and of the gradients."""
    total, sums = 0.0, [0.0] * len(weights)
    for x, y, label in points:
        rows = [weights[3 * unit : 3 * unit + 3] for unit in range(HIDDEN)]
        hidden = [math.tanh(a * x + b * y + c) for a, b, c in rows]
        out = weights[3 * HIDDEN :]
        score = sum(w * h for w, h in zip(out, hidden)) + out[HIDDEN]
        chance = 1 / (1 + math.exp(-score))
        total -= math.log(max(1e-9, chance if label else 1 - chance))
        error = chance - label
        for unit, value in enumerate(hidden):
            back = error * out[unit] * (1 - value * value)
            for offset, factor in enumerate((x, y, 1.0)):
                sums[3 * unit + offset] += back * factor
            sums[3 * HIDDEN + unit] += error * value
        sums[4 * HIDDEN] += error
    return total, sums


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--pause", type=float, default=0.1)
    given = parser.parse_args()
    ranks, reporter = Ranks(), Reporter()
    source, start = random.Random(ranks.rank), random.Random(7)
    weights = [start.gauss(0, 0.3) for _ in range(4 * HIDDEN + 1)]
    for step in range(1, given.steps + 1):
        loss, sums = gradient(weights, [sample(source) for _ in range(BATCH)])
        total, *sums = ranks.sum([loss, *sums])
        count = BATCH * ranks.count
        weights = [weight - RATE * part / count for weight, part in zip(weights, sums)]
        if ranks.rank == 0:
            reporter.tell(step, given.steps, total / count)
            if step % 20 == 0:
                print(f"step {step}/{given.steps} loss={total / count:.4f}", flush=True)
        time.sleep(given.pause)


main()
