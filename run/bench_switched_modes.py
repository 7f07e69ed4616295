"""Times the Cityscapes energy distance against its definition, on the same maps.

python run/bench_switched_modes.py
"""

import timeit

import _start  # noqa: F401  (the checkout's own package)
import numpy as np
from absl import flags

from tf_probunet.commands import cli
from tf_probunet.dataset import cityscapes_labels as table
from tf_probunet.evaluation.metrics import switched_modes

HEIGHT, WIDTH, SAMPLES = 256, 512, 16


def scene(displacement: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels in blocks, a tenth ignored; samples are modes with displaced outlines."""
    rng = np.random.default_rng(0)
    rows, columns = np.indices((HEIGHT, WIDTH))
    blocks = rng.integers(0, table.NUM_TRAIN_CLASSES, (HEIGHT // 32, WIDTH // 32))
    labels = blocks[rows // 32, columns // 32]
    samples = []
    for mode in rng.choice(table.NUM_MODES, SAMPLES, p=table.MODE_PROBABILITIES):
        shape = (2, HEIGHT // 8, WIDTH // 8)
        shift = rng.integers(-displacement, displacement + 1, shape)
        shift = shift[:, rows // 8, columns // 8]
        moved = labels[(rows + shift[0]) % HEIGHT, (columns + shift[1]) % WIDTH]
        samples.append(table.switch_table(mode)[moved])
    labels[: HEIGHT // 10] = table.IGNORE_LABEL
    return np.array(samples), labels.astype(np.uint8)


def definition(samples: np.ndarray, labels: np.ndarray) -> float:
    """The estimator as it is written: draws the modes, compares maps class by class."""

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        ious = []
        for c in (c for s in table.SWITCHES for c in (s.class_id, s.new_class_id)):
            in_a, in_b = a == c, b == c
            if union := np.count_nonzero(in_a | in_b):
                ious.append(np.count_nonzero(in_a & in_b) / union)
        return 1 - sum(ious) / len(ious) if ious else 0.0

    valid, w, n = labels != table.IGNORE_LABEL, table.MODE_PROBABILITIES, len(samples)
    drawn = [sample[valid] for sample in samples]
    modes = [table.switch_table(m)[labels[valid]] for m in range(len(w))]
    weighted = list(zip(w, modes))
    cross = sum(v * distance(s, y) for s in drawn for v, y in weighted)
    within = sum(distance(s, t) for s in drawn for t in drawn)
    truth = sum(u * v * distance(x, y) for u, x in weighted for v, y in weighted)
    return 2 * cross / n - within / n**2 - truth


def bench(displacement: int, repeats: int) -> float:
    """Prints both times and their ratio; returns the difference of the results."""
    maps = scene(displacement)
    functions = (switched_modes.energy_distance, definition)
    fast, slow = (
        min(timeit.repeat(lambda f=f: f(*maps), number=1, repeat=n * repeats))
        for f, n in zip(functions, (10, 1))
    )
    print(
        f"{SAMPLES} samples, {HEIGHT}x{WIDTH}, outlines off by {displacement} pixels: "
        f"{1e3 * fast:.1f} ms, definition {1e3 * slow:.0f} ms: {slow / fast:.0f}x"
    )
    return abs(np.subtract(*(f(*maps) for f in functions)))


def main() -> int:
    difference = max(bench(d, cli.FLAGS.repeats) for d in (0, 1, 2))
    print(f"largest difference of the results: {difference:.1e}")
    return int(difference > 1e-9)


if __name__ == "__main__":
    flags.DEFINE_integer("repeats", 3, "runs; the fastest counts", lower_bound=1)
    cli.start(main)
