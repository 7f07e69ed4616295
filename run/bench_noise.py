r"""Compares ways to choose the noise of a set of samples.

    python run/bench_noise.py --data_dir=runs/lidc --split=val --limit=200

For each way and number of samples it prints means over images:

- the squared energy distance to the graders;
- the energy distance to the model itself (2048 samples), which ignores the graders;
- the bias and the root mean square error of the share of samples that mark anything.

The last way is that of `--sampling=stratified`: of 128 latents it chooses by what they
show. docs/evaluation.md says more.
"""

import _start  # noqa: F401  (the checkout's own package)
import numpy as np
from absl import flags
from scipy import special
from scipy.stats import qmc

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import cli

flags.DEFINE_string("saved_model", None, "with latents; by default the pretrained one")
flags.DEFINE_string("data_dir", None, "a prepared data set of binary masks")
flags.DEFINE_string("split", "val", "of the data set")
flags.DEFINE_integer("limit", 200, "number of images", lower_bound=1)
flags.DEFINE_list("num_samples", "1,2,3,4,5,8,16,32,100,1000", "numbers of samples")
flags.DEFINE_integer("seed", 0, "of the noise")
REQUIRED = ["data_dir"]

NUM_REFERENCE = 2048
_CHUNK = 512


def strata(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """A random permutation of 0 to n - 1 for each dimension, [n, size]."""
    return np.argsort(rng.random((n, size)), axis=0)


def random_points(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Latin hypercube: a random point in each stratum."""
    return (strata(n, size, rng) + rng.random((n, size))) / n


def midpoints(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Latin hypercube: the middle of each stratum."""
    return (strata(n, size, rng) + 0.5) / n


def crossed(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Latin hypercube of random points, the last dimension crossed with the others."""
    side = int(np.ceil(np.sqrt(n)))
    levels = np.argsort(rng.random((-(-n // side), side, size)), axis=1)
    levels = levels.reshape(-1, size)[:n]
    ranks = np.argsort(np.argsort(levels + rng.random((n, size)), axis=0), axis=0)
    ranks[:, -1] = np.arange(n)
    return (ranks + rng.random((n, size))) / n


def mirrored(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Latin hypercube of random points, in pairs z and -z."""
    half = n // 2
    first = strata(half, size, rng) + rng.random((half, size))
    first = np.where(rng.random(first.shape) < 0.5, first, n - first)
    rest = half + rng.random((n % 2, size))
    return np.concatenate([first, n - first, rest]) / n


def sobol(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """The first points of a scrambled Sobol sequence."""
    power = max(0, int(np.ceil(np.log2(n))))
    return qmc.Sobol(size, seed=int(rng.integers(2**31))).random_base2(power)[:n]


def lattice(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """A shifted lattice: multiples of powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(50):
        ratio = (1 + ratio) ** (1 / (size + 1))
    steps = ratio ** -np.arange(1.0, size + 1)
    return (np.arange(n)[:, None] * steps + rng.random(size)) % 1


def normal(points: np.ndarray) -> np.ndarray:
    return special.ndtri(points.clip(1e-9, 1 - 1e-9)).astype(np.float32)


def without_last(noise: np.ndarray) -> np.ndarray:
    return noise * (np.arange(noise.shape[1]) < noise.shape[1] - 1)


def to_unit_variance(noise: np.ndarray) -> np.ndarray:
    spread = np.sqrt(np.square(noise).mean(axis=0))
    return noise / np.where(spread > 0, spread, 1)


WAYS = {
    "independent": lambda n, d, rng: rng.standard_normal((n, d)).astype(np.float32),
    "Latin hypercube, random points": lambda *a: normal(random_points(*a)),
    "the same, last dimension crossed": lambda *a: normal(crossed(*a)),
    "Latin hypercube, mirrored pairs": lambda *a: normal(mirrored(*a)),
    "Latin hypercube, midpoints": lambda *a: normal(midpoints(*a)),
    "the same, last dimension at 0": lambda *a: without_last(normal(midpoints(*a))),
    "midpoints of unit variance": lambda *a: to_unit_variance(normal(midpoints(*a))),
    "Sobol, scrambled": lambda *a: normal(sobol(*a)),
    "lattice, shifted": lambda *a: normal(lattice(*a)),
}
OWN = "chosen by area among 128"


def distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """1 - IoU between masks [A, P] and [B, P] of float32; 0 for two empty ones."""
    shared = first @ second.T
    union = first.sum(1)[:, None] + second.sum(1) - shared
    return np.where(union > 0, 1 - shared / np.maximum(union, 1), 0.0)


def energy(samples: np.ndarray, others: np.ndarray, within: float) -> float:
    cross, own = distances(samples, others).mean(), distances(samples, samples).mean()
    return 2 * cross - own - within


def score(model, example: dict, counts: list[int], rng: np.random.Generator) -> dict:
    """Returns (graders, model, presence error) by way and count, for one image."""
    from tf_probunet.dataset import input_pipeline

    key, image = example["key"].decode(), example["image"][None]
    seen = input_pipeline.central_crop(image, model.data.eval_size)
    prior = model.call("prior", seen, about=key)
    size = prior["mean"].shape[1]
    places = [(way, n) for n in counts for way in WAYS]
    sets = [WAYS[way](n, size, rng) for way, n in places]
    sets.append(normal(random_points(NUM_REFERENCE, size, rng)))
    sets = [prior["mean"] + prior["stddev"] * noise for noise in sets]
    for n in counts:
        seed = int(rng.integers(2**31))
        own = model.call("stratified_latents", seen, n, [seed], about=key)["z"][0]
        places.append((OWN, n))
        sets.insert(-1, own)
    z = np.concatenate(sets)
    labels = np.concatenate(
        [
            model.call("decode", seen, z[None, i : i + _CHUNK], about=key)["labels"][0]
            for i in range(0, len(z), _CHUNK)
        ]
    )
    labels = input_pipeline.pad_to(labels.astype(np.uint8), image.shape[1:3])
    masks = np.concatenate([labels, example["labels"].astype(np.uint8)])
    masks = masks.reshape(len(masks), -1)
    masks = masks[:, masks.any(axis=0)].astype(np.float32)
    samples, graders = masks[: len(z)], masks[len(z) :]
    *parts, reference = np.split(samples, np.cumsum([len(s) for s in sets])[:-1])
    among = distances(graders, graders).mean(), distances(reference, reference).mean()
    present = reference.any(axis=1).mean()
    return {
        place: (
            energy(part, graders, among[0]),
            energy(part, reference, among[1]),
            part.any(axis=1).mean() - present,
        )
        for place, part in zip(places, parts)
    }


def main() -> None:
    from tf_probunet.artifacts import saved_model
    from tf_probunet.dataset import input_pipeline, records

    values = cli.FLAGS
    model = saved_model.load(values.saved_model or pretrained.model_path())
    info = records.read_info(values.data_dir)
    examples = input_pipeline.evaluation_examples(
        info, values.split, model.data, size=model.data.frame_size
    )
    counts = sorted(int(n) for n in values.num_samples)
    rng = np.random.default_rng(values.seed)
    rows = [
        score(model, example, counts, rng)
        for example in examples.take(values.limit).as_numpy_iterator()
    ]
    found = {place: np.array([row[place] for row in rows]) for place in rows[0]}
    titles = {
        "energy distance to the graders": lambda v: v[:, 0].mean(),
        "energy distance to the model": lambda v: v[:, 1].mean(),
        "presence, bias": lambda v: v[:, 2].mean(),
        "presence, root mean square error": lambda v: np.sqrt((v[:, 2] ** 2).mean()),
    }
    for title, summary in titles.items():
        print(f"\n{title}, {len(rows)} images")
        print(f"{'samples':34}" + "".join(f"{n:>7}" for n in counts))
        for way in (*WAYS, OWN):
            cells = [f"{summary(found[way, n]):7.3f}" for n in counts]
            print(f"{way:34}" + "".join(cells))


if __name__ == "__main__":
    cli.start(main, REQUIRED)
