"""Prepares a folder or a list of images with several masks each."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tf_probunet import files, locks
from tf_probunet.dataset.records import IGNORE_LABEL, DatasetSpec, Example
from tf_probunet.hashing import content_hash, salted_hash
from tf_probunet.imaging.input_image import InputImage
from tf_probunet.imaging.problem import Problem, reasons
from tf_probunet.imaging.resampling import resample, resample_labels
from tf_probunet.preparation import processes, runner, splits, tree
from tf_probunet.preparation.folder import card, classes, images, layouts, manifest
from tf_probunet.preparation.folder.cases import Case, Found
from tf_probunet.preparation.folder.classes import Classes
from tf_probunet.preparation.folder.config import LAYOUTS, FolderConfig
from tf_probunet.preparation.folder.loading import Loaded, doubts, load, message
from tf_probunet.preparation.folder.masks import RawMask
from tf_probunet.progress import Progress

_MAX_LISTED = 6
# Sides whose ratio changes by more than this are said to be stretched.
_STRETCHED = 0.01


@dataclasses.dataclass(frozen=True)
class Surveyed:
    """What the survey found out about a case.

    Attributes:
        case: with its usable masks only; None if it can't be used.
        problems: what can't be used.
        look: at the image's values.
        values: of each mask, None for colours.
        num_slices: of the image.
    """

    case: Case | None
    problems: list[Problem]
    look: images.Look | None = None
    values: Mapping[str, list[int] | None] = dataclasses.field(default_factory=dict)
    num_slices: int = 0


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the worker processes need to know.

    Attributes:
        root: the directory that paths are relative to.
        config: the user's settings.
        rule: for the images' values.
        classes: of the masks.
    """

    root: str
    config: FolderConfig
    rule: images.Rule
    classes: Classes


