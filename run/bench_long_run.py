"""Watches a long training of a tiny network: memory, traces and the size of the log.

    python run/bench_long_run.py

Memory and traces must not grow with the number of steps, and the log only by what is
logged.
"""

import pathlib
import tempfile
from unittest import mock

import _start  # noqa: F401  (the checkout's own package)
from absl import flags

from tf_probunet import config as config_lib
from tf_probunet.commands import cli

flags.DEFINE_integer("steps", 4000, "training steps", lower_bound=4)
flags.DEFINE_integer("looks", 8, "how often to measure", lower_bound=3)
flags.DEFINE_integer("image_size", 32, "height and width", lower_bound=32)

# The paper's run.
FULL = config_lib.TrainingConfig()
MIB = 2**20


def resident_mib() -> float:
    """Memory that this process holds (Linux)."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def make_config() -> config_lib.Config:
    """A tiny run that validates, saves and logs at every look."""
    steps, size = cli.FLAGS.steps, cli.FLAGS.image_size
    every = steps // cli.FLAGS.looks
    return config_lib.Config(
        model=config_lib.ModelConfig(base_channels=4, num_scales=2, latent_dim=2),
        data=config_lib.DataConfig(crop_size=size, eval_size=size),
        training=config_lib.TrainingConfig(
            steps=steps,
            batch_size=4,
            validate_every=every,
            checkpoint_every=every,
            validation_images=8,
            validation_samples=2,
            log_every=max(1, every // 10),
        ),
    )


def watch(callbacks, looks: list, every: int, log_dir: pathlib.Path) -> type:
    """The logs of a run, which at every look note memory, traces and their own size."""

    class Watched(callbacks.ScalarLogs):
        def on_step(self, logs) -> None:
            super().on_step(logs)
            if self.passed(every):
                size = sum(path.stat().st_size for path in log_dir.iterdir())
                traces = self.model.train_function.experimental_get_tracing_count()
                looks.append((self.step, resident_mib(), traces, size))

    return Watched


def events(log_dir: pathlib.Path) -> list[tuple[str, int]]:
    """Tag and bytes of each entry of the log."""
    import tensorflow as tf

    return [
        (event.summary.value[0].tag, event.ByteSize())
        for path in log_dir.iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        if event.summary.value
    ]


def full_run_mib(log_dir: pathlib.Path, config: config_lib.Config) -> tuple[float, ...]:
    """Bytes of a point, of a picture, and MiB of the log of the paper's run."""
    entries, training = events(log_dir), config.training

    def total(start: str) -> int:
        return sum(size for tag, size in entries if tag.startswith(start))

    pictures = [size for tag, size in entries if tag == "validation/samples"]
    point = total("training/") * training.log_every / training.steps
    picture = sum(pictures) / len(pictures)
    validation = total("validation/") / len(pictures)
    whole = point * FULL.steps / FULL.log_every
    whole += validation * FULL.steps / FULL.validate_every
    return point, picture, whole / MIB


def main() -> int:
    config = make_config()
    from tf_probunet.preparation import phantom
    from tf_probunet.training import callbacks, strategy, train

    looks, images = [], {"num_train": 64, "num_val": 8, "num_test": 1}
    with tempfile.TemporaryDirectory() as base:
        data_dir, run_dir = pathlib.Path(base, "data"), pathlib.Path(base, "run")
        phantom.prepare(
            config_lib.PhantomConfig(image_size=cli.FLAGS.image_size, **images),
            data_dir,
        )
        log_dir = run_dir / "tensorboard"
        watched = watch(callbacks, looks, config.training.validate_every, log_dir)
        with mock.patch.object(callbacks, "ScalarLogs", watched):
            train.train(
                config, data_dir=data_dir, run_dir=run_dir, strategy=strategy.mirrored()
            )
        point, picture, whole = full_run_mib(log_dir, config)
    print("   step  resident MiB  traces  log KiB")
    for step, resident, traces, size in looks:
        print(f"{step:7d}  {resident:12.1f}  {traces:6d}  {size / 1024:7.1f}")
    # The first look comes before the first validation and checkpoint.
    (start, before, _, small), (end, after, traces, large) = looks[1], looks[-1]
    thousands = (end - start) / 1000
    print(
        f"per 1000 steps: {(after - before) / thousands:+.2f} MiB of memory, "
        f"{(large - small) / thousands / 1024:.0f} KiB of log\n"
        f"log: {point:.0f} bytes a point, {picture / 1024:.0f} KiB a picture; the "
        f"paper's {FULL.steps} steps come to {whole:.1f} MiB"
    )
    print(f"traces of the training step: {traces}")
    return int(traces != 1)


if __name__ == "__main__":
    cli.start(main)
