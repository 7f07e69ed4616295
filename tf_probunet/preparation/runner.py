"""Runs a preparation: many processes, resumable, and the same bytes every time.

The work is divided into units (a scan, a city). Each finished unit is saved as a part
file, so that an interrupted run can continue. At the end the parts are merged into
shards whose order depends only on the keys.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import errno
import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tf_probunet import files, locks, resume
from tf_probunet.dataset import records
from tf_probunet.hashing import salted_hash
from tf_probunet.imaging.problem import Problem, reasons
from tf_probunet.preparation import processes
from tf_probunet.progress import Progress

_REPORT_NAMES = ("report.json", "report.txt")


@dataclasses.dataclass(frozen=True)
class Unit:
    """One piece of work.

    Attributes:
        name: a unique name, the same in every run.
        payload: the input of the processing function; picklable.
        inputs: paths of all files that it reads.
        content: what else decides the result, such as which file is whose mask. A part
            of an earlier run is used only if neither this nor a file has changed since.
    """

    name: str
    payload: Any
    inputs: tuple[str, ...] = ()
    content: str = ""

    @functools.cached_property
    def inputs_hash(self) -> str:
        """A hash of the content and of each input file's size and modification time.

        It is computed once, before any unit is processed, so a file that changes later
        does not match the part.
        """
        lines = [self.content] if self.content else []
        for path in self.inputs:
            try:
                status = os.stat(path)
                lines.append(f"{status.st_size} {status.st_mtime_ns}")
            except OSError as error:
                lines.append(f"error {error.errno}")
        return f"{salted_hash(chr(10).join(lines), 'inputs'):016x}"


@dataclasses.dataclass
class UnitResult:
    """The result of a unit.

    Attributes:
        examples: (split, example) pairs.
        problems: what was dropped, and why.
        counts: numbers for the report, summed over units.
    """

    examples: list[tuple[str, records.Example]] = dataclasses.field(
        default_factory=list
    )
    problems: list[Problem] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        """Adds to a number of the report."""
        self.counts[name] = self.counts.get(name, 0) + number


@locks.holding("out_dir")
def run(
    units: Sequence[Unit],
    process: Callable[[Unit], UnitResult],
    *,
    spec: records.DatasetSpec,
    out_dir: files.Path,
    splits: Sequence[str],
    num_workers: int = 0,
    strict: bool = False,
    overwrite: bool = False,
    problems: Sequence[Problem] = (),
    counts: dict[str, int] | None = None,
    groups: Sequence[str] = (),
    examples_per_shard: int = 512,
    num_preview: int = 0,
) -> dict[str, Any]:
    """Processes all units and writes shards, `dataset_info.json` and the report.

    Args:
        units: the work.
        process: maps a unit to its result. It must be at the top level of a module,
            because other processes call it. If it raises `ValueError` or `OSError`, the
            unit is skipped.
        spec: what the examples look like.
        out_dir: where to write. Parts of an interrupted run with the same settings are
            reused.
        splits: the splits, each of which must get at least one example.
        num_workers: processes; 0 stands for one per core, 1 for no other process.
        strict: whether the first problem is an error.
        overwrite: whether to replace a data set with other settings.
        problems: problems found before the units, for the report.
        counts: numbers found before the units, for the report.
        groups: all groups; the report lists those without an example.
        examples_per_shard: the largest number of examples in one file.
        num_preview: how many images to show on the contact sheet; 0 for no sheet.

    Returns:
        The report, as it is written to `report.json`.

    Raises:
        ValueError: with `strict`, at the first problem; a duplicate key, a group in two
            splits or an empty split; two units with one name; `out_dir` has a data set
            with other settings, or another command is writing to it.
    """
    out_dir = pathlib.Path(out_dir)
    _refuse_other_files(out_dir, ())
    _refuse_other_dataset(out_dir, spec, overwrite)
    files.remove_temporaries(out_dir)
    names = collections.Counter(unit.name for unit in units)
    if len(names) < len(units):
        raise ValueError(f"two units are called {names.most_common(1)[0][0]!r}")
    raise_if_strict(problems, strict)
    settings = {"format": records.FORMAT_VERSION, **spec.to_json()}
    part_dir = resume.parts_dir(out_dir, settings)
    resume.remove_parts(out_dir, keep=part_dir)
    problems, counts = list(problems), collections.Counter(counts or {})
    parts = []
    for summary in _process_all(units, process, spec, part_dir, num_workers, strict):
        problems += _problems(summary)
        counts.update(summary["counts"])
        parts.append(summary)
    problems += _without_examples(groups, parts)
    by_split: dict[str, list[records.Entry]] = {split: [] for split in splits}
    for part in parts:
        for entry in part["examples"]:
            by_split.setdefault(entry["split"], []).append(
                (entry["key"], entry["group"], _reader(part_dir, part, entry))
            )
    if not any(by_split.values()):
        raise ValueError(
            f"no example came out of {len(units)} units{reasons(problems)}"
        )
    for split, found in by_split.items():
        if not found:
            raise ValueError(f"split {split!r} would be empty{reasons(problems)}")
    info = records.write_dataset(
        out_dir, spec, by_split, examples_per_shard=examples_per_shard
    )
    report = _report(info, problems, counts)
    files.write_json(out_dir / _REPORT_NAMES[0], report)
    files.write_text(out_dir / _REPORT_NAMES[1], report_text(report))
    resume.remove_parts(out_dir)
    if num_preview:
        # Imported here, because it needs TensorFlow and the workers do not.
        from tf_probunet.preparation import preview

        preview.write(out_dir, out_dir / preview.NAME, num_preview)
    return report


def check_out_dir(
    out_dir: files.Path, name: str, overwrite: bool, written: Sequence[str] = ()
) -> None:
    """Refuses an unusable output directory early, before hours of reading.

    Args:
        out_dir: where the data set will be written.
        name: of the data set.
        overwrite: whether another data set may be replaced.
        written: names of the files that are written besides those of `run`.

    Raises:
        ValueError: it holds a data set of another name, one that can't be read, or
            files of these names that no preparation has written.
        OSError: it is a file, or may not be written to.
    """
    out_dir = pathlib.Path(out_dir)
    there = next(p for p in (out_dir, *out_dir.absolute().parents) if p.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    _refuse_other_files(out_dir, written)
    found = None if overwrite else _found_spec(out_dir)
    if found is not None and found.name != name:
        raise _other_dataset(out_dir, found)


def report_text(report: dict[str, Any]) -> str:
    """Returns a report for people: counts, and each problem under its reason."""
    lines = [f"data set {report['name']}"]
    for split, numbers in report["splits"].items():
        lines.append(
            f"  {split}: {numbers['examples']} images of {numbers['groups']} groups"
        )
        if "graders" in numbers:
            shares = (f"{n} with {m}" for m, n in numbers["graders"].items())
            lines.append(f"    graders per image: {', '.join(shares)}")
    lines += [f"  {name}: {number}" for name, number in report["counts"].items()]
    for reason, problems in report["problems"].items():
        lines.append(f"dropped or in doubt, {reason}: {len(problems)}")
        for problem in problems:
            detail = f" ({problem['detail']})" if problem["detail"] else ""
            lines.append(f"  {problem['where']}{detail}")
    return "\n".join(lines) + "\n"


def report_summary(report: dict[str, Any]) -> str:
    """Returns the report for the terminal, with the numbers of problems only."""
    short = {reason: len(problems) for reason, problems in report["problems"].items()}
    text = report_text({**report, "problems": {}})
    return text + "".join(
        f"  dropped or in doubt, {reason}: {number}\n"
        for reason, number in short.items()
    )


def _refuse_other_files(out_dir: pathlib.Path, written: Sequence[str]) -> None:
    """Refuses to replace files that are not of a data set, or of its preparation."""
    if (out_dir / records.INFO_NAME).exists() or resume.has_parts(out_dir):
        return
    for name in (*_REPORT_NAMES, *written):
        if (out_dir / name).exists():
            raise ValueError(
                f"{out_dir / name}: exists, but there is no data set next to it; "
                "expected another --out_dir"
            )


def _refuse_other_dataset(
    out_dir: pathlib.Path, spec: records.DatasetSpec, overwrite: bool
) -> None:
    found = None if overwrite else _found_spec(out_dir)
    if found is not None and _settings(found, spec) != _settings(spec, spec):
        raise _other_dataset(out_dir, found)


def _found_spec(out_dir: pathlib.Path) -> records.DatasetSpec | None:
    """Returns the specification of the data set in a directory, if there is one."""
    if not (out_dir / records.INFO_NAME).exists():
        return None
    try:
        return records.read_info(out_dir).spec
    except ValueError as error:
        raise ValueError(
            f"{out_dir}: holds a data set that can't be read ({error}); choose another "
            f"--out_dir, or --overwrite to replace it"
        ) from error


def _other_dataset(out_dir: pathlib.Path, found: records.DatasetSpec) -> ValueError:
    return ValueError(
        f"{out_dir}: holds the data set {found.name!r} made with other settings; "
        f"choose another --out_dir, or --overwrite to replace it"
    )


def _settings(spec: records.DatasetSpec, wanted: records.DatasetSpec) -> str:
    """Returns a specification as text, without what follows from the examples."""
    settings = dataclasses.asdict(spec)
    if wanted.min_graders is not None:
        del settings["num_graders"], settings["min_graders"]
    if wanted.min_size is not None:
        settings["image_shape"] = settings["image_shape"][2]
        del settings["min_size"]
    return json.dumps(settings, sort_keys=True)


def _process_all(
    units: Sequence[Unit],
    process: Callable[[Unit], UnitResult],
    spec: records.DatasetSpec,
    part_dir: pathlib.Path,
    num_workers: int,
    strict: bool,
) -> Iterator[dict[str, Any]]:
    """Yields the summary of each unit, in the order of the units."""
    finished = {unit.name: _finished_part(part_dir, unit) for unit in units}
    tally = _Tally()
    for summary in filter(None, finished.values()):
        tally.add(summary)
        raise_if_strict(_problems(summary), strict)
    waiting = [unit for unit in units if finished[unit.name] is None]
    done = len(units) - len(waiting)
    progress = Progress(len(units), "preparing", done=done, unit="units")
    try:
        for summary in _process_waiting(waiting, process, spec, part_dir, num_workers):
            finished[summary["name"]] = summary
            tally.add(summary)
            done += 1
            progress.update(done, str(tally))
            raise_if_strict(_problems(summary), strict)
    finally:
        progress.close()
    for unit in units:
        part = finished[unit.name]
        assert part is not None, unit.name
        yield part


@dataclasses.dataclass
class _Tally:
    """The progress so far, including the units of an interrupted run."""

    images: int = 0
    faults: int = 0

    def add(self, summary: dict[str, Any]) -> None:
        self.images += len(summary["examples"])
        self.faults += sum(not problem.expected for problem in _problems(summary))

    def __str__(self) -> str:
        faults = f", faults in the files: {self.faults}" if self.faults else ""
        return f"{self.images} images{faults}"


def _problems(summary: dict[str, Any]) -> list[Problem]:
    return [Problem(**problem) for problem in summary["problems"]]


def raise_if_strict(problems: Sequence[Problem], strict: bool = True) -> None:
    """Raises `ValueError` at the first fault, if the run is strict."""
    faults = [problem for problem in problems if not problem.expected]
    if strict and faults:
        raise ValueError(str(faults[0]))


def _process_waiting(
    waiting: Sequence[Unit],
    process: Callable[[Unit], UnitResult],
    spec: records.DatasetSpec,
    part_dir: pathlib.Path,
    num_workers: int,
) -> Iterator[dict[str, Any]]:
    workers = min(num_workers or os.cpu_count() or 1, len(waiting))
    if workers <= 1:
        for unit in waiting:
            yield _process_unit(unit, process, spec, part_dir)
        return
    with processes.pool(workers) as pool:
        futures = [
            pool.submit(_process_unit, unit, process, spec, part_dir)
            for unit in waiting
        ]
        try:
            for future in concurrent.futures.as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _process_unit(
    unit: Unit,
    process: Callable[[Unit], UnitResult],
    spec: records.DatasetSpec,
    part_dir: pathlib.Path,
) -> dict[str, Any]:
    """Processes one unit and saves the result as a part, unless it was skipped."""
    try:
        result = process(unit)
        encoded = [records.encode(example, spec) for _, example in result.examples]
    except (ValueError, OSError) as error:
        problem = Problem("skipped", unit.name, " ".join(str(error).split()))
        return _summary(unit, UnitResult(problems=[problem]), [])
    stem = _part_stem(part_dir, unit)
    files.write_bytes(stem.with_suffix(".bin"), b"".join(encoded))
    summary = _summary(unit, result, [len(data) for data in encoded])
    files.write_json(stem.with_suffix(".json"), summary)
    return summary


def _without_examples(
    groups: Sequence[str], parts: Sequence[dict[str, Any]]
) -> list[Problem]:
    present = {entry["group"] for part in parts for entry in part["examples"]}
    return [
        Problem("without a single image", group, expected=True)
        for group in groups
        if group not in present
    ]


def _summary(unit: Unit, result: UnitResult, sizes: Sequence[int]) -> dict[str, Any]:
    entries, offset = [], 0
    for (split, example), size in zip(result.examples, sizes):
        entries.append(
            {
                "split": split,
                "key": example.key,
                "group": example.group,
                "offset": offset,
                "size": size,
            }
        )
        offset += size
    return {
        "name": unit.name,
        "inputs": unit.inputs_hash,
        "examples": entries,
        "problems": [dataclasses.asdict(problem) for problem in result.problems],
        "counts": dict(result.counts),
    }


def _part_stem(part_dir: pathlib.Path, unit: Unit) -> pathlib.Path:
    return part_dir / f"{salted_hash(unit.name, 'part'):016x}"


def _finished_part(part_dir: pathlib.Path, unit: Unit) -> dict[str, Any] | None:
    # Also for a unit without a part, so that its process gets the hash.
    inputs_hash = unit.inputs_hash
    stem = _part_stem(part_dir, unit)
    path, data = stem.with_suffix(".json"), stem.with_suffix(".bin")
    # The .bin is put in place before its .json. If the .json exists, the .bin is
    # complete, unless somebody has changed it.
    if not (path.exists() and data.exists()):
        return None
    part = files.read_json(path, "part of a preparation")
    unchanged = part.get("inputs") == inputs_hash
    return part if unchanged and _is_whole(part, unit, data.stat().st_size) else None


def _is_whole(part: dict[str, Any], unit: Unit, size: int) -> bool:
    """Whether a part belongs to the unit, and its examples have this many bytes."""
    try:
        offset = 0
        for entry in part["examples"]:
            named = all(isinstance(entry[n], str) for n in ("split", "key", "group"))
            whole = type(entry["offset"]) is type(entry["size"]) is int
            if not (named and whole) or entry["offset"] != offset or entry["size"] < 1:
                return False
            offset += entry["size"]
        texts = [t for p in _problems(part) for t in (p.reason, p.where, p.detail)]
        readable = all(isinstance(text, str) for text in texts) and all(
            type(number) is int for number in part["counts"].values()
        )
        return part["name"] == unit.name and offset == size and readable
    except (AttributeError, KeyError, TypeError):
        return False


def _reader(
    part_dir: pathlib.Path, part: dict[str, Any], entry: dict[str, Any]
) -> Callable[[], bytes]:
    path = _part_stem(part_dir, Unit(part["name"], None)).with_suffix(".bin")

    def read() -> bytes:
        with open(path, "rb") as handle:
            handle.seek(entry["offset"])
            return handle.read(entry["size"])

    return read


def _report(
    info: records.DatasetInfo, problems: Sequence[Problem], counts: dict[str, int]
) -> dict[str, Any]:
    by_reason: dict[str, list[dict[str, str]]] = {}
    for problem in sorted(problems, key=lambda p: (p.reason, p.where, p.detail)):
        by_reason.setdefault(problem.reason, []).append(
            {"where": problem.where, "detail": problem.detail}
        )
    return {
        "name": info.spec.name,
        "splits": {
            split: {
                "examples": described["count"],
                "groups": described["groups"],
                **({"graders": described["graders"]} if "graders" in described else {}),
            }
            for split, described in info.splits.items()
        },
        "counts": dict(sorted(counts.items())),
        "problems": by_reason,
        "preparation": info.spec.preparation,
    }
