"""The strategy flag, and what is refused before TensorFlow waits for a cluster."""

import json
import socket
import threading

import pytest
import tensorflow as tf
from helpers import clusters

from tf_probunet.training import strategy as strategies

CLUSTER = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}


def _text(cluster=CLUSTER, **task):
    return json.dumps({"cluster": cluster, "task": {"type": "worker", **task}})


def test_mirrored_has_the_replicas_asked_for():
    strategy = strategies.create("mirrored", 2)
    assert strategy.num_replicas_in_sync == 2
    assert strategies.num_workers(strategy) == 1
    assert strategies.is_chief(strategy)
    assert strategies.gather(strategy, 7) == [7]


def test_one_replica_on_a_cpu_is_told_from_two():
    assert strategies.is_single_cpu(strategies.mirrored(1))
    assert not strategies.is_single_cpu(strategies.mirrored(2))


def test_a_good_cluster_passes():
    strategies.check_tf_config(_text(index=1))
    with_chief = {"chief": ["a:1"], "worker": ["b:1"]}
    strategies.check_tf_config(
        json.dumps({"cluster": with_chief, "task": {"type": "chief", "index": 0}})
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "TF_CONFIG is not set, expected"),
        ("", "TF_CONFIG is not set, expected"),
        ("{", "TF_CONFIG is '{', expected"),
        ("[]", r"TF_CONFIG is '\[\]', expected"),
        ('{"cluster": {}}', "expected"),
        (_text({"ps": ["a:1"]}, index=0), r"has the jobs \['ps'\]"),
        (_text({"worker": []}, index=0), r"has the jobs \['worker'\]"),
        (_text({"worker": "a:1"}, index=0), "has the worker 'a:1'"),
        (_text({"worker": ["a"]}, index=0), r"has the worker \['a'\]"),
        (_text({"worker": [3]}, index=0), r"has the worker \[3\]"),
        (_text({"worker": ["a:99999"]}, index=0), r"has the worker \['a:99999'\]"),
        (
            _text(index=0).replace('"worker", "i', '["worker"], "i'),
            "not in its cluster",
        ),
        ("[" * 100_000, "expected"),
        (_text(index=2), "which is not in its cluster"),
        (_text(index="0"), "which is not in its cluster"),
        (_text(), "which is not in its cluster"),
    ],
)
def test_a_bad_cluster_is_named(text, message, monkeypatch):
    if text is None:
        monkeypatch.delenv("TF_CONFIG", raising=False)
    else:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=message):
        strategies.create("multi_worker")


def test_bad_names_and_combinations_are_refused():
    with pytest.raises(ValueError, match="strategy is 'tpu', expected one of mirrored"):
        strategies.create("tpu")
    with pytest.raises(ValueError, match="cpu_devices is 2, expected 1"):
        strategies.create("multi_worker", 2)


def test_errors_of_a_single_machine_are_left_alone():
    strategy = strategies.create("mirrored")
    error = tf.errors.UnavailableError(None, None, "no such device")
    with pytest.raises(tf.errors.UnavailableError), strategies.named_errors(strategy):
        raise error


def test_workers_are_named_while_they_are_absent(monkeypatch):
    """Both meet here, before TensorFlow waits for them deaf and dumb."""
    monkeypatch.setattr(strategies, "_FIRST_SAID_AFTER", 0.3)
    first, second = (f"127.0.0.1:{port}" for port in clusters.free_ports(2))
    lines = []

    def meet(own, others):
        thread = threading.Thread(
            target=strategies.wait_for, args=(own, others, lines.append), daemon=True
        )
        thread.start()
        return thread

    waiting = meet(first, {"worker 1": second})
    waiting.join(1.5)
    assert waiting.is_alive()
    assert lines == [
        f"waiting for worker 1 ({second}): nothing answers there (Ctrl-C to give up)"
    ]
    last = meet(second, {"worker 0": first})
    last.join(10)
    # The second goes on at once: there TensorFlow takes its place on the port.
    with socket.create_server(("127.0.0.1", int(second.rpartition(":")[2]))):
        waiting.join(10)
    assert not waiting.is_alive() and not last.is_alive()
    assert len(lines) == 1


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("", 0)) as taken:
        own = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"can't listen on {own} .*in use"):
            strategies.wait_for(own, {"worker 1": "127.0.0.1:1"}, print)