@locks.holding("out_dir")
def prepare(
    input_dir: files.Path | None,
    out_dir: files.Path,
    config: FolderConfig | None = None,
    *,
    manifest_path: files.Path | None = None,
    classes_path: files.Path | None = None,
    split_file: files.Path | None = None,
    strict: bool = False,
    num_workers: int = 0,
    overwrite: bool = False,
    num_preview: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Writes records, the split that was used, a data card, a report and a preview.

    Args:
        input_dir: the folder; None for that of the list.
        out_dir: where to write.
        config: the settings.
        manifest_path: a CSV list of images and masks, see `manifest`.
        classes_path: a CSV table of classes, see `classes.read`.
        split_file: JSON file that says which group is in which split; the others are
            left out and reported.
        strict: make the first problem an error.
        num_workers: processes; 0 stands for one per core.
        overwrite: replace a data set of other settings.
        num_preview: how many images to show on the contact sheet; 0 for no sheet.
        say: is called with each line about what was recognised.

    Returns:
        The report, as written to `report.json`.

    Raises:
        FileNotFoundError: the input, the list, the table or the split file is missing.
        ValueError: the input is unclear or contradicts itself, nothing usable is left,
            or, with `strict`, there is any problem.
    """
    config = config or FolderConfig()
    # Read first, so that a mistake in it shows before all images are read.
    given = None if split_file is None else splits.read(split_file)
    table = _table(config, classes_path)
    split_names = splits.names_written(out_dir, split_file)
    written = (card.NAME, *split_names)
    runner.check_out_dir(out_dir, config.name, overwrite, written)
    root, found = _find(input_dir, manifest_path, config)
    found = _without_table(found, root, classes_path)
    said = [_said_layout(found)]
    say(said[0])
    if strict:
        runner.raise_if_strict(found.problems)
    groups = _groups(found.cases, config, root)
    used = given or _given_splits(found.cases, groups, root)
    shares = (0.0 if given else config.val_share, config.test_share)
    surveyed = _survey(root, found.cases, config, num_workers, strict)
    problems = found.problems + [p for s in surveyed for p in s.problems]
    usable = [s for s in surveyed if s.case is not None]
    if not usable:
        raise ValueError(f"{root}: no image can be used{reasons(problems)}")
    recipe = Recipe(
        str(root),
        config,
        images.choose_rule(
            {s.case.image: s.look for s in usable if s.case and s.look},
            intensity=config.intensity,
            window=config.window,
            channels=config.channels,
        ),
        table or classes.guess({k: v for s in usable for k, v in s.values.items()}),
    )
    cases = [s.case for s in usable if s.case is not None]
    _check_keys(usable)
    present = {groups[case.key] for case in cases}
    problems += (
        splits.file_problems(sorted(present), used, split_file)
        if (used and split_file)
        else []
    )
    used, how = _all_splits(used, present, shares, config.split_salt, root)
    split_of = splits.split_of(used)
    listed = {
        split: sorted(group for group in names if group in present)
        for split, names in used.items()
    }
    lines = [*_said(recipe), _said_splits(listed, how)]
    for line in lines:
        say(line)
    chosen = [case for case in cases if groups[case.key] in split_of]
    report = runner.run(
        [_unit(case, groups[case.key], split_of, root) for case in chosen],
        functools.partial(process, recipe=recipe),
        spec=_spec(recipe, found.layout, chosen, listed, root),
        out_dir=out_dir,
        splits=[split for split, names in listed.items() if names],
        num_workers=num_workers,
        strict=strict,
        overwrite=overwrite,
        problems=problems,
        num_preview=num_preview,
    )
    for name in split_names:
        files.write_json(pathlib.Path(out_dir) / name, listed)
    card.write(out_dir, [*said, *lines], has_preview=bool(num_preview))
    return report


def process(unit: runner.Unit, recipe: Recipe) -> runner.UnitResult:
    """Makes the examples of one image or volume.

    Args:
        unit: with the split, the group and a `Case`.
        recipe: the rules for all.
    """
    split, group, case = unit.payload
    root = pathlib.Path(recipe.root)
    loaded = load(root, case, recipe.config)
    result = runner.UnitResult(problems=loaded.problems)
    labels = _labels(loaded, recipe, result, root)
    if not loaded.images or not labels:
        return result
    pixels = recipe.rule.apply(loaded.images)
    for i, image in enumerate(loaded.images):
        maps = [stack[i] for stack in labels.values()]
        marked = [bool(((m != 0) & (m != IGNORE_LABEL)).any()) for m in maps]
        if recipe.config.drop_empty and not any(marked):
            result.count("images without a mark, left out")
            continue
        shape = new_shape(image, recipe.config)
        scale = [new / old for new, old in zip(shape, image.shape)]
        spacing = image.spacing_mm
        example = Example(
            key=case.key if len(loaded.images) == 1 else f"{case.key}_{i:03d}",
            group=group,
            image=recipe.rule.store(resample(pixels[i], shape)),
            labels=np.stack([resample_labels(m, shape) for m in maps]),
            spacing_mm=spacing and (spacing[0] / scale[0], spacing[1] / scale[1]),
        )
        result.examples.append((split, example))
        result.count("masks", len(maps))
        result.count("empty masks", len(maps) - sum(marked))
        if abs(scale[0] / scale[1] - 1) > _STRETCHED:
            result.count("images whose sides changed their ratio")
    return result


def new_shape(image: InputImage, config: FolderConfig) -> tuple[int, int]:
    """Returns the height and width that an image gets.

    Raises:
        ValueError: the pixel size is needed, but not known.
    """
    height, width = image.shape
    if config.spacing_mm is not None:
        if image.spacing_mm is None:
            raise ValueError(
                f"{image.source}: the file does not say the size of a pixel, expected "
                "no --spacing_mm"
            )
        sizes = [
            max(1, int(side * mm / config.spacing_mm + 0.5))
            for side, mm in zip(image.shape, image.spacing_mm)
        ]
        return sizes[0], sizes[1]
    if config.resize_numbers is None:
        return height, width
    if len(config.resize_numbers) == 2:
        return config.resize_numbers[0], config.resize_numbers[1]
    factor = config.resize_numbers[0] / max(height, width)
    return max(1, int(height * factor + 0.5)), max(1, int(width * factor + 0.5))


def _table(config: FolderConfig, path: files.Path | None) -> Classes | None:
    if config.nested_names:
        if path is not None:
            raise ValueError(
                f"nested_classes {config.nested_classes} and the table {path} are "
                "given, expected one only"
            )
        return classes.nested(config.nested_names)
    return None if path is None else classes.read(path)


def _find(
    input_dir: files.Path | None,
    manifest_path: files.Path | None,
    config: FolderConfig,
) -> tuple[pathlib.Path, Found]:
    """Returns the directory that paths are relative to, and the cases."""
    if manifest_path is None and input_dir is None:
        raise ValueError("expected a folder or a list; see --help")
    if manifest_path is None:
        root = tree.check_directory(input_dir or "")
        own = root / layouts.MANIFEST_NAME
        if config.layout == "manifest" or (config.layout == "auto" and own.is_file()):
            manifest_path = own
        else:
            return root, layouts.find(root, config)
    path = pathlib.Path(manifest_path)
    if config.layout not in ("auto", "manifest"):
        raise ValueError(f"layout is {config.layout}, expected manifest for {path}")
    root = tree.check_directory(path.parent if input_dir is None else input_dir)
    found = manifest.find(path, root, config)
    if not found.cases:
        raise ValueError(f"{path}: lists no image with a mask{reasons(found.problems)}")
    return root, found


def _without_table(found: Found, root: pathlib.Path, table: files.Path | None) -> Found:
    """Leaves the table of classes, which may lie in the folder, out of the report."""
    if table is None:
        return found
    known = os.path.abspath(table)
    problems = [p for p in found.problems if os.path.abspath(root / p.where) != known]
    return dataclasses.replace(found, problems=problems)


def _groups(
    cases: Sequence[Case], config: FolderConfig, root: pathlib.Path
) -> dict[str, str]:
    """Returns the group of each case by its key."""
    if config.group_pattern is not None:
        if any(case.group for case in cases):
            raise ValueError(
                f"a column 'group' and --group_pattern={config.group_pattern}, "
                "expected one only"
            )
        return {case.key: _group_by_pattern(case, config, root) for case in cases}
    # Folders that all cases have in common tell nothing.
    depth = len(os.path.commonprefix([case.folders for case in cases]))
    return {
        case.key: case.group
        or (case.folders[depth] if len(case.folders) > depth else case.key)
        for case in cases
    }


def _group_by_pattern(case: Case, config: FolderConfig, root: pathlib.Path) -> str:
    match = re.search(config.group_pattern or "", case.image)
    found = match and (match[1] if match.re.groups else match[0])
    if not found:
        raise ValueError(
            f"{root / case.image}: --group_pattern={config.group_pattern} finds no "
            "group in its path"
        )
    return found


def _given_splits(
    cases: Sequence[Case], groups: Mapping[str, str], root: pathlib.Path
) -> dict[str, list[str]] | None:
    """Returns the splits that folders or the list say; None if they say nothing."""
    without = [case for case in cases if case.split is None]
    if len(without) == len(cases):
        return None
    if without:
        raise ValueError(
            f"{root / without[0].image}: not in a folder of a split, but "
            f"{len(cases) - len(without)} other images are; expected all or none"
        )
    used: dict[str, set[str]] = {split: set() for split in splits.SPLITS}
    for case in cases:
        used[case.split or ""].add(groups[case.key])
    result = {split: sorted(names) for split, names in used.items() if names}
    try:
        splits.split_of(result)
    except ValueError as error:
        raise ValueError(
            f"{root}: {error}; a group (a patient, a folder) must be in one"
        ) from None
    return result


def _all_splits(
    used: dict[str, list[str]] | None,
    present: set[str],
    shares: tuple[float, float],
    salt: str,
    root: pathlib.Path,
) -> tuple[dict[str, list[str]], str]:
    """Returns the splits, and how they came about.

    Without a validation split, some groups of the training split are taken for it.
    """
    val_share, test_share = shares
    groups, how = present, "by a salted hash of the groups"
    if used is not None:
        how = "as given"
        train = set(used.get("train", ())) & present
        if "val" in used or not train or not val_share:
            return used, how
        groups, test_share = train, 0.0
        how = "as given; validation by a salted hash of the training groups"
    try:
        cut = splits.assign_shares(
            groups, val_share=val_share, test_share=test_share, salt=salt
        )
    except ValueError as error:
        raise ValueError(
            f"{root}: {error}; add images, set --val_share and --test_share, or name "
            "smaller groups with --group_pattern"
        ) from None
    return {**(used or {}), **cut}, how


def _survey(
    root: pathlib.Path,
    cases: Sequence[Case],
    config: FolderConfig,
    num_workers: int,
    strict: bool,
) -> list[Surveyed]:
    """Reads all files once, to learn classes, channels and intensities."""
    look = functools.partial(survey, root=str(root), config=config)
    progress = Progress(len(cases), "looking", unit="images")
    result = []
    try:
        for surveyed in _mapped(look, cases, num_workers):
            result.append(surveyed)
            progress.update(len(result), "")
            if strict:
                runner.raise_if_strict(surveyed.problems)
    finally:
        progress.close()
    return result


def _mapped(
    function: Callable[[Case], Surveyed], cases: Sequence[Case], num_workers: int
) -> Iterator[Surveyed]:
    workers = min(num_workers or os.cpu_count() or 1, len(cases))
    if workers <= 1:
        yield from map(function, cases)
        return
    with processes.pool(workers) as pool:
        futures = [pool.submit(function, case) for case in cases]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def survey(case: Case, root: str, config: FolderConfig) -> Surveyed:
    """Reads the files of a case and says what is in them."""
    loaded = load(pathlib.Path(root), case, config)
    problems = loaded.problems + doubts(loaded, case)
    if loaded.images and loaded.masks:
        try:
            for image in loaded.images:
                new_shape(image, config)
        except ValueError as error:
            detail = message(error, pathlib.Path(root), case.image)
            problems.append(Problem("unusable image", case.image, detail))
            loaded.masks.clear()
    if not loaded.images or not loaded.masks:
        return Surveyed(None, problems)
    return Surveyed(
        dataclasses.replace(case, masks=tuple(loaded.masks)),
        problems,
        images.look(loaded.images),
        {mask.path: _values(found) for mask, found in loaded.masks.items()},
        len(loaded.images),
    )


def _values(slices: Sequence[RawMask]) -> list[int] | None:
    found: set[int] = set()
    for mask in slices:
        values = classes.values_in(mask, "")
        if values is None:
            return None
        found.update(values)
    return sorted(found)


def _check_keys(surveyed: Sequence[Surveyed]) -> None:
    """Refuses slices of a volume that would be called like another image."""
    seen: dict[str, str] = {}
    for one in surveyed:
        assert one.case is not None
        keys = [one.case.key]
        if one.num_slices > 1:
            keys = [f"{one.case.key}_{i:03d}" for i in range(one.num_slices)]
        for key in keys:
            if key in seen:
                raise ValueError(
                    f"{one.case.image} and {seen[key]} would both be called {key!r}; "
                    "rename one"
                )
            seen[key] = one.case.image


def _labels(
    loaded: Loaded, recipe: Recipe, result: runner.UnitResult, root: pathlib.Path
) -> dict[str, list[np.ndarray]]:
    """Returns the label maps [H, W] of each grader, one for each slice."""
    labels: dict[str, list[np.ndarray]] = {}
    if recipe.config.nested_names:
        for grader in dict.fromkeys(mask.grader for mask in loaded.masks):
            own = {
                m.class_name: s for m, s in loaded.masks.items() if m.grader == grader
            }
            stacks = [own[name] for name in recipe.config.nested_names]
            labels[grader] = [_painted(one, recipe, result) for one in zip(*stacks)]
        return labels
    for mask, slices in loaded.masks.items():
        path = root / mask.path
        try:
            labels[mask.grader] = [recipe.classes.to_labels(m, path) for m in slices]
        except ValueError as error:
            detail = message(error, root, mask.path)
            result.problems.append(
                Problem("mask of unknown classes", mask.path, detail)
            )
    return labels


def _painted(
    layers: Sequence[RawMask], recipe: Recipe, result: runner.UnitResult
) -> np.ndarray:
    """Returns one label map of binary masks, each painted over those before it."""
    names = recipe.config.nested_names
    labels = np.zeros(layers[0].shape, np.uint8)
    for label, layer in enumerate(layers, start=1):
        assert layer.values is not None
        inside = layer.values != 0
        outside = int(np.count_nonzero(inside & (labels != label - 1)))
        if label > 1 and outside:
            name = f"pixels of {names[label - 1]} outside of {names[label - 2]}"
            result.count(name, outside)
        labels[inside] = label
    return labels


def _unit(
    case: Case, group: str, split_of: Mapping[str, str], root: pathlib.Path
) -> runner.Unit:
    inputs = tuple(str(root / name) for name in _all_files(case, root))
    payload = (split_of[group], group, case)
    return runner.Unit(case.image, payload, inputs, content=repr(payload))


def _all_files(case: Case, root: pathlib.Path) -> list[str]:
    """Returns the files of a case, and those in a folder of DICOM slices."""
    names = []
    for name in case.paths:
        inside = (root / name).is_dir()
        names += [f"{name}/{n}" for n in os.listdir(root / name)] if inside else [name]
    return sorted(names)


def _spec(
    recipe: Recipe,
    layout: str,
    cases: Sequence[Case],
    listed: Mapping[str, Sequence[str]],
    root: pathlib.Path,
) -> DatasetSpec:
    config, rule = recipe.config, recipe.rule
    settings = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if value is not None and name not in ("name", "layout", "intensity", "channels")
    }
    split_hash = salted_hash(json.dumps(listed, sort_keys=True), "splits")
    return DatasetSpec.mixed(
        channels=rule.channels,
        name=config.name,
        class_names=recipe.classes.names,
        image_dtype=rule.dtype,
        intensity=rule.intensity,
        ignore_label=recipe.classes.ignore_label,
        preparation={
            "layout": layout,
            **settings,
            "intensity": rule.kind,
            **({"window": list(rule.window)} if rule.window else {}),
            "classes": recipe.classes.to_json(),
            # Parts of an interrupted run are reused only if these are the same.
            "input": content_hash(
                f"{name} {(root / name).stat().st_size}"
                for case in cases
                for name in _all_files(case, root)
            ),
            "splits": f"{split_hash:016x}",
        },
    )


def _said_layout(found: Found) -> str:
    graders = collections.Counter(g for case in found.cases for g in case.graders)
    names = sorted(graders)[:_MAX_LISTED]
    more = ", ..." if len(graders) > _MAX_LISTED else ""
    return (
        f"layout {found.layout}: {LAYOUTS[found.layout]}; {len(found.cases)} images, "
        f"{found.num_masks} masks by {', '.join(names)}{more}"
    )


def _said(recipe: Recipe) -> list[str]:
    names = recipe.classes.names
    shown = ", ".join(f"{i} {name}" for i, name in enumerate(names[:_MAX_LISTED]))
    more = ", ..." if len(names) > _MAX_LISTED else ""
    ignored = ", ignored pixels" if recipe.classes.ignore_label is not None else ""
    channels = "grey" if recipe.rule.channels == 1 else "RGB"
    return [
        f"classes: {shown}{more}{ignored}",
        f"intensities: {channels}, {recipe.rule.describe()}",
    ]


def _said_splits(listed: Mapping[str, Sequence[str]], how: str) -> str:
    numbers = ", ".join(f"{split} {len(names)}" for split, names in listed.items())
    return f"groups in splits: {numbers} ({how})"
