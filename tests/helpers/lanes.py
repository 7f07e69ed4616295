"""Golden models as SavedModels, written in one lane and sampled from in another.

    python tests/helpers/lanes.py write DIRECTORY
    python tests/helpers/lanes.py read DIRECTORY OUT.npz

`write` builds each golden with the same seed, saves it and samples from the model;
`read` samples from what was saved, and from the weights that come with the repository.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES, SEEDS = 2, [7, 8]


def images(size: int) -> np.ndarray:
    """Two images with edges and noise, [2, size, size, 1]."""
    rng = np.random.default_rng(5)
    noise = rng.uniform(0, 0.3, size=(2, size, size, 1))
    noise[:, size // 4 : size // 2, size // 4 : size // 2] += 0.6
    return noise.astype(np.float32)


def write(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """Saves the goldens below a directory; returns the samples of the models."""
    import tensorflow as tf
    from helpers import goldens

    from tf_probunet.export import signatures

    found = {}
    for golden in goldens.GOLDENS:
        model = golden.build(seed=1)
        count = min(SAMPLES, model.max_samples or SAMPLES)
        module = tf.Module()
        module.model = model
        module.sample = signatures.Signatures(model).functions()["sample"]
        tf.saved_model.save(module, str(directory / golden.name))
        seeds = signatures.image_seeds(tf.constant(SEEDS), len(SEEDS))
        logits = model.sample(tf.constant(images(16)), count, seeds)
        found[golden.name] = tf.nn.softmax(logits).numpy()
    return found


def read(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the probabilities of samples of all SavedModels below a directory."""
    import tensorflow as tf

    found = {}
    shipped = ROOT / "data" / "pretrained" / "lidc_cpu"
    for path in [*sorted(p for p in directory.iterdir() if p.is_dir()), shipped]:
        model = tf.saved_model.load(str(path))
        size = 64 if path == shipped else 16
        count = 1 if path.name == "unet" else SAMPLES
        outputs = model.sample(images(size), count, SEEDS)
        found[path.name] = outputs["probabilities"].numpy()
    return found


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import tf_probunet  # noqa: F401  (chooses the Keras before TensorFlow is imported)

    action, place, *rest = sys.argv[1:]
    place = pathlib.Path(place)
    out = pathlib.Path(rest[0]) if rest else place / "built.npz"
    np.savez(out, **{"write": write, "read": read}[action](place))
