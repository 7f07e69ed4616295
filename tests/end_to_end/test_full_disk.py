"""Commands that find no room for a file: one clear line, and nothing is lost."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import resource
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets, processes

from tf_probunet.artifacts import results_dir
from tf_probunet.config import PhantomConfig
from tf_probunet.dataset import records
from tf_probunet.evaluation import evaluate, sample_files
from tf_probunet.preparation import phantom

pytestmark = pytest.mark.slow

_TRAINING = (
    "--base_channels=4 --num_scales=2 --convs_per_block=1 --latent_dim=2 "
    "--crop_size=16 --eval_size=16 --batch_size=4 --steps=12 --checkpoint_every=2 "
    "--validate_every=6 --validation_images=4 --validation_samples=2 --log_every=6"
).split()


@dataclasses.dataclass
class Small:
    """A directory without room for much.

    Attributes:
        path: of the directory.
        reason: what the system says.
        limits: the bytes of a file are limited, not those of the disk.
    """

    path: pathlib.Path
    reason: str
    limits: bool = False
    _size: int = 0

    def shrink(self, *, disk: int, file: int) -> None:
        """Leaves room for so many bytes on the disk, or in any one file."""
        self._size = file if self.limits else disk
        if not self.limits:
            _mount("-o", f"remount,size={disk}", str(self.path))

    def grow(self) -> None:
        """Makes room."""
        self.shrink(disk=50_000_000, file=resource.RLIM_INFINITY)

    def start(self, script: str, *words: object) -> subprocess.Popen:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, self._size))

        kwargs = {"preexec_fn": limit} if self.limits else {}
        return processes.start(script, *words, **kwargs)

    def failure(self, script: str, *words: object) -> str:
        """Runs a command, which must fail for want of room; returns what it says."""
        process = self.start(script, *words)
        _, stderr = process.communicate()
        assert process.returncode == 1, stderr
        assert "Traceback" not in stderr
        lines = [x for x in stderr.splitlines() if x.startswith("error: ")]
        assert lines == stderr.splitlines()[-1:], stderr
        # The culprit comes first.
        assert lines[0].startswith(f"error: {self.path}") and self.reason in lines[0]
        return lines[0]


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@pytest.fixture(params=["disk", "file"])
def small(request, tmp_path):
    """A small disk; and since it takes rights to make one, small files."""
    path = tmp_path / "small"
    path.mkdir()
    if request.param == "file":
        yield Small(path, os.strerror(27), limits=True)
        return
    try:
        _mount("-t", "tmpfs", "none", str(path))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk can't be mounted here ({error})")
    try:
        yield Small(path, os.strerror(28))
    finally:
        subprocess.run(["umount", str(path)], check=True)


def _variables(directory):
    """Reads all variables of the last checkpoint."""
    reader = tf.train.load_checkpoint(str(directory))
    names = [n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n]
    return {name: reader.get_tensor(name) for name in names}


def test_training(small, phantom_dir, tmp_path):
    words = [*_TRAINING, f"--data_dir={phantom_dir}"]
    target = f"--run_dir={small.path / 'run'}"
    # Room for the first checkpoint only; or for none.
    small.shrink(disk=64_000, file=20_000)
    assert "ckpt-" in small.failure("train.py", *words, target)
    if not small.limits:
        last = tf.train.latest_checkpoint(str(small.path / "run" / "checkpoints"))
        assert last.endswith("ckpt-2")
        assert _variables(small.path / "run" / "checkpoints")
    small.grow()
    processes.finish(small.start("train.py", *words, target))
    processes.run("train.py", *words, f"--run_dir={tmp_path / 'roomy'}")
    for name in ("checkpoints", "best"):
        found = _variables(small.path / "run" / name)
        for variable, value in _variables(tmp_path / "roomy" / name).items():
            np.testing.assert_array_equal(found[variable], value, err_msg=variable)


@pytest.mark.parametrize(
    "disk, file, what",
    [(400_000, 200_000, ".parts"), (1_200_000, 400_000, "train-00000")],
    ids=["part", "shard"],
)
def test_preparation(small, tmp_path, disk, file, what):
    config = PhantomConfig(image_size=32, num_train=300, num_val=4, num_test=4)
    words = [f"--{k}={v}" for k, v in dataclasses.asdict(config).items()]
    words.append(f"--out_dir={small.path / 'data'}")
    small.shrink(disk=disk, file=file)
    assert what in small.failure("prepare_phantom.py", *words)
    assert not (small.path / "data" / records.INFO_NAME).exists()
    small.grow()
    processes.finish(small.start("prepare_phantom.py", *words))
    phantom.prepare(config, tmp_path / "roomy")
    found = datasets.contents(small.path / "data")
    assert found == datasets.contents(tmp_path / "roomy")


def test_evaluation(small, phantom_dir, tmp_path):
    info = records.read_info(phantom_dir)
    rng = np.random.default_rng(0)
    for i in range(info.count("test")):
        samples = rng.integers(0, 2, (4, 32, 32), dtype=np.uint8)
        sample_files.write(tmp_path / "samples", f"test-{i:05d}", samples)
    settings = {
        "samples_dir": str(tmp_path / "samples"),
        "data_dir": str(phantom_dir),
        "validation_split": "",
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    words += ["--num_samples=1,4", f"--out_dir={small.path / 'out'}"]
    small.shrink(disk=16_000, file=4_000)
    assert ".npz" in small.failure("evaluate.py", *words)
    assert not (small.path / "out" / results_dir.RESULTS_NAME).exists()
    small.grow()
    processes.finish(small.start("evaluate.py", *words))
    found = json.loads((small.path / "out" / results_dir.RESULTS_NAME).read_text())
    config = evaluate.EvaluationConfig(
        **settings, out_dir=str(tmp_path / "roomy"), num_samples=(1, 4)
    )
    expected = json.loads(json.dumps(evaluate.evaluate(config)))
    del found["command"], expected["command"]
    assert found == expected
