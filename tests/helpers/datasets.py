"""Small made-up data sets whose examples can be told apart by their pixel values."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_probunet import files
from tf_probunet.dataset import records

SIZE = 8
NUM_GRADERS = 4


def spec(**changes: Any) -> records.DatasetSpec:
    """Returns the specification of `example`, with changes."""
    values = {
        "name": "made up",
        "class_names": ("a", "b", "c", "d"),
        "image_shape": (SIZE, SIZE, 1),
        "image_dtype": "uint8",
        "intensity": "uint8",
        "num_graders": NUM_GRADERS,
        "preparation": {"recipe": 1},
    }
    return records.DatasetSpec(**{**values, **changes})


def example(index: int, **changes: Any) -> records.Example:
    """Returns an image full of `index` whose grader g says g everywhere."""
    graders = np.arange(NUM_GRADERS, dtype=np.uint8)[:, None, None]
    values = {
        "key": f"key-{index:03d}",
        "group": f"group-{index:03d}",
        "image": np.full((SIZE, SIZE, 1), index, np.uint8),
        "labels": np.broadcast_to(graders, (NUM_GRADERS, SIZE, SIZE)),
    }
    return records.Example(**{**values, **changes})


def write(
    out_dir: pathlib.Path,
    splits: dict[str, Sequence[records.Example]],
    dataset_spec: records.DatasetSpec | None = None,
    **kwargs: Any,
) -> records.DatasetInfo:
    """Writes examples as a data set."""
    dataset_spec = spec() if dataset_spec is None else dataset_spec
    return records.write_dataset(
        out_dir,
        dataset_spec,
        {
            split: [
                (e.key, e.group, lambda e=e: records.encode(e, dataset_spec))
                for e in examples
            ]
            for split, examples in splits.items()
        },
        **kwargs,
    )


def vouch(data_dir: pathlib.Path, shard: str, count: int | None = None) -> None:
    """Makes the description fit the shard that lies there, and declare `count`."""
    path = data_dir / records.INFO_NAME
    info = json.loads(path.read_text())
    for split in info["splits"].values():
        for described in split["shards"]:
            if described["file"] == shard:
                file = data_dir / shard
                size, digest = file.stat().st_size, files.sha256(file)
                described.update(bytes=size, sha256=digest)
                described["count"] = count or described["count"]
        split["count"] = sum(described["count"] for described in split["shards"])
        split["groups"] = min(split["groups"], split["count"])
    path.write_text(json.dumps(info))


def contents(directory: pathlib.Path) -> dict[str, bytes]:
    """Returns the bytes of each file below a directory, hidden ones too."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def mixed_spec(**changes: Any) -> records.DatasetSpec:
    """Returns the specification of `mixed_example`, with changes."""
    common = spec(**changes)
    names = ("name", "class_names", "image_dtype", "intensity", "preparation")
    fields = {name: getattr(common, name) for name in (*names, "ignore_label")}
    return records.DatasetSpec.mixed(channels=common.image_shape[2], **fields)


def mixed_example(
    index: int, num_graders: int, size: tuple[int, int] = (SIZE, SIZE)
) -> records.Example:
    """Returns an image of any size, full of `index`, whose grader g says g."""
    graders = np.arange(num_graders, dtype=np.uint8)[:, None, None]
    return example(
        index,
        image=np.full((*size, 1), index, np.uint8),
        labels=np.broadcast_to(graders, (num_graders, *size)),
    )
