"""Tests of the commands in run/: help, exit codes and one-line errors."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest

from tf_probunet.commands import cli
from tf_probunet.dataset import records

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_RUN = _ROOT / "run"
_SCRIPTS = sorted(p for p in _RUN.glob("*.py") if not p.name.startswith("_"))


def _python(*arguments: object, **variables: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k != "TF_PROBUNET_TRACEBACK"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=_ROOT,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _one_line_error(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize("script", _SCRIPTS, ids=lambda path: path.name)
def test_help_is_quick_and_shows_the_own_flags_first(script):
    done = _python("-X", "importtime", script, "--help")
    assert done.returncode == 0, done.stderr
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    lines = done.stdout.splitlines()
    assert lines[0] == docstring.splitlines()[0]
    module = _ROOT / "tf_probunet" / "commands" / script.name
    source = (module if module.exists() else script).read_text(encoding="utf-8")
    written = source.split('"""')[1].strip()
    assert done.stdout.startswith(f"{written}\n")  # Line breaks behind "\\" too.
    flags = lines[lines.index("flags:") + 1 :]
    assert flags[0].startswith("  --")
    assert not [line for line in flags if line.endswith(":") and line[0] != " "]
    # What takes its time is not loaded; seconds would depend on the machine's load.
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "absl" in loaded
    assert not loaded & {"tensorflow", "keras", "tensorflow_probability", "matplotlib"}


@pytest.mark.parametrize("script", _SCRIPTS, ids=lambda path: path.name)
def test_unknown_flag_is_named(script):
    error = _one_line_error(_python(script, "--no_such_flag=1"))
    assert "no_such_flag" in error


@pytest.mark.parametrize("flag", ["-h", "--helpshort", "--helpfull"])
def test_other_ways_to_ask_for_help(flag):
    done = _python(_RUN / "prepare_phantom.py", flag)
    assert done.returncode == 0
    assert "--image_size: height and width" in done.stdout


def test_help_may_be_cut_off():
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, str(_RUN / "prepare_phantom.py"), "--help"],
            cwd=_ROOT,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], ["--out_dir is required", "--help"]),
        (["--out_dir="], ["--out_dir is required"]),
        (["--out_dir=x", "--image_size=abc"], ["--image_size=abc", "int"]),
        (["--out_dir=x", "--image_size=8"], ["image_size is 8, expected at least 32"]),
        (["--out_dir=x", "--seed=-1"], ["seed is -1, expected at least 0"]),
        (["--out_dir=x", "--num_workers=-1"], ["num_workers", "-1", "non-negative"]),
        (["--out_dir=x", "more"], ["unexpected argument 'more'"]),
        (["--flagfile=missing.flags"], ["missing.flags"]),
    ],
)
def test_bad_flags_give_one_line(arguments, words):
    error = _one_line_error(_python(_RUN / "prepare_phantom.py", *arguments))
    for word in words:
        assert word in error


def test_flag_file_that_is_no_text_gives_one_line(tmp_path):
    (tmp_path / "x.flags").write_bytes(b"\xff\xfe\x00--out_dir")
    _one_line_error(
        _python(_RUN / "prepare_phantom.py", f"--flagfile={tmp_path / 'x.flags'}")
    )


def _flag_file_words(words, directory, monkeypatch):
    monkeypatch.chdir(directory)
    return cli.with_packaged_flag_files(["x", *words])[1:]


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_packaged_flag_files_are_found_from_everywhere(dashes, tmp_path, monkeypatch):
    flag, found = f"{dashes}flagfile", str(_ROOT / "lidc.flags")
    words = [f"{flag}=lidc.flags", flag, "lidc.flags", "--run_dir=lidc.flags"]
    expected = [f"{flag}={found}", flag, found, "--run_dir=lidc.flags"]
    assert _flag_file_words(words, tmp_path, monkeypatch) == expected
    unknown = [f"{flag}=other.flags", f"{flag}=no/lidc.flags", f"{flag}=", flag]
    assert _flag_file_words(unknown, tmp_path, monkeypatch) == unknown


def test_a_flag_file_in_the_working_directory_wins(tmp_path, monkeypatch):
    (tmp_path / "lidc.flags").write_text("--steps=3\n")
    words = ["--flagfile=lidc.flags", "--flagfile", "lidc.flags"]
    assert _flag_file_words(words, tmp_path, monkeypatch) == words


def test_bad_configuration_of_a_training_run_gives_one_line():
    arguments = ["--data_dir=x", "--run_dir=y", "--crop_size=30"]
    error = _one_line_error(_python(_RUN / "train.py", *arguments))
    assert "crop_size is 30, expected a multiple of 16 for 5 scales" in error
    wrong = "--crop_size=32x48"
    error = _one_line_error(_python(_RUN / "train.py", *arguments[:2], wrong))
    assert "'32x48', expected a number such as 128, or a height and a width" in error
    error = _one_line_error(_python(_RUN / "train.py", *arguments[:2], "--model=vnet"))
    assert "vnet" in error and "prob_unet" in error


