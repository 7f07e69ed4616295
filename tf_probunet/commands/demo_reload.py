"""Loads a SavedModel where this package can't be imported, and draws samples.

Called by run/demo.py with the SavedModel and the samples that the evaluation kept.
"""

import pathlib
import sys
import zipfile
from typing import Any

import numpy as np


def main(path: str, kept_path: str) -> None:
    """Checks that the reloaded model repeats its samples."""
    _forbid_package()
    import tensorflow as tf

    model = tf.saved_model.load(path)
    with zipfile.ZipFile(kept_path).open("images.npy") as kept:
        image = np.lib.format.read_array(kept, allow_pickle=False)[:1]
    first, second = (model.sample(image, 16, 7)["labels"].numpy() for _ in range(2))
    if first.shape != (1, 16, *image.shape[1:3]) or (first != second).any():
        sys.exit("error: the reloaded model does not repeat its samples")
    areas = (first[0] > 0).sum((1, 2)).tolist()
    print(f"16 samples of one image, in pixels: {', '.join(map(str, areas))}")


def _forbid_package() -> None:
    """Makes every import of this package fail from here on."""
    import tf_probunet  # noqa: F401  (hides the start-up notices of TensorFlow)

    modules: dict[str, Any] = sys.modules
    for name in list(modules):
        if name.partition(".")[0] == "tf_probunet":
            modules[name] = None


if __name__ == "__main__":
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])
    main(*sys.argv[1:])
