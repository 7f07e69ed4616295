"""Loads a SavedModel where this package can't be imported, and draws samples.

Called by run/demo.py with the SavedModel and the samples that the evaluation kept.
"""

import sys
import zipfile

import numpy as np


def main(path: str, kept_path: str) -> None:
    """Checks that the reloaded model repeats its samples."""
    # Importing it raises from here on.
    sys.modules["tf_probunet"] = None  # type: ignore[assignment]
    import tensorflow as tf

    model = tf.saved_model.load(path)
    with zipfile.ZipFile(kept_path).open("images.npy") as kept:
        image = np.lib.format.read_array(kept, allow_pickle=False)[:1]
    first, second = (model.sample(image, 16, 7)["labels"].numpy() for _ in range(2))
    if first.shape != (1, 16, *image.shape[1:3]) or (first != second).any():
        sys.exit("error: the reloaded model does not repeat its samples")
    areas = (first[0] > 0).sum((1, 2)).tolist()
    print(f"16 samples of one image, in pixels: {', '.join(map(str, areas))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
