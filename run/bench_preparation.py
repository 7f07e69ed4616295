"""Times the preparation of LIDC on a part of it, and extrapolates to all of it.

    python run/bench_preparation.py --dicom_dir=LIDC-IDRI

All times are processor time: what the disk adds depends on the disk.
"""

import os

# As in the workers of a preparation; NumPy reads it when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pathlib
import pickle
import resource
import subprocess
import sys
import tempfile
import time

import _start  # noqa: F401  (the checkout's own package)
from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("dicom_dir", None, "a part of the original download")
flags.DEFINE_integer(
    "repeats", 5, "runs of each stage; the fastest counts", lower_bound=1
)
flags.DEFINE_integer("num_files", 244_000, "files in all of LIDC", lower_bound=1)
flags.DEFINE_integer("num_scans", 1018, "scans in all of LIDC", lower_bound=1)
flags.DEFINE_integer("num_images", 15_721, "images in all of LIDC", lower_bound=1)

PREPARE = pathlib.Path(__file__).with_name("prepare_lidc.py")


def timed(function) -> float:
    """Seconds of processor time of the best run."""
    times = []
    for _ in range(cli.FLAGS["repeats"].value):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def measure(root: pathlib.Path, scratch: pathlib.Path) -> dict[str, tuple]:
    """Seconds of each stage on the part, and how many items it had there."""
    from tf_probunet.dataset import records
    from tf_probunet.imaging import dicom
    from tf_probunet.preparation import runner, tree
    from tf_probunet.preparation.lidc import (
        annotation_xml,
        series,
    )
    from tf_probunet.preparation.lidc import (
        prepare as lidc,
    )
    from tf_probunet.preparation.lidc import (
        scans as lidc_scans,
    )

    source = series.source(root)
    scans = [item.task.scan for item in source.items]
    xml = [root / scan.annotation_file for scan in scans]
    headers = [header for scan in scans for header in scan.headers]
    names, _ = tree.list_files(root)
    slices = [name for name in names if not name.lower().endswith(".xml")]

    def units():
        return [
            runner.Unit(item.name, ("train", item.task), item.inputs)
            for item in source.items
        ]

    work = units()
    lidc.prepare(root, scratch / "data", num_workers=1)
    spec = records.read_info(scratch / "data").spec
    parts = [
        runner._process_unit(unit, source.process, spec, scratch / "parts")
        for unit in work
    ]
    examples = [
        (entry["key"], entry["group"], runner._reader(scratch / "parts", part, entry))
        for part in parts
        for entry in part["examples"]
    ]
    sort = timed(lambda: [dicom.stack_slices(scan.headers) for scan in scans])
    readings = timed(lambda: [annotation_xml.read_readings(path) for path in xml])
    process = timed(
        lambda: [
            runner._process_unit(unit, source.process, spec, scratch / "parts")
            for unit in work
        ]
    )
    per_file = len(headers)
    return {
        "files: list": (timed(lambda: tree.list_files(root)), len(names)),
        "files: read headers": (
            timed(lambda: lidc_scans._read_files([(root, n) for n in slices])),
            len(slices),
        ),
        # From a worker to the main process, and to a worker again.
        "files: pass headers on": (
            2 * timed(lambda: pickle.loads(pickle.dumps(headers))),
            per_file,
        ),
        "files: notice changes": (
            timed(lambda: [unit.inputs_hash for unit in units()]),
            per_file,
        ),
        "files: sort slices": (sort, per_file),
        "scans: find annotations": (
            timed(lambda: [annotation_xml.read_header(path) for path in xml]),
            len(scans),
        ),
        "scans: read annotations": (readings, len(scans)),
        "images: cut out and encode": (process - sort - readings, len(examples)),
        "images: write shards": (
            timed(
                lambda: records.write_dataset(
                    scratch / "shards", spec, {"train": examples}
                )
            ),
            len(examples),
        ),
    }


def command_seconds(root: pathlib.Path, scratch: pathlib.Path) -> float:
    """Seconds of the whole command with two workers, all processes together."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            sys.executable,
            str(PREPARE),
            f"--dicom_dir={root}",
            f"--out_dir={scratch / 'command'}",
            "--num_workers=2",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    root = pathlib.Path(cli.FLAGS.dicom_dir)
    whole = {
        name: cli.FLAGS[f"num_{name}"].value for name in ("files", "scans", "images")
    }
    with tempfile.TemporaryDirectory() as folder:
        stages = measure(root, pathlib.Path(folder))
        command = command_seconds(root, pathlib.Path(folder))
    start = max(0.0, command - sum(seconds for seconds, _ in stages.values()))
    print(f"{'stage':30}{'ms each':>10}{'seconds for all':>18}")
    total = start
    for name, (seconds, number) in stages.items():
        items = whole[name.partition(":")[0]]
        share = seconds / number * items
        total += share
        print(f"{name:30}{seconds / number * 1e3:10.3f}{share:18.1f}")
    print(f"{'start three processes':30}{'':10}{start:18.1f}")
    print(
        f"{whole['files']} files, {whole['scans']} scans, {whole['images']} images: "
        f"{total:.0f} s of processor time, {total / 2:.0f} s on two cores at best"
    )


if __name__ == "__main__":
    cli.start(main, required=["dicom_dir"])
