"""Times the energy distance by matrix products against the plain double loop.

    python run/bench_evaluation.py

Both score the same masks in the same run, and their results must agree.
"""

import time
import tracemalloc

import _start  # noqa: F401  (the checkout's own package)
import numpy as np
from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_integer("num_images", 256, "images for the matrix products", lower_bound=8)
flags.DEFINE_integer("repeats", 5, "runs of each; the fastest counts", lower_bound=1)

SIZE, GRADERS, COUNTS, LOOP_IMAGES = 128, 4, (1, 4, 8, 16), 8
RNG = np.random.default_rng(0)


def lesions(images: int, masks: int) -> np.ndarray:
    """Discs of 3 to 12 pixels' radius near the centre, a quarter of them missing."""
    rows, columns = np.ogrid[:SIZE, :SIZE]
    centres = RNG.normal(SIZE / 2, 2, (2, images, masks, 1, 1))
    radii = RNG.uniform(3, 12, (images, masks, 1, 1))
    discs = (rows - centres[0]) ** 2 + (columns - centres[1]) ** 2 < radii**2
    return (discs & (RNG.random(radii.shape) > 0.25)).astype(np.uint8)


def noise(images: int, masks: int) -> np.ndarray:
    """Half of the pixels at random: the worst case for the matrix products."""
    return RNG.integers(0, 2, (images, masks, SIZE, SIZE), dtype=np.uint8)


def double_loop(samples: np.ndarray, graders: np.ndarray) -> float:
    """The paper's estimator as it is written, for one image."""

    def mean(first: np.ndarray, second: np.ndarray) -> float:
        total = 0.0
        for a in first:
            for b in second:
                union = np.logical_or(a, b).sum()
                total += 1 - np.logical_and(a, b).sum() / union if union else 0.0
        return total / (len(first) * len(second))

    return 2 * mean(samples, graders) - mean(samples, samples) - mean(graders, graders)


def timed(function, *args) -> tuple[float, np.ndarray]:
    """Seconds of the best run, and the result."""
    times = []
    for _ in range(cli.FLAGS["repeats"].value):
        start = time.perf_counter()
        result = function(*args)
        times.append(time.perf_counter() - start)
    return min(times), result


def bench_lidc(masks) -> float:
    """16 samples and 4 graders; returns the largest difference of the results."""
    from tf_probunet.evaluation.metrics import ged

    images = cli.FLAGS["num_images"].value
    stacks = masks(images, COUNTS[-1]), masks(images, GRADERS)
    few = [stack[:LOOP_IMAGES] for stack in stacks]
    seconds, terms = timed(lambda: ged.energy_terms(*stacks, counts=COUNTS))
    loop_seconds, expected = timed(lambda: list(map(double_loop, *few)))
    rate, loop_rate = images / seconds, LOOP_IMAGES / loop_seconds
    print(
        f"{masks.__name__}, {COUNTS[-1]} samples x {GRADERS} graders, {SIZE}x{SIZE}: "
        f"{rate:.0f} images/s, double loop {loop_rate:.0f}: {rate / loop_rate:.0f}x"
    )
    return np.abs(terms.energy_distance[:LOOP_IMAGES, -1] - expected).max()


def bench_memory(images: int = 32, samples: int = 100) -> float:
    """Memory at 100 samples, on top of the masks' own."""
    from tf_probunet.evaluation.metrics import ged

    stacks = lesions(images, samples), lesions(images, GRADERS)
    tracemalloc.start()
    ged.energy_terms(*stacks, counts=(*COUNTS, samples))
    peak = tracemalloc.get_traced_memory()[1] / images / 2**20
    tracemalloc.stop()
    own = stacks[0].nbytes / images / 2**20
    print(
        f"{samples} samples: {peak:.2f} MiB an image, without the masks' {own:.2f} MiB"
    )
    return 0.0


BENCHES = (lambda: bench_lidc(lesions), lambda: bench_lidc(noise), bench_memory)


def main() -> int:
    difference = max(bench() for bench in BENCHES)
    print(f"largest difference of the results: {difference:.1e}")
    return int(difference > 1e-9)


if __name__ == "__main__":
    cli.start(main)
