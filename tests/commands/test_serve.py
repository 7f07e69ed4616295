"""run/serve.py as a process: under load, killed and restarted, stopped politely."""

from __future__ import annotations

import concurrent.futures
import io
import re
import signal
import threading

import numpy as np
import pytest
from helpers import processes
from helpers.threshold_model import save_threshold_model

from tf_probunet.serve import client

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("prometheus_client", reason="the extra `serve` is not installed")

_REQUESTS = 60


@pytest.fixture
def start():
    """Starts the service; gives the process and its address once it listens."""
    started = []

    def start(model, port=0):
        flags = f"--saved_model={model}", f"--port={port}"
        process = processes.start("serve.py", *flags)
        started.append(process)
        line = process.stdout.readline()
        found = re.fullmatch(rf"serving {model} at (http://127\.0\.0\.1:\d+)\n", line)
        assert found, (line, process.stderr.read())
        return process, found.group(1)

    yield start
    for process in started:
        process.kill()


def _upload(number):
    image = np.random.default_rng(number).uniform(-1000, 400, [16, 16])
    buffer = io.BytesIO()
    np.save(buffer, image.astype(np.float32))
    return buffer.getvalue()


def test_killed_and_restarted_under_load_no_request_is_lost(tmp_path, start):
    model = save_threshold_model(tmp_path / "model")
    process, url = start(model)
    port = url.rpartition(":")[2]
    answered = threading.Semaphore(0)

    def ask(number):
        answer = client.predict(url, _upload(number), seconds=200, seed=number)
        answered.release()
        return answer

    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(ask, number) for number in range(_REQUESTS)]
        for _ in range(_REQUESTS // 4):
            answered.acquire()
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        process, _ = start(model, port)
        answers = [one.result() for one in asked]
    assert [answer["seed"] for answer in answers] == list(range(_REQUESTS))
    # Both processes give the same for the same.
    for number in (0, _REQUESTS - 1):
        assert client.predict(url, _upload(number), seed=number) == answers[number]
    process.terminate()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert stderr.strip() == "stopped by SIGTERM"
