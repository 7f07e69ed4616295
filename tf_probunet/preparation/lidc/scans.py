"""Finds CT scans and their annotation files in a directory, by content only."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Sequence

from tf_probunet import files
from tf_probunet.imaging import dicom
from tf_probunet.imaging.problem import Problem, reasons
from tf_probunet.preparation import processes, tree
from tf_probunet.preparation.lidc import annotation_xml
from tf_probunet.progress import Progress

# For fewer files, starting processes takes longer than reading.
_FILES_PER_TASK = 500

_LFS_POINTER = b"version https://git-lfs"


@dataclasses.dataclass(frozen=True)
class Scan:
    """A CT series with its annotation file.

    Attributes:
        patient: PatientID of the series.
        series_uid: SeriesInstanceUID.
        annotation_file: path relative to the directory that was searched for it.
        headers: of all files of the series.
    """

    patient: str
    series_uid: str
    annotation_file: str
    headers: tuple[dicom.SliceHeader, ...]


@dataclasses.dataclass(frozen=True)
class Found:
    """The content of a directory.

    Attributes:
        scans: the annotated series, sorted by patient and UID.
        patients: all patients with a CT series, annotated or not.
        problems: files and series that cannot be used.
        counts: numbers for the report.
    """

    scans: list[Scan]
    patients: list[str]
    problems: list[Problem]
    counts: dict[str, int]


@dataclasses.dataclass
class _Contents:
    """CT headers and annotation headers of a number of files, (root, name) each."""

    files: list[tuple[pathlib.Path, str]] = dataclasses.field(default_factory=list)
    slices: list[dicom.SliceHeader] = dataclasses.field(default_factory=list)
    annotations: list[tuple[str, annotation_xml.MessageHeader]] = dataclasses.field(
        default_factory=list
    )
    problems: list[Problem] = dataclasses.field(default_factory=list)
    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )

    def add(self, other: _Contents) -> None:
        self.slices += other.slices
        self.annotations += other.annotations
        self.problems += other.problems
        self.counts.update(other.counts)


def find_scans(
    root: files.Path, num_workers: int = 1, xml_dir: files.Path | None = None
) -> Found:
    """Finds all annotated CT series under a directory, whatever its layout.

    A file belongs to a series by its header. An annotation file belongs to the series
    of its SeriesInstanceUID, or, if there is none, to the only CT series of its
    StudyInstanceUID. Annotations of chest X-rays are counted and otherwise ignored.

    Args:
        root: the directory.
        num_workers: processes; 0 stands for one per core.
        xml_dir: directory of the annotation files; those under `root` are then
            ignored. None if they are under `root`.

    Returns:
        The scans, and what cannot be used.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: it is a file, or holds no CT slice.
    """
    root = tree.check_directory(root)
    xml_root = root if xml_dir is None else tree.check_directory(xml_dir)
    contents = _list(root, xml_root)
    contents.add(_read_all(contents.files, num_workers))
    series = collections.defaultdict(list)
    for header in contents.slices:
        series[header.series_uid].append(header)
    if not series:
        annotations = contents.counts["CT annotation files"]
        raise ValueError(
            f"{root}: expected DICOM files of CT scans, found none among "
            f"{len(contents.files)} files"
            + (f", only {annotations} annotation files (XML)" if annotations else "")
            + reasons(contents.problems)
        )
    chosen = _choose_annotations(contents, series)
    scans = []
    for uid, headers in sorted(series.items()):
        patients = sorted({header.patient for header in headers})
        if len(patients) > 1:
            contents.problems.append(
                Problem(
                    "series of several patients",
                    headers[0].path,
                    f"PatientIDs {', '.join(patients)}, expected one",
                )
            )
        elif uid in chosen:
            scans.append(Scan(patients[0], uid, chosen[uid], tuple(headers)))
        else:
            contents.problems.append(
                Problem(
                    "CT series without an annotation file",
                    os.path.dirname(headers[0].path),
                    f"{patients[0]}, SeriesInstanceUID {uid}",
                )
            )
    contents.counts["CT series"] = len(series)
    return Found(
        scans=sorted(scans, key=lambda scan: (scan.patient, scan.series_uid)),
        patients=sorted({header.patient for header in contents.slices}),
        problems=contents.problems,
        counts=dict(contents.counts),
    )


def _list(root: pathlib.Path, xml_root: pathlib.Path) -> _Contents:
    """Lists all files to read."""
    names, problems = tree.list_files(root)
    contents = _Contents(problems=problems)
    if xml_root == root:
        contents.files = [(root, name) for name in names]
        return contents
    xml_names, xml_problems = tree.list_files(xml_root)
    contents.problems += xml_problems
    contents.files = [(root, name) for name in names if not _is_xml(name)]
    contents.files += [(xml_root, name) for name in xml_names if _is_xml(name)]
    contents.counts["annotation files outside of --xml_dir, ignored"] += sum(
        map(_is_xml, names)
    )
    return contents


def _is_xml(name: str) -> bool:
    return name.lower().endswith(".xml")


def _read_all(paths: Sequence[tuple[pathlib.Path, str]], num_workers: int) -> _Contents:
    tasks = [
        paths[start : start + _FILES_PER_TASK]
        for start in range(0, len(paths), _FILES_PER_TASK)
    ]
    workers = min(num_workers or os.cpu_count() or 1, len(tasks))
    total, done = _Contents(), 0
    progress = Progress(len(paths), "reading headers", unit="files")
    with contextlib.ExitStack() as stack:
        if workers > 1:
            found = stack.enter_context(processes.pool(workers)).map(_read_files, tasks)
        else:
            found = map(_read_files, tasks)
        for task, contents in zip(tasks, found):
            total.add(contents)
            done += len(task)
            progress.update(done)
    progress.close()
    return total


def _read_files(paths: Sequence[tuple[pathlib.Path, str]]) -> _Contents:
    contents = _Contents()
    for root, name in paths:
        try:
            _read_file(root, name, contents)
        except (ValueError, OSError) as error:
            contents.problems.append(Problem("unreadable file", name, str(error)))
    return contents


def _read_file(root: pathlib.Path, name: str, contents: _Contents) -> None:
    if _is_xml(name):
        message = annotation_xml.read_header(root / name)
        if message.kind == annotation_xml.CT_MESSAGE:
            contents.annotations.append((name, message))
            contents.counts["CT annotation files"] += 1
        elif message.kind == annotation_xml.XRAY_MESSAGE:
            contents.counts["X-ray annotation files, ignored"] += 1
        else:
            contents.counts["other files, ignored"] += 1
        return
    header = dicom.read_header(root / name, name)
    if header is not None:
        contents.slices.append(header)
        contents.counts["CT files"] += 1
    elif name.lower().endswith(".dcm") and (fault := _fault(root / name)):
        raise ValueError(fault)
    else:
        contents.counts["other files, ignored"] += 1


def _fault(path: pathlib.Path) -> str | None:
    """Returns why a file is not DICOM; None if it is."""
    start = files.read_start(path, 132)
    if not start:
        return "an empty file, expected DICOM"
    if start.startswith(_LFS_POINTER):
        return "a pointer of Git LFS, expected DICOM; fetch the file with git lfs pull"
    return None if start[128:] == b"DICM" else "expected DICOM, found something else"


def _choose_annotations(
    contents: _Contents, series: dict[str, list[dicom.SliceHeader]]
) -> dict[str, str]:
    """Returns the annotation file of each series; others are reported."""
    by_study = collections.defaultdict(set)
    for on_slice in contents.slices:
        by_study[on_slice.study_uid].add(on_slice.series_uid)
    chosen: dict[str, str] = {}
    for name, header in contents.annotations:
        in_study = by_study.get(header.study_uid, set()) if header.study_uid else set()
        if header.series_uid in series:
            uid = header.series_uid
        elif len(in_study) == 1:
            (uid,) = in_study
        else:
            contents.problems.append(
                Problem(
                    "annotation file without its CT series",
                    name,
                    f"SeriesInstanceUID {header.series_uid or 'missing'}",
                )
            )
            continue
        if uid in chosen:
            contents.problems.append(
                Problem(
                    "second annotation file of a series",
                    name,
                    f"{chosen[uid]} is used",
                )
            )
        else:
            chosen[uid] = name
    return chosen
