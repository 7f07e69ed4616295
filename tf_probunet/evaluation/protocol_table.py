"""Scores the same samples by every protocol, and shows the numbers side by side."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tf_probunet import files, locks, resume
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.evaluation import evaluate, sample_files, sources, tables
from tf_probunet.evaluation.config import EvaluationConfig
from tf_probunet.evaluation.protocols import PROTOCOLS
from tf_probunet.evaluation.summary import METRICS
from tf_probunet.progress import Progress


@locks.holding("out_dir")
def score_all(
    saved_model: files.Path,
    data_dir: files.Path,
    out_dir: files.Path,
    *,
    split: str = "val",
    limit: int = 0,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """Draws the samples of each image once, and scores them by each protocol.

    After an interruption the same call continues, with the samples that there are.

    Args:
        saved_model: of `run/export.py`.
        data_dir: a prepared data set.
        out_dir: where to write the results, in a directory per protocol.
        split: the split to score.
        limit: score at most this many images; 0 for all.
        seed: of the samples, which are those of `run/evaluate.py`.

    Returns:
        The contents of `results.json` by protocol.

    Raises:
        FileNotFoundError: the model or the data do not exist.
        ValueError: they do not fit each other, or `out_dir` already holds results.
    """
    out_dir, info = pathlib.Path(out_dir), records.read_info(data_dir)
    model = sources.SavedModel(saved_model, seed)
    settings = {
        "model": model.description["fingerprint"],
        "data": info.fingerprint,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    parts_dir = resume.parts_dir(out_dir, settings)
    started = parts_dir.is_dir()
    if not started:
        for name in PROTOCOLS:
            evaluate.results_dir.refuse_existing(out_dir / name, overwrite=False)
    resume.remove_parts(out_dir, keep=parts_dir)
    _draw(model, info, split, limit, parts_dir)
    results = {
        name: evaluate.evaluate(
            EvaluationConfig(
                data_dir=str(data_dir),
                out_dir=str(out_dir / name),
                samples_dir=str(parts_dir),
                split=split,
                validation_split="",
                limit=limit,
                eval_size=model.data.frame_size,
                save_samples=0,
                protocol=name,
                overwrite=started,
            )
        )
        for name in PROTOCOLS
    }
    resume.remove_parts(out_dir)
    return results


def table(results: Mapping[str, dict[str, Any]]) -> list[list[str]]:
    """Returns a row for each number that a protocol reports, a column per protocol.

    Args:
        results: the contents of `results.json` by protocol.
    """
    cells: dict[str, dict[str, str]] = {}

    def add(title: str, name: str, value: dict[str, Any]) -> None:
        cells.setdefault(title, {})[name] = tables.number(value["mean"])

    for name, found in results.items():
        if PROTOCOLS[name].statistic:
            for count, value in found["ged"].items():
                add(f"GED² of {count} sample{'s' * (count != '1')}", name, value)
    cells = dict(sorted(cells.items(), key=lambda row: int(row[0].split()[2])))
    for name, found in results.items():
        if PROTOCOLS[name].matching_samples:
            count = found["protocol"]["matching_samples"]
            add(f"HM-IoU of {count} samples", name, found["hungarian_iou"])
    for metric in METRICS:
        for name, found in results.items():
            if metric.name in PROTOCOLS[name].scores:
                add(metric.title, name, found[metric.name])
    rows = [["", *results]]
    for title, by_name in cells.items():
        rows.append([title, *(by_name.get(name, "") for name in results)])
    return rows


def _draw(
    model: sources.SavedModel,
    info: records.DatasetInfo,
    split: str,
    limit: int,
    samples_dir: pathlib.Path,
) -> None:
    """Writes the samples of a split that are missing, as many as a protocol takes."""
    model.check(info)
    most = max(max(p.num_samples) for p in PROTOCOLS.values() if p.num_samples)
    size = model.data.frame_size
    examples = input_pipeline.evaluation_examples(info, split, model.data, size=size)
    total = min(limit or info.count(split), info.count(split))
    progress = Progress(total, f"{split}: samples", unit="images")
    try:
        for place, example in enumerate(examples.take(total).as_numpy_iterator()):
            key = example["key"].decode()
            if (samples_dir / f"{sample_files.file_name(key)}.npz").exists():
                continue
            drawn = model.draw([key], example["image"][None], most)
            sample_files.write(samples_dir, key, drawn.labels[0])
            progress.update(place + 1)
    finally:
        progress.close()
