"""Reports the progress of a training job that Setpoint, or Kubeflow Trainer, runs.

    import setpoint

    for epoch in range(epochs):
        loss = train_one_epoch()
        setpoint.report(progress=(epoch + 1) / epochs, loss=loss)

Setpoint also reads progress and metrics from what a job prints, so that most scripts need nothing of
this. Reported values take precedence.

Outside a job, and on every rank but the first, `report` does nothing. It never raises, and it never
waits for the network: a thread sends the newest values, at most once per second.
"""

import atexit
import datetime
import json
import logging
import math
import os
import ssl
import threading
import time
import urllib.request

__all__ = ["report", "callback"]

_INTERVAL_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_METRICS_MAX = 256
_TEXT_MAX = 64
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PET_NODE_RANK", "JOB_COMPLETION_INDEX")

_log = logging.getLogger("setpoint")


def report(progress=None, remaining_seconds=None, **metrics):
    """Reports progress (0 to 1), the remaining time, and metrics such as `loss=0.5`.

    Values stay until they are reported again.
    """
    try:
        _reporter.report(progress, remaining_seconds, metrics)
    except Exception as error:  # Training goes on, whatever happens to its progress.
        _log.debug("progress not reported: %s", error)


def callback():
    """Returns a callback for the Trainer of Hugging Face: `Trainer(..., callbacks=[callback()])`."""
    from transformers import TrainerCallback

    class ReportCallback(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            progress = state.global_step / state.max_steps if state.max_steps else None
            report(progress, **{str(name): value for name, value in (logs or {}).items()
                                if name not in ("progress", "remaining_seconds")})

    return ReportCallback()


class _Reporter:
    def __init__(self):
        self._values = {}
        self._metrics = {}
        self._changed = threading.Condition()
        self._pending = False
        self._is_ending = False
        self._thread = None

    def report(self, progress, remaining_seconds, metrics):
        if not self._is_wanted():
            return
        with self._changed:
            if progress is not None and math.isfinite(float(progress)):
                percent = float(progress) * 100
                self._values["progressPercentage"] = max(0, min(100, int(percent + 1e-9)))
            if remaining_seconds is not None and math.isfinite(float(remaining_seconds)):
                self._values["estimatedRemainingSeconds"] = max(0, int(remaining_seconds))
            for name, value in metrics.items():
                text = _text(value)
                if text and 0 < len(name) <= _TEXT_MAX and len(self._metrics) < _METRICS_MAX:
                    self._metrics[name] = text
            self._pending = True
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="setpoint", daemon=True)
                self._thread.start()
                atexit.register(self._end)

    @staticmethod
    def _is_wanted():
        rank = next((os.environ[name] for name in _RANKS if os.environ.get(name)), "0")
        return bool(os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")) and rank == "0"

    def _run(self):
        while True:
            with self._changed:
                while not self._pending:
                    if self._is_ending:
                        return
                    self._changed.wait()
                self._pending = False
                body = self._body()
            try:
                _post(body)
            except Exception as error:
                _log.debug("progress not reported: %s", error)
            deadline = time.monotonic() + _INTERVAL_SECONDS
            with self._changed:
                while not self._is_ending and time.monotonic() < deadline:
                    self._changed.wait(deadline - time.monotonic())

    def _body(self):
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        metrics = [{"name": name, "value": value} for name, value in self._metrics.items()]
        status = {**self._values, "lastUpdatedTime": now}
        if metrics:
            status["metrics"] = metrics
        return json.dumps({"trainerStatus": status}).encode()

    def _end(self):
        """Sends the last values before the program exits."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join(2 * _TIMEOUT_SECONDS)


def _text(value):
    """A number as text. Tensors and arrays with one element are numbers too."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return ""
    return f"{number:.6g}" if math.isfinite(number) else "NaN" if math.isnan(number) else ""


def _post(body):
    # The token is renewed while the job runs.
    with open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]) as file:
        token = file.read().strip()
    request = urllib.request.Request(
        os.environ["KUBEFLOW_TRAINER_SERVER_URL"],
        data=body,
        method="POST",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    context = ssl.create_default_context(cafile=os.environ.get("KUBEFLOW_TRAINER_SERVER_CA_CERT"))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
        answer.read()


_reporter = _Reporter()
