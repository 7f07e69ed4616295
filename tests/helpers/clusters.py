"""Workers of a training cluster as real processes on this machine."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def train_command(data_dir, *, run_dir, **flags) -> list[str]:
    """Returns the command of a small training run."""
    settings = {
        "data_dir": data_dir,
        "run_dir": run_dir,
        "base_channels": 4,
        "num_scales": 2,
        "convs_per_block": 1,
        "latent_dim": 2,
        "crop_size": 16,
        "eval_size": 16,
        "elastic_std_px": 0.5,
        "steps": 6,
        "batch_size": 4,
        "learning_rate": 1e-3,
        "learning_rate_steps": 0,
        "validate_every": 3,
        "validation_images": 4,
        "validation_samples": 2,
        "log_every": 1,
        "checkpoint_every": 3,
        **flags,
    }
    script = str(ROOT / "run" / "train.py")
    return [sys.executable, script, *(f"--{k}={v}" for k, v in settings.items())]


def start_workers(data_dir, run_dir, *, count=2, each=None, **flags) -> list:
    """Starts the workers of a cluster on loopback.

    Args:
        data_dir: of all of them.
        run_dir: of all of them.
        count: how many.
        each: flags by worker, or None for the same.
        **flags: of all of them.

    Returns:
        The processes, the chief first; their output is text in one pipe.
    """
    workers = [f"127.0.0.1:{port}" for port in free_ports(count)]
    processes = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": workers}, "task": task})
        own = {"strategy": "multi_worker", "run_dir": run_dir, **flags}
        own.update(each[index] if each else {})
        processes.append(
            subprocess.Popen(
                train_command(data_dir, **own),
                env={**os.environ, "TF_CONFIG": config},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return processes


def finish(processes, timeout=240) -> list[str]:
    """Waits for all processes and returns what each wrote; none is left running."""
    try:
        return [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()


def free_ports(count: int) -> list[int]:
    """Returns ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
