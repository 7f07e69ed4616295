"""The callbacks alone, with stand-ins for the model and its files."""

import signal
import types

import pytest
import tensorflow as tf

from tf_probunet.training import callbacks, logs


class _Store:
    def __init__(self):
        self.steps = []

    def save(self, step):
        self.steps.append(step)


class _Guard:
    def __init__(self):
        self.checks = 0

    def check(self):
        self.checks += 1


def _run(callback, calls, steps_per_call=1):
    """Makes the calls of Keras, each with a few steps."""
    for call in range(calls):
        callback.on_train_batch_end((call + 1) * steps_per_call - 1, {})


@pytest.mark.parametrize(
    ("steps_per_call", "expected"), [(1, [9, 12]), (2, [9, 13]), (5, [12])]
)
def test_a_multiple_may_lie_inside_a_call(steps_per_call, expected):
    """A run that was resumed after step 7."""
    seen = []

    class Noted(callbacks.StepCallback):
        def on_step(self, logs):
            if self.passed(3):
                seen.append(self.step)

    _run(Noted(7), 6 // steps_per_call, steps_per_call)
    assert seen == expected


def test_checkpoints_are_written_once_per_step_after_a_check():
    store, guard = _Store(), _Guard()
    checkpoints = callbacks.Checkpoints(4, (3, 4), store, guard)
    checkpoints.save()  # The run was resumed from this step.
    assert store.steps == []
    _run(checkpoints, 6)  # Steps 5 to 10.
    checkpoints.save()
    checkpoints.save()
    assert store.steps == [6, 8, 9, 10]
    assert guard.checks == 4


def test_a_worker_without_a_store_checks_all_the_same():
    guard = _Guard()
    _run(callbacks.Checkpoints(0, (2,), None, guard), 4)
    assert guard.checks == 2


def test_the_guard_names_step_terms_and_examples():
    guard = callbacks.NonFiniteGuard(0, 2, lambda step: [f"key_{step}"])
    guard.model = types.SimpleNamespace(
        bad_step=tf.constant(-1), bad_term_names=lambda: ["kl", "loss"]
    )
    guard.check()
    guard.model.bad_step = tf.constant(17)
    _run(guard, 1)  # It does not look after the first step.
    with pytest.raises(callbacks.DivergedError) as error:
        guard.on_train_batch_end(1, {})
    assert str(error.value) == (
        "step 17: kl, loss not finite; the batch was key_17; the last good checkpoint "
        "is kept (try a smaller --learning_rate)"
    )


def test_a_signal_ends_the_run_after_the_step_and_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    interrupts = callbacks.Interrupts(0)
    interrupts.model = types.SimpleNamespace(stop_training=False)
    interrupts.on_train_begin()
    try:
        _run(interrupts, 1)
        assert not interrupts.model.stop_training
        signal.raise_signal(signal.SIGTERM)
        _run(interrupts, 2)
        assert interrupts.model.stop_training
        assert interrupts.signal == signal.SIGTERM
    finally:
        interrupts.on_train_end()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_worker_asks_and_stops_when_all_agree():
    interrupts = callbacks.Interrupts(0, agree_every=4)
    asked, agreed = tf.Variable(0.0), tf.Variable(0.0)
    interrupts.model = types.SimpleNamespace(
        stop_training=False, stop_asked=asked, stop_agreed=agreed
    )
    interrupts.signal = signal.SIGINT
    _run(interrupts, 2)
    assert (float(asked), interrupts.model.stop_training) == (1.0, False)
    agreed.assign(1.0)
    _run(interrupts, 3)
    assert not interrupts.model.stop_training
    interrupts.on_train_batch_end(3, {})
    assert interrupts.model.stop_training
    assert interrupts.signal == signal.SIGINT


def test_the_progress_line_has_the_main_numbers(monkeypatch):
    line = callbacks.ProgressLine(0, 10, "unet")
    notes = []
    monkeypatch.setattr(type(line.progress), "due", property(lambda self: True))
    monkeypatch.setattr(line.progress, "update", lambda step, note: notes.append(note))
    line.on_train_batch_end(0, {"loss": tf.constant(2.5), "weight_decay": 1.0})
    line.on_train_batch_end(1, {"kl": 0.25, "cross_entropy": 1.0, "loss": 1.25})
    assert notes == ["loss 2.5", "loss 1.25  cross_entropy 1  kl 0.25"]


def test_the_log_has_the_processor_time_of_a_step(tmp_path, monkeypatch):
    """On a busy machine, steps take longer but not more processor time."""
    now = {"monotonic": 0.0, "process_time": 0.0}
    clock = types.SimpleNamespace(**{n: lambda n=n: now[n] for n in now})
    monkeypatch.setattr(callbacks, "time", clock)
    writer = tf.summary.create_file_writer(str(tmp_path / "tensorboard"))
    logged = callbacks.ScalarLogs(0, 2, writer, batch_size=8)
    logged.model = types.SimpleNamespace(
        optimizer=types.SimpleNamespace(lr=0.5), reset_metrics=lambda: None
    )
    for step, (wall, processor) in enumerate([(1, 1), (2, 2), (30, 3), (60, 4)]):
        now.update(monotonic=float(wall), process_time=float(processor))
        logged.on_train_batch_end(step, {})
        if step == 1:
            now.update(monotonic=20.0, process_time=2.5)  # A validation.
            logged.restart_clock()
    writer.close()
    found = logs.read_scalars(tmp_path)
    assert found["training/images_per_second"] == {2: 8.0, 4: pytest.approx(16 / 40)}
    assert found[callbacks.PROCESSOR_SECONDS] == {2: 1.0, 4: 0.75}
