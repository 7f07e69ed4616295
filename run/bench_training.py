"""Times training, as ratios in one run, on phantom images.

    python run/bench_training.py
    python run/bench_training.py --base_channels=4 --num_scales=2 --image_size=32

Measures where the time of a step goes, the input pipeline on its own, several steps in
a call, two replicas, and the cost of channels, resolution and batch relative to a plain
matrix product.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import _start  # noqa: F401  (the checkout's own package)
from _timing import best_seconds
from absl import flags

from tf_probunet import config as config_lib
from tf_probunet.commands import cli

flags.DEFINE_integer(
    "image_size", 128, "height and width of the images", lower_bound=32
)
flags.DEFINE_integer(
    "base_channels", 32, "channels at the finest scale; the paper has 32", lower_bound=4
)
flags.DEFINE_integer(
    "num_scales", 5, "resolutions in the U-Net; the paper has 5", lower_bound=1
)
flags.DEFINE_integer("batch_size", 8, "images per step", lower_bound=2)
flags.DEFINE_integer("repeats", 3, "runs of each; the fastest counts", lower_bound=1)
flags.DEFINE_integer(
    "matmul_size",
    2048,
    "side of the matrix product that defines the peak speed",
    lower_bound=16,
)

STEPS_IN_A_CALL = 10
INPUT_BATCHES = 16
# One replica for each logical device. Devices are set up before anything else.
CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import bench_training
devices, data_dir, settings = sys.argv[2:]
print(bench_training.seconds_of_replicas(int(devices), data_dir, json.loads(settings)))
"""


def make_config(settings: dict, **changes) -> config_lib.Config:
    """The paper's training with the settings of the flags, and changes to them."""
    values = {**settings, **changes}
    size = values.pop("image_size")
    names = ("base_channels", "num_scales")
    return config_lib.Config(
        model=config_lib.ModelConfig(**{name: values.pop(name) for name in names}),
        data=config_lib.DataConfig(crop_size=size, eval_size=size),
        training=config_lib.TrainingConfig(**values),
    )


def make_batches(data_dir, config: config_lib.Config, threads: int = 0):
    """The endless training batches; 0 threads are as many as there are cores."""
    import tensorflow as tf

    from tf_probunet.dataset import input_pipeline, records

    batches = input_pipeline.training_batches(records.read_info(data_dir), config)
    if threads:
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        options.autotune.enabled = False
        batches = batches.with_options(options)
    return batches


def step_of(model):
    """One step on a batch that is there already, compiled as Keras does."""
    import tensorflow as tf

    return tf.function(lambda batch: model.train_step(batch))


def bench_step(data_dir, settings: dict) -> None:
    """Prints the shares of a step."""
    import tensorflow as tf

    from tf_probunet import seeds
    from tf_probunet.training import train

    config = make_config(settings)
    model, _ = train.build(config)
    batches = iter(make_batches(data_dir, config))
    batch, variables, seed = next(batches), model.trainable_variables, seeds.root(0)

    @tf.function
    def forward():
        return model.objective(batch, seed)["loss"]

    @tf.function
    def forward_and_backward():
        with tf.GradientTape() as tape:
            loss = model.objective(batch, seed)["loss"]
        return tape.gradient(loss, variables)

    gradients = forward_and_backward()
    update = tf.function(
        lambda: model.optimizer.apply_gradients(zip(gradients, variables))
    )
    step = step_of(model)
    seconds = best_seconds(
        {
            "input": lambda: [next(batches) for _ in range(INPUT_BATCHES)],
            "forward": forward,
            "both": forward_and_backward,
            "optimizer": update,
            "step": lambda: step(batch),
        },
        cli.FLAGS.repeats,
    )
    fetch = seconds["input"] / INPUT_BATCHES
    parts = {
        "input": fetch,
        "forward": seconds["forward"],
        "backward": seconds["both"] - seconds["forward"],
        "optimizer": seconds["optimizer"],
    }
    whole = fetch + seconds["step"]
    shares = ", ".join(f"{name} {part / whole:.1%}" for name, part in parts.items())
    rest = 1 - sum(parts.values()) / whole
    print(f"a step of {whole:.2f} s: {shares}, logs and the rest {rest:.1%}")


def bench_input(data_dir, settings: dict) -> None:
    """Prints the rate of the input pipeline, read, decoded and augmented."""
    config = make_config(settings)
    one = iter(make_batches(data_dir, config, threads=1))
    all_cores = iter(make_batches(data_dir, config))
    seconds = best_seconds(
        {
            1: lambda: [next(one) for _ in range(INPUT_BATCHES)],
            0: lambda: [next(all_cores) for _ in range(INPUT_BATCHES)],
        },
        cli.FLAGS.repeats,
    )
    rate = {
        n: INPUT_BATCHES * config.training.batch_size / s for n, s in seconds.items()
    }
    print(
        f"input alone: {rate[1]:.0f} images/s on one core, {rate[0]:.0f} on "
        f"{os.cpu_count()} ({rate[0] / rate[1]:.1f}x)"
    )


