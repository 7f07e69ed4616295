"""Times sampling, as ratios in one run. The weights are random.

python run/bench_sampling.py
"""

import subprocess
import sys
import tempfile

import _start  # noqa: F401  (the checkout's own package)
from _timing import best_seconds
from absl import flags

from tf_probunet.commands import cli
from tf_probunet.config import ModelConfig

flags.DEFINE_integer(
    "image_size", 128, "height and width of the images", lower_bound=16
)
flags.DEFINE_integer(
    "base_channels", 32, "channels at the finest scale; the paper has 32", lower_bound=1
)
flags.DEFINE_integer("repeats", 3, "runs of each; the fastest counts", lower_bound=1)

BATCHES = (1, 2, 4, 8, 16, 32)
# Loads a SavedModel and draws one sample twice, then a hundred.
CHILD = """
import pathlib, sys, time
import numpy as np, tensorflow as tf
def peak(function):
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # Forgets the peak before.
    function()
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
image = np.zeros([1, int(sys.argv[2]), int(sys.argv[2]), 1], np.float32)
times = [time.perf_counter()]
loaded = tf.saved_model.load(sys.argv[1])
for _ in range(2):
    times.append(time.perf_counter())
    loaded.sample(image, 1)
times.append(time.perf_counter())
peaks = [peak(lambda: loaded.sample(image, n)) for n in (1, 100)]
print(*np.diff(times), *peaks)
"""


def best_times(functions: dict, repeats: int) -> dict:
    """Milliseconds of the fastest run of each."""
    seconds = best_seconds(functions, repeats)
    return {name: 1e3 * value for name, value in seconds.items()}


def concatenated(f_comb, features, z):
    """f_comb as the paper draws it, for one image: z broadcast and concatenated."""
    import tensorflow as tf

    shape = [z.shape[1], *features.shape[1:3], -1]
    planes = tf.broadcast_to(z[0, :, None, None], [*shape[:3], z.shape[2]])
    x = tf.concat([tf.repeat(features, shape[0], axis=0), planes], axis=-1)
    for i, (kernel, bias) in enumerate(zip(f_comb.weights[::2], f_comb.weights[1::2])):
        x = tf.nn.conv2d(tf.nn.relu(x) if i else x, kernel, 1, "SAME")
        x = tf.nn.bias_add(x, bias)
    return x[None]


def bench_samples(model, sample, stratified, image) -> float:
    """Prints the ratios at 16 and 100 samples; returns the difference of the forms."""
    import tensorflow as tf

    features = model.features(image)
    z = tf.random.stateless_normal([1, 100, model.config.latent_dim], [0, 0])
    trunk = tf.function(lambda x: (model.prior(x).mean(), model.features(x)))
    split = tf.function(model.decode_in_chunks)
    joined = tf.function(lambda f, z: concatenated(model.f_comb, f, z))
    functions = {
        "trunk": lambda: trunk(image),
        "passes": lambda: [sample(image, 1, seed) for seed in range(16)],
        "stratified": lambda: stratified(image, 16),
    }
    for n in (1, 16, 100):
        functions[n] = lambda n=n: sample(image, n)
        functions["split", n] = lambda n=n: split(features, z[:, :n])
        functions["joined", n] = lambda n=n: joined(features, z[:, :n])
    ms = best_times(functions, cli.FLAGS.repeats)
    more = (ms[100] - ms[1]) / 99
    print(
        f"16 samples {ms[16]:.0f} ms, 16 full passes {ms['passes']:.0f} ms: "
        f"{ms['passes'] / ms[16]:.1f}x\n"
        f"100 samples {ms[100]:.0f} ms, trunk (U-Net and prior) {ms['trunk']:.0f} ms: "
        f"one more sample costs {more:.2f} ms, {more / ms['trunk']:.1%} of the trunk\n"
        f"16 stratified samples, of 128 candidates: {ms['stratified']:.0f} ms, "
        f"{ms['stratified'] / ms[16]:.1f}x of 16 independent ones"
    )
    for n in (16, 100):
        both = ms["split", n], ms["joined", n]
        print(
            f"f_comb, {n} samples: split {both[0]:.0f} ms, concatenated {both[1]:.0f} "
            f"ms: {both[1] / both[0]:.1f}x"
        )
    return float(tf.reduce_max(tf.abs(split(features, z) - joined(features, z))))


def bench_batches(sample, image) -> None:
    """Prints the time per image, 16 samples each, for several batch sizes."""
    batches = {b: image.numpy().repeat(b, axis=0) for b in BATCHES}
    ms = best_times({b: lambda b=b: sample(batches[b], 16) for b in BATCHES}, 1)
    shown = ", ".join(f"{b}: {ms[b] / b:.0f}" for b in BATCHES)
    print(f"ms an image with 16 samples, by batch size: {shown}")


def bench_process(model, sample, size: int) -> None:
    """Prints cold start and peak memory of a new process (on Linux)."""
    import tensorflow as tf

    module = tf.Module()
    module.weights, module.sample = model.trainable_variables, sample
    with tempfile.TemporaryDirectory() as path:
        tf.saved_model.save(module, path)
        command = [sys.executable, "-c", CHILD, path, str(size)]
        result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    load, first, second, one, hundred = map(float, result.stdout.split())
    naive = 100 * size**2 * model.config.base_channels * 4 / 2**20
    print(
        f"cold start: load {load:.1f} s, first call {first:.1f} s, next {second:.2f}\n"
        f"peak memory: {one:.0f} MiB with 1 sample, {hundred:.0f} with 100; a layer of "
        f"f_comb for all at once would be {naive:.0f} more"
    )


def main() -> int:
    import tensorflow as tf

    from tf_probunet import models
    from tf_probunet.export import signatures

    size = cli.FLAGS.image_size
    model = models.build(ModelConfig(base_channels=cli.FLAGS.base_channels))
    functions = signatures.Signatures(model).functions()
    sample, stratified = functions["sample"], functions["stratified"]
    image = tf.random.stateless_uniform([1, size, size, 1], [0, 0])
    difference = bench_samples(model, sample, stratified, image)
    bench_batches(sample, image)
    bench_process(model, sample, size)
    print(f"largest difference of the two forms of f_comb: {difference:.1e}")
    return int(difference > 1e-4)


if __name__ == "__main__":
    cli.start(main)
