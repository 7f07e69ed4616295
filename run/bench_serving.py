"""Puts load on run/serve.py from another process: requests a second, p50 and p99.

    python run/bench_serving.py

A server with batches and one without them take turns, so that other load on the
machine hits both. Then a server is killed while it works and started again: clients try
again, and every request must get its answer.
"""

import concurrent.futures
import io
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import _start  # noqa: F401  (the checkout's own package)
from absl import flags

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli
from tf_probunet.serve import client

ROUNDS = 4
RUN = pathlib.Path(__file__).resolve().parent
flags.DEFINE_string("saved_model", str(pretrained.model_path()), "SavedModel to serve")
flags.DEFINE_integer("image_size", 128, "height and width of the images", lower_bound=8)
flags.DEFINE_integer("num_samples", 16, "samples for each image", lower_bound=1)
flags.DEFINE_integer("clients", 8, "clients that send requests at the same time", 1, 64)
flags.DEFINE_integer("requests", 100, "requests to each server", 8, 2000)


def picture(size: int, seed: int) -> bytes:
    """Returns a PNG file of a bright blob on noise."""
    import numpy as np
    import PIL.Image

    random = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] - size / 2
    blob = 160 * np.exp(-(x**2 + y**2) / (size / 12) ** 2)
    pixels = blob + random.integers(0, 90, [size, size])
    pixels.flat[:2] = 0, 255
    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def start(port: int = 0, **settings) -> tuple[subprocess.Popen, str]:
    """Starts the server; returns it with its address once it listens."""
    words = [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, RUN / "serve.py", f"--port={port}", *words]
    command.append(f"--saved_model={cli.FLAGS.saved_model}")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line:
        raise ValueError(f"run/serve.py ended with {process.wait()}")
    return process, line.split()[-1]


def ask(url: str, content: bytes) -> float:
    """Sends an image; returns the seconds until its answer."""
    begin = time.perf_counter()
    answer = client.predict(url, content, num_samples=cli.FLAGS.num_samples)
    assert answer["hypotheses"]
    return time.perf_counter() - begin


def load(url: str, images: list, clients: int) -> tuple[float, list]:
    """Sends images from several clients; returns requests a second, and all times."""
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as threads:
        seconds = list(threads.map(lambda image: ask(url, image), images))
    return len(images) / (time.perf_counter() - begin), seconds


def mean_batch(url: str) -> float:
    """Returns the images in a call of the network, by the server's own metrics."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        text = response.read().decode()

    def total(kind: str) -> float:
        found = re.findall(rf"^tf_probunet_batch_size_{kind}{{.*}} (\S+)$", text, re.M)
        return sum(map(float, found))

    return total("sum") / total("count")


def bench_load(images: list) -> None:
    """Prints rates and times of one client and of several."""
    import numpy as np

    servers = {max_batch: start(max_batch=max_batch) for max_batch in (8, 1)}
    try:
        for clients in (1, cli.FLAGS.clients):
            parts = np.array_split(np.arange(len(images)), ROUNDS)
            found = {max_batch: [] for max_batch in servers}
            for part in parts:
                for max_batch, (_, url) in servers.items():
                    chosen = [images[i] for i in part]
                    found[max_batch].append(load(url, chosen, clients))
            for max_batch, rounds in found.items():
                rate = np.median([rate for rate, _ in rounds])
                times = np.concatenate([seconds for _, seconds in rounds])
                p50, p99 = 1e3 * np.percentile(times, [50, 99])
                print(
                    f"--max_batch={max_batch}, clients: {clients}, requests/s: "
                    f"{rate:.1f}, p50: {p50:.0f} ms, p99: {p99:.0f} ms",
                    flush=True,
                )
        for max_batch, (_, url) in servers.items():
            print(f"--max_batch={max_batch}, images in a call: {mean_batch(url):.2f}")
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait()


def bench_restart(images: list) -> None:
    """Kills the server after a third of the answers, and starts it again."""
    process, url = start()
    try:
        with concurrent.futures.ThreadPoolExecutor(cli.FLAGS.clients) as threads:
            asked = [threads.submit(ask, url, image) for image in images]
            done = concurrent.futures.as_completed(asked)
            for _ in range(len(images) // 3):
                next(done)
            process.kill()
            process.wait()
            process, _ = start(int(url.rpartition(":")[2]))
            answered = sum(one.exception() is None for one in asked)
    finally:
        process.terminate()
        process.wait()
    print(f"killed and restarted: {answered} of {len(images)} requests answered")
    if answered < len(images):
        raise ValueError("requests were lost")


def main() -> None:
    images = [picture(cli.FLAGS.image_size, i) for i in range(cli.FLAGS.requests)]
    bench_load(images)
    bench_restart(images)


if __name__ == "__main__":
    cli.start(main)
