"""Callbacks between steps: progress, logs, checkpoints, interrupts, the NaN guard.

None of them fetches a number from the device in every step.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import tensorflow as tf

from tf_probunet.progress import Progress, leave_closed_terminal
from tf_probunet.training.run_dir import CheckpointStore

Logs = dict[str, Any]
# Of a step, in the log.
PROCESSOR_SECONDS = "training/processor_seconds_per_step"


class StepCallback(tf.keras.callbacks.Callback):
    """A callback that counts the steps of a run, including those before it was resumed.

    Subclasses define `on_step`. For Keras, a run is a single epoch.
    """

    def __init__(self, start_step: int) -> None:
        super().__init__()
        self._start = self.step = self._previous = start_step
        # Keras then passes tensors and does not wait for their values.
        self._supports_tf_logs = True

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Counts the steps. There may be several of them in a call."""
        self._previous, self.step = self.step, self._start + batch + 1
        self.on_step(logs or {})

    def on_step(self, logs: Logs) -> None:
        """Runs after each call of the step function."""

    def passed(self, every: int) -> bool:
        """Whether the steps of the last call include a multiple of `every`."""
        return self.step // every > self._previous // every


class DivergedError(ValueError):
    """The loss is not finite."""


class NonFiniteGuard(StepCallback):
    """Stops the run when a term of the loss is NaN or infinite.

    The model itself notes the first bad step. The guard reads this note now and then,
    and always before a checkpoint is written, so the last checkpoint is good.
    """

    def __init__(
        self, start_step: int, every: int, keys_of_step: Callable[[int], list[str]]
    ) -> None:
        super().__init__(start_step)
        self._every, self._keys_of_step = every, keys_of_step

    def on_step(self, logs: Logs) -> None:
        """Reads the note every few steps."""
        if self.passed(self._every):
            self.check()

    def check(self) -> None:
        """Raises `DivergedError` if a term was not finite."""
        step = int(self.model.bad_step.numpy())
        if step < 0:
            return
        terms = ", ".join(self.model.bad_term_names())
        keys = ", ".join(self._keys_of_step(step))
        raise DivergedError(
            f"step {step}: {terms} not finite; the batch was {keys}; the last good "
            f"checkpoint is kept (try a smaller --learning_rate)"
        )


class Checkpoints(StepCallback):
    """Saves a checkpoint every few steps, after the guard has checked the loss.

    Without a store nothing is saved, but the guard checks all the same, so that all
    workers of a cluster stop at the same step.
    """

    def __init__(
        self,
        start_step: int,
        every: Sequence[int],
        store: CheckpointStore | None,
        guard: NonFiniteGuard,
    ) -> None:
        super().__init__(start_step)
        self._every, self._store, self._guard = every, store, guard
        self._saved = start_step

    def on_step(self, logs: Logs) -> None:
        """Saves at the multiples of the intervals."""
        if any(map(self.passed, self._every)):
            self.save()

    def save(self) -> None:
        """Saves the current step, unless it has been saved.

        A checkpoint is never overwritten. A kill or a full disk in the middle of that
        would leave neither the old nor the new one.
        """
        if self.step == self._saved:
            return
        self._guard.check()
        if self._store is not None:
            self._store.save(self.step)
        self._saved = self.step


class Interrupts(StepCallback):
    """Ends the run after the current step on Ctrl-C, SIGTERM or SIGHUP.

    A second Ctrl-C ends it at once. A worker of a cluster can't stop alone. It asks the
    others, and all of them stop the next time they check for such a request.
    """

    def __init__(self, start_step: int, agree_every: int | None = None) -> None:
        super().__init__(start_step)
        self.signal: int | None = None
        self._agree_every = agree_every
        self._before: dict[int, Any] = {}

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Installs the signal handlers."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        # Under nohup, a run continues without its terminal.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        for number in numbers:
            self._before[number] = signal.signal(number, self._note)

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Restores the signal handlers."""
        self.restore()

    def restore(self) -> None:
        """Restores the signal handlers. Call it after an error, too."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def on_step(self, logs: Logs) -> None:
        """Stops the run after a signal to this or another worker."""
        if self._agree_every is None:
            if self.signal is not None:
                self.model.stop_training = True
        elif self.passed(self._agree_every) and self.model.stop_agreed.numpy() > 0:
            self.signal = self.signal or signal.SIGTERM
            self.model.stop_training = True
        elif self.signal is not None:
            self.model.stop_asked.assign(1.0)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        leave_closed_terminal()
        signal.signal(signal.SIGINT, signal.default_int_handler)


class ScalarLogs(StepCallback):
    """Logs the means since the last point, the learning rate and the speed.

    The processor time counts all threads. Unlike the speed, it hardly depends on what
    else the machine does.
    """

    def __init__(
        self,
        start_step: int,
        every: int,
        writer: tf.summary.SummaryWriter,
        batch_size: int,
    ) -> None:
        super().__init__(start_step)
        self._every, self._writer, self._batch_size = every, writer, batch_size
        self._since_step, self._since = start_step, time.monotonic()
        self._since_processor = time.process_time()

    def on_step(self, logs: Logs) -> None:
        """Writes a point at the multiples of the interval, and resets the means."""
        if not self.passed(self._every):
            return
        now, processor = time.monotonic(), time.process_time()
        steps = self.step - self._since_step
        with self._writer.as_default(step=self.step):
            for name, value in logs.items():
                tf.summary.scalar(f"training/{name}", value)
            tf.summary.scalar("training/learning_rate", self.model.optimizer.lr)
            speed = steps * self._batch_size / (now - self._since)
            tf.summary.scalar("training/images_per_second", speed)
            seconds = (processor - self._since_processor) / steps
            tf.summary.scalar(PROCESSOR_SECONDS, seconds)
        self.model.reset_metrics()
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measures the speed from now on, to leave out the time of other work."""
        self._since_step, self._since = self.step, time.monotonic()
        self._since_processor = time.process_time()


class ProgressLine(StepCallback):
    """Shows one line with the rate, the time left and the main numbers."""

    def __init__(self, start_step: int, total: int, label: str) -> None:
        super().__init__(start_step)
        self.progress = Progress(total, label, done=start_step, unit="steps")

    def on_step(self, logs: Logs) -> None:
        """Fetches the numbers only when the line is drawn."""
        note = None
        if self.progress.due:
            names = ("loss", "cross_entropy", "kl", "energy_distance")
            shown = [n for n in names if n in logs]
            note = "  ".join(f"{name} {float(logs[name]):.4g}" for name in shown)
        self.progress.update(self.step, note)

    def close(self) -> None:
        """Ends the line."""
        self.progress.close()