@pytest.mark.parametrize(
    "script, flags",
    [
        ("train.py", ["--data_dir={0}/no", "--run_dir={0}/run"]),
        ("export.py", ["--run_dir={0}/no", "--out_dir={0}/out"]),
    ],
)
def test_missing_directories_are_named(tmp_path, script, flags):
    done = _python(_RUN / script, *[flag.format(tmp_path) for flag in flags])
    assert str(tmp_path / "no") in _one_line_error(done)
    assert list(tmp_path.iterdir()) == []


def test_phantom_is_prepared_quietly(tmp_path):
    flags = ["--image_size=32", "--num_train=5", "--num_val=3", "--num_test=2"]
    done = _python(_RUN / "prepare_phantom.py", *flags, f"--out_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == [
        "data set phantom",
        "  train: 5 images of 5 groups",
        "  val: 3 images of 3 groups",
        "  test: 2 images of 2 groups",
    ]
    # Nothing but the progress: TensorFlow is quiet.
    (line,) = done.stderr.splitlines()
    assert line.startswith("preparing: 3/3")
    assert records.read_info(tmp_path).spec.preparation["num_train"] == 5


def _command(tmp_path: pathlib.Path, body: str, **variables: str):
    """Runs a command whose main does `body`."""
    script = tmp_path / "command.py"
    script.write_text(
        '"""Does a thing."""\n'
        "import dataclasses, typing\n"
        "from tf_probunet.commands import cli\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Settings:\n"
        "    size: 'int' = 3\n"
        "    rate: 'typing.Optional[float]' = None\n"
        "    name: 'str' = dataclasses.field(\n"
        "        default='a', metadata={'choices': ('a', 'b'), 'flag': 'called'})\n"
        "    loud: 'bool' = False\n"
        "    fixed: 'int' = 0\n"
        "cli.define_config_flags(Settings, skip=['fixed'])\n"
        f"def main():\n    {body}\n"
        "cli.start(main)\n"
    )
    return _python(
        script,
        "--size=5",
        "--rate=0.5",
        "--called=b",
        "--loud",
        PYTHONPATH=str(_ROOT),
        **variables,
    )


def test_configuration_comes_from_the_flags(tmp_path):
    body = "print(cli.config_from_flags(Settings, fixed=7))"
    done = _command(tmp_path, body)
    assert done.returncode == 0, done.stderr
    expected = "Settings(size=5, rate=0.5, name='b', loud=True, fixed=7)\n"
    assert done.stdout == expected


@pytest.mark.parametrize(
    "body, code, stderr",
    [
        ("pass", 0, ""),
        ("return 3", 3, ""),
        ("raise ValueError('two\\n  lines')", 1, "error: two lines\n"),
        ("raise FileNotFoundError('x: none')", 1, "error: x: none\n"),
        ("raise ValueError", 1, "error: ValueError\n"),
        ("raise OSError(28, 'No space', 'a.txt')", 1, "error: a.txt: No space\n"),
        ("raise KeyboardInterrupt", 130, "\ninterrupted\n"),
    ],
)
def test_exit_codes(tmp_path, body, code, stderr):
    done = _command(tmp_path, body)
    assert (done.returncode, done.stderr) == (code, stderr)


def _raise_from_tensorflow(message: str, error: str = "ResourceExhaustedError") -> str:
    return f"import tensorflow as tf; raise tf.errors.{error}(None, None, {message!r})"


def test_full_disk_under_tensorflow_gives_one_line(tmp_path):
    message = (
        "{{function_node f}} run/ckpt-2.index; No space left on device [Op:SaveV2]"
    )
    error = _one_line_error(_command(tmp_path, _raise_from_tensorflow(message)))
    assert error == "error: run/ckpt-2.index; No space left on device"


def test_other_errors_of_tensorflow_show_where_they_are(tmp_path):
    body = _raise_from_tensorflow("a bug [9, 9]", "InternalError")
    done = _command(tmp_path, body)
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "a bug [9, 9]" in done.stderr


def test_own_bugs_show_where_they_are(tmp_path):
    done = _command(tmp_path, "assert False, 'a bug'")
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "a bug" in done.stderr


def test_traceback_of_a_users_error_can_be_asked_for(tmp_path):
    done = _command(tmp_path, "raise ValueError('x')", TF_PROBUNET_TRACEBACK="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--image_size=100000000", "image_size is 100000000, expected at most 4096"),
        (f"--seed={2**64}", f"seed is {2**64}, expected below {2**63}"),
    ],
)
def test_phantoms_that_can_not_be_made_or_read_are_refused(tmp_path, flag, message):
    out_dir = tmp_path / "out"
    done = _python(_RUN / "prepare_phantom.py", f"--out_dir={out_dir}", flag)
    assert _one_line_error(done) == f"error: {message}"
    assert not out_dir.exists()


def test_a_want_of_memory_is_one_line(tmp_path):
    message = "Graph execution error:\n{{node x}} OOM when allocating [9] [Op:A]"
    done = _command(tmp_path, _raise_from_tensorflow(message))
    assert _one_line_error(done) == (
        "error: out of memory (OOM when allocating [9]); use smaller images, batches "
        "or networks"
    )
