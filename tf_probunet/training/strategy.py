"""The devices and machines of a run, and the communication between the machines."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

STRATEGIES = ("mirrored", "multi_worker")

# Seconds between attempts to reach the other workers, and before the first and between
# further messages about those that are absent.
_LOOK_EVERY, _SAY_EVERY = 0.2, 30.0
_FIRST_SAID_AFTER = 3.0
_CONNECT_SECONDS = 1.0


def create(name: str, cpu_devices: int = 1) -> tf.distribute.Strategy:
    """Returns the strategy with the name that `--strategy` takes.

    Args:
        name: one of `STRATEGIES`.
        cpu_devices: see `mirrored`. For `multi_worker` it must be 1.

    Raises:
        ValueError: the name is unknown, or the settings do not fit it.
    """
    if name == "mirrored":
        return mirrored(cpu_devices)
    if name == "multi_worker":
        if cpu_devices != 1:
            raise ValueError(
                f"cpu_devices is {cpu_devices}, expected 1 with --strategy=multi_worker"
            )
        return multi_worker()
    raise ValueError(f"strategy is {name!r}, expected one of {', '.join(STRATEGIES)}")


def mirrored(cpu_devices: int = 1) -> tf.distribute.Strategy:
    """Returns a `MirroredStrategy` over all GPUs, or over the CPU if there is none.

    Args:
        cpu_devices: the number of logical devices into which the CPU is split, if there
            is no GPU. Each has one replica. This serves to try out several replicas.

    Raises:
        ValueError: TensorFlow has already started with another number of devices.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        return tf.distribute.MirroredStrategy()
    if cpu_devices > 1:
        split_cpu(cpu_devices)
    names = [f"CPU:{i}" for i in range(cpu_devices)]
    # The default collective operations gain nothing within one machine, and two
    # strategies in one process would disturb each other.
    return tf.distribute.MirroredStrategy(
        names, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def is_single_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether this is a mirrored strategy with one replica on a CPU.

    A cluster of one worker does not count: it takes no batches per replica.
    """
    if not isinstance(strategy, tf.distribute.MirroredStrategy):
        return False
    devices = strategy.extended.worker_devices
    return len(devices) == 1 and "CPU:" in devices[0]


def multi_worker() -> tf.distribute.Strategy:
    """Waits for all machines in `TF_CONFIG` and returns a strategy over them.

    Call it before anything is computed. Standard error shows which ones are absent.

    Raises:
        ValueError: `TF_CONFIG` is missing or does not describe a cluster of workers,
            or the port of this worker is taken.
    """
    text = os.environ.get("TF_CONFIG", "")
    check_tf_config(text)
    own, others = _own_and_others(text)
    wait_for(own, others, lambda line: print(line, file=sys.stderr, flush=True))
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"TF_CONFIG: the workers did not meet ({reason})") from error


def check_tf_config(text: str | None) -> None:
    """Checks the description of the cluster before TensorFlow waits for it.

    Raises:
        ValueError: it is missing or malformed. The message says what was expected.
    """
    expected = (
        'expected {"cluster": {"worker": ["host:port", ...]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    if not text:
        raise ValueError(f"TF_CONFIG is not set, {expected}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"TF_CONFIG is {text!r}, {expected}") from error
    cluster = value.get("cluster") if isinstance(value, dict) else None
    task = value.get("task") if isinstance(value, dict) else None
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        raise ValueError(f"TF_CONFIG is {text!r}, {expected}")
    if not set(cluster) <= {"worker", "chief"} or not cluster.get("worker"):
        raise ValueError(f"TF_CONFIG has the jobs {sorted(cluster)}, {expected}")
    for job, addresses in cluster.items():
        if not isinstance(addresses, list) or not all(map(_is_address, addresses)):
            raise ValueError(f"TF_CONFIG has the {job} {addresses!r}, {expected}")
    job, index = task.get("type"), task.get("index")
    members = cluster.get(job, []) if isinstance(job, str) else []
    if type(index) is not int or not 0 <= index < len(members):
        raise ValueError(
            f"TF_CONFIG has the task {json.dumps(task)}, which is not in its cluster"
        )


def wait_for(
    own: str, others: Mapping[str, str], report: Callable[[str], None]
) -> None:
    """Waits until all workers have started, and reports those that are absent.

    TensorFlow itself would wait in silence and ignore signals. Here, each worker
    listens on its own port, which TensorFlow uses later, until it has reached all the
    others once.

    Args:
        own: "host:port" of this worker.
        others: "host:port" of the other workers, by name.
        report: called with a line about the absent workers.

    Raises:
        ValueError: the port of this worker is taken.
    """
    if not others:
        return
    try:
        listener = socket.create_server(("", _host_and_port(own)[1]), backlog=1024)
    except OSError as error:
        raise ValueError(
            f"TF_CONFIG: this worker can't listen on {own} ({error.strerror}); is it "
            "running already?"
        ) from error
    absent = dict(others)
    say_at = time.monotonic() + _FIRST_SAID_AFTER
    with listener:
        while absent:
            absent = {n: a for n, a in absent.items() if not _listens(a)}
            if absent and time.monotonic() >= say_at:
                names = ", ".join(f"{name} ({a})" for name, a in absent.items())
                report(
                    f"waiting for {names}: nothing answers there (Ctrl-C to give up)"
                )
                say_at = time.monotonic() + _SAY_EVERY
            time.sleep(_LOOK_EVERY if absent else 0)


def split_cpu(num_devices: int) -> None:
    """Splits the CPU into logical devices. Call it before anything is computed."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration() for _ in range(num_devices)]
    try:
        tf.config.set_logical_device_configuration(cpu, devices)
    except RuntimeError as error:
        found = len(tf.config.list_logical_devices("CPU"))
        if found != num_devices:
            raise ValueError(
                f"cpu_devices is {num_devices}, but TensorFlow has already started "
                f"with {found}"
            ) from error


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of machines."""
    resolver = strategy.cluster_resolver
    if resolver is None:
        return 1
    jobs = resolver.cluster_spec().as_dict()
    return sum(len(addresses) for addresses in jobs.values()) or 1


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this machine is the one that writes files."""
    if num_workers(strategy) == 1:
        return True
    resolver = strategy.cluster_resolver
    if "chief" in resolver.cluster_spec().jobs:
        return resolver.task_type == "chief"
    return resolver.task_id == 0


def gather(strategy: tf.distribute.Strategy, number: int) -> list[int]:
    """Waits for all workers and returns the numbers that they passed."""
    if num_workers(strategy) == 1:
        return [number]
    local = len(strategy.extended.worker_devices)
    value = strategy.experimental_distribute_values_from_function(
        lambda _: tf.constant([number], tf.int64)
    )
    # Each replica of a worker passes the number.
    return [int(n) for n in strategy.gather(value, axis=0).numpy()[::local]]


@contextlib.contextmanager
def named_errors(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns the loss of another worker into an error that says what to do.

    Raises:
        ConnectionError: another worker has ended.
    """
    lost = (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
    )
    try:
        yield
    except tf.errors.OpError as error:
        # The type of the error depends on the graph. The message is always the same.
        aborted = [s for s in error.message.splitlines() if "Collective ops" in s]
        if num_workers(strategy) == 1 or not (aborted or isinstance(error, lost)):
            raise
        raise ConnectionError(
            "another worker is gone; start all of them again with the same command: "
            f"they continue from the last checkpoint ({[*aborted, error.message][0]})"
        ) from error


def _own_and_others(text: str) -> tuple[str, dict[str, str]]:
    """Returns the address of this worker, and those of the others by name."""
    value = json.loads(text)
    task, others = value["task"], {}
    for job, addresses in value["cluster"].items():
        for index, address in enumerate(addresses):
            others[f"{job} {index}"] = address
    return others.pop(f"{task['type']} {task['index']}"), others


def _listens(address: str) -> bool:
    try:
        reached = socket.create_connection(_host_and_port(address), _CONNECT_SECONDS)
    except OSError:
        return False
    with reached:
        # A connection to an unused port of this machine may reach itself.
        return reached.getpeername() != reached.getsockname()


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _is_address(value: object) -> bool:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 2**16