def bench_steps_in_a_call(data_dir, settings: dict) -> float:
    """Prints what several steps in a call save; returns the weights' difference.

    On the smallest network, whose steps are so short that the calls count.
    """
    import numpy as np

    from tf_probunet.training import train

    small = {"base_channels": 4, "num_scales": 2, "image_size": 32, "batch_size": 2}
    functions, models = {}, {}
    for several in (1, STEPS_IN_A_CALL):
        config = make_config(settings, **small, steps_per_execution=several)
        models[several], _ = train.build(config)
        batches = make_batches(data_dir, config)
        fit = {"epochs": 1, "steps_per_epoch": 10 * STEPS_IN_A_CALL, "verbose": 0}
        functions[several] = lambda model=models[several], data=batches, fit=fit: (
            model.fit(data, **fit)
        )
    seconds = best_seconds(functions, cli.FLAGS.repeats)
    one, several = (1e3 * s / (10 * STEPS_IN_A_CALL) for s in seconds.values())
    print(
        f"smallest network: {one:.1f} ms a step, {several:.1f} ms with "
        f"{STEPS_IN_A_CALL} steps in a call: {one / several:.2f}x"
    )
    pairs = zip(*(model.trainable_variables for model in models.values()))
    return max(float(np.abs(a.numpy() - b.numpy()).max()) for a, b in pairs)


def seconds_of_replicas(devices: int, data_dir: str, settings: dict) -> float:
    """Seconds of a step on this number of logical CPU devices."""
    from tf_probunet.dataset import input_pipeline, records
    from tf_probunet.training import strategy, train

    replicas = strategy.mirrored(devices)
    config, info = make_config(settings), records.read_info(data_dir)
    with replicas.scope():
        model, _ = train.build(config)
    batches = input_pipeline.training_batches(info, config)
    batches = replicas.experimental_distribute_dataset(batches)
    fit = {"epochs": 1, "steps_per_epoch": 3, "verbose": 0}
    return best_seconds({"": lambda: model.fit(batches, **fit)}, 1)[""] / 3


def bench_replicas(data_dir, settings: dict) -> None:
    """Prints the time of a step on two logical devices against that on one."""
    seconds = {}
    for devices in (1, 2):
        words = [pathlib.Path(__file__).parent, devices, data_dir, json.dumps(settings)]
        command = [sys.executable, "-c", CHILD, *map(str, words)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        seconds[devices] = float(done.stdout)
    print(
        f"replicas on the {os.cpu_count()} cores: {seconds[1]:.2f} s a step on one "
        f"logical device, {seconds[2]:.2f} on two: {seconds[1] / seconds[2]:.2f}x"
    )


def training_multiply_adds(config: config_lib.Config) -> int:
    """Multiply-adds of a step: backward takes twice as many as forward."""
    from tf_probunet.models import cost

    layers = cost.cost(config.model, *config_lib.sides(config.data.crop_size))
    forward = layers.multiply_adds(1) + sum(
        layer.multiply_adds for layer in layers.training_only
    )
    return 3 * config.training.batch_size * forward


def bench_cost(data_dir, settings: dict) -> None:
    """Prints what a step costs by channels, resolution and batch."""
    import tensorflow as tf

    from tf_probunet.training import train

    side = cli.FLAGS.matmul_size
    matrix = tf.random.stateless_normal([side, side], [0, 0])
    product = tf.function(lambda: tf.linalg.matmul(matrix, matrix))
    peak = side**3 / best_seconds({"": lambda: product().numpy()}, 5)[""]
    print(f"a matrix product of {side}: {peak / 1e9:.0f} G multiply-adds/s, the peak")
    size, batch = settings["image_size"], settings["batch_size"]
    for change in (
        {},
        {"base_channels": settings["base_channels"] // 2},
        {"base_channels": settings["base_channels"] // 4},
        {"image_size": size // 2},
        {"batch_size": batch // 2},
        {"batch_size": 2 * batch},
    ):
        config = make_config(settings, **change)
        model, _ = train.build(config)
        data, step = next(iter(make_batches(data_dir, config))), step_of(model)
        seconds = best_seconds({"": lambda s=step, d=data: s(d)}, cli.FLAGS.repeats)[""]
        count = training_multiply_adds(config)
        print(
            f"{config.model.base_channels:4d} channels, {config.data.crop_size:3d} "
            f"pixels, batch {config.training.batch_size:3d}: {count / 1e9:7.3g} G "
            f"multiply-adds, {seconds:6.2f} s, "
            f"{config.training.batch_size / seconds:6.1f} images/s, "
            f"{count / seconds / peak:.0%} of the peak"
        )


def main() -> int:
    names = ("image_size", "base_channels", "num_scales", "batch_size")
    settings = {name: cli.FLAGS[name].value for name in names}
    make_config(settings, image_size=settings["image_size"] // 2)  # Refuses early.
    from tf_probunet.preparation import phantom

    with tempfile.TemporaryDirectory() as data_dir:
        images = {"num_train": 64, "num_val": 1, "num_test": 1}
        phantom.prepare(
            config_lib.PhantomConfig(image_size=settings["image_size"], **images),
            data_dir,
        )
        bench_step(data_dir, settings)
        bench_input(data_dir, settings)
        difference = bench_steps_in_a_call(data_dir, settings)
        bench_replicas(data_dir, settings)
        bench_cost(data_dir, settings)
    print(f"largest difference of the weights, one step or several: {difference:.1e}")
    return int(difference > 1e-3)


if __name__ == "__main__":
    cli.start(main)
