"""Prepares LIDC-IDRI from any of its four formats."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from tf_probunet import files, locks
from tf_probunet.dataset.records import DatasetSpec
from tf_probunet.hashing import salted_hash
from tf_probunet.preparation import runner, splits
from tf_probunet.preparation.lidc import pickles, pngs, series
from tf_probunet.preparation.lidc.known_splits import KNOWN_SPLITS
from tf_probunet.preparation.lidc.source import NUM_GRADERS, Source

# All formats except "dicom", which has settings of its own.
_SOURCES = {
    "png_slices": pngs.slices_source,
    "crops": pngs.crops_source,
    "pickle": pickles.source,
}


@locks.holding("out_dir")
def prepare(
    input_path: files.Path,
    out_dir: files.Path,
    *,
    source_format: str = "dicom",
    split_file: files.Path | None = None,
    known_split: str | None = None,
    strict: bool = False,
    num_workers: int = 0,
    overwrite: bool = False,
    num_preview: int = 0,
    xml_dir: files.Path | None = None,
    keep_slice_location_mismatch: bool = False,
) -> dict[str, Any]:
    """Writes records, the split that was used, a report and a preview.

    Args:
        input_path: the directory, or the file for "pickle".
        out_dir: where to write.
        source_format: "dicom", "png_slices", "crops" or "pickle".
        split_file: JSON file that says which patient (series for "pickle") is in which
            split; those that are not in it are left out and reported. Without it,
            "crops" keep their split and the others get the deterministic one.
        known_split: for "pickle", the name of a published split in `KNOWN_SPLITS`.
        strict: make the first problem an error.
        num_workers: processes; 0 stands for one per core.
        overwrite: replace a data set of other settings.
        num_preview: how many images to show on the contact sheet; 0 for no sheet.
        xml_dir: for "dicom", directory of the annotation files; None if with the scans.
        keep_slice_location_mismatch: for "dicom", keep slices whose SliceLocation
            differs from their position, which the paper drops.

    Returns:
        The report, as written to `report.json`.

    Raises:
        FileNotFoundError: the input or the split file does not exist.
        ValueError: the input is not of the format, a patient is in two splits, nothing
            usable is left, or, with `strict`, there is any problem.
    """
    if known_split is not None:
        _check_known_split(known_split, source_format, split_file)
    # Read first, so that a mistake in it shows before minutes of reading headers.
    given = None if split_file is None else splits.read(split_file)
    written = splits.names_written(out_dir, split_file)
    runner.check_out_dir(out_dir, _dataset_name(source_format), overwrite, written)
    if source_format == "dicom":
        source = series.source(
            input_path,
            num_workers,
            xml_dir=xml_dir,
            keep_slice_location_mismatch=keep_slice_location_mismatch,
        )
    elif xml_dir is not None or keep_slice_location_mismatch:
        raise ValueError(
            "--xml_dir and --keep_slice_location_mismatch go with --format=dicom, got "
            f"--format={source_format}"
        )
    else:
        source = _SOURCES[source_format](input_path)
    try:
        if known_split is not None:
            source = _with_known_split(source, known_split)
        used = given or source.splits or splits.assign(source.groups)
        split_of = splits.split_of(used)
    except ValueError as error:
        raise ValueError(f"{split_file or input_path}: {error}") from None
    unlisted = (
        splits.file_problems(source.groups, used, split_file) if split_file else []
    )
    groups = set(source.groups)
    present = {
        split: [group for group in names if group in groups]
        for split, names in used.items()
    }
    report = runner.run(
        [
            runner.Unit(item.name, (split_of[item.group], item.task), item.inputs)
            for item in source.items
            if item.group in split_of
        ],
        source.process,
        spec=_spec(source_format, source, present),
        out_dir=out_dir,
        splits=(),
        num_workers=num_workers,
        strict=strict,
        overwrite=overwrite,
        problems=source.problems + unlisted,
        counts=source.counts,
        groups=[group for group in source.groups if group in split_of],
        num_preview=num_preview,
    )
    for name in written:
        files.write_json(pathlib.Path(out_dir) / name, present)
    return report


def _dataset_name(source_format: str) -> str:
    if source_format not in ("dicom", *_SOURCES):
        raise ValueError(
            f"format {source_format!r}, expected dicom, {', '.join(_SOURCES)}"
        )
    return f"lidc_{source_format}"


def _check_known_split(
    name: str, source_format: str, split_file: files.Path | None
) -> None:
    if name not in KNOWN_SPLITS:
        raise ValueError(
            f"known_split is {name!r}, expected one of {', '.join(KNOWN_SPLITS)}"
        )
    if source_format != "pickle":
        raise ValueError(
            f"--known_split={name} goes with --format=pickle, got "
            f"--format={source_format}"
        )
    if split_file is not None:
        raise ValueError(
            f"--known_split={name} and --split_file={split_file}: expected one of them"
        )


def _with_known_split(source: Source, name: str) -> Source:
    known = KNOWN_SPLITS[name]
    if known.by_slice:
        split_of = splits.split_of(known.assign(source.slices))
        source = pickles.split_by_slice(source, split_of)
    else:
        source = dataclasses.replace(source, splits=known.assign(source.groups))
    recipe = {**source.recipe, "known_split": known.description(name)}
    return dataclasses.replace(source, recipe=recipe)


def _spec(
    source_format: str, source: Source, present: dict[str, list[str]]
) -> DatasetSpec:
    split_hash = salted_hash(json.dumps(present, sort_keys=True), "splits")
    return DatasetSpec(
        name=_dataset_name(source_format),
        class_names=("background", "lesion"),
        image_shape=(source.image_size, source.image_size, 1),
        image_dtype=source.image_dtype,
        intensity="hu" if source.image_dtype == "int16" else "uint8",
        num_graders=NUM_GRADERS,
        preparation={
            "format": source_format,
            **source.recipe,
            # Parts of an interrupted run are reused only if these are the same.
            "input": source.content,
            "splits": f"{split_hash:016x}",
        },
    )
