"""The thin commands: what their flags become, what they print, how they end.

One test for each command that has no test file of its own. What the commands do is
tested with the modules that do it; most of these are replaced here.
"""

from __future__ import annotations

import json
import pathlib
import signal
import sys
import types

import pytest
from absl.testing import flagsaver

from tf_probunet.artifacts import pretrained
from tf_probunet.commands import COMMANDS, cli, demo_summary
from tf_probunet.config import ModelConfig
from tf_probunet.dataset import records

_HERE = pathlib.Path(__file__)


class _Recorder:
    """Stands for a function: keeps its arguments and returns what it was given."""

    def __init__(self, result: object = None):
        self.result, self.args, self.kwargs = result, (), {}

    def __call__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
        return self.result


def _fresh(name: str) -> types.ModuleType:
    """Loads a command, and forgets it: the next load defines its flags again."""
    module = cli._load(name)
    cli._module = None
    del sys.modules[module.__name__]
    return module


@pytest.fixture
def call():
    """Runs a command in this process: call(name, flags) returns its exit code."""

    def run(name: str, *words: object) -> int | None:
        with flagsaver.flagsaver():
            module = _fresh(name)
            cli.FLAGS([name, *map(str, words)])
            return module.main()

    return run


@pytest.fixture
def replaced(monkeypatch):
    """Replaces the function at the end of a dotted name; returns its recorder."""

    def replace(target: str, result: object = None) -> _Recorder:
        recorder = _Recorder(result)
        monkeypatch.setattr(f"tf_probunet.{target}", recorder)
        return recorder

    return replace


def _outcome(step: int, best: float | None = None, stopped_by: int | None = None):
    score = None if best is None else {"ged": best, "loss": 12.5, "step": step}
    return types.SimpleNamespace(step=step, best=score, signal=stopped_by)


def test_every_command_has_a_test():
    tested = {path.stem.partition("_")[2] for path in _HERE.parent.glob("test_*.py")}
    here = _HERE.read_text(encoding="utf-8")
    assert [
        name for name in COMMANDS if name not in tested and f"test_{name}" not in here
    ] == []


def test_compare_sampling(call, replaced, capsys):
    run = replaced("evaluation.sampling_study.run", {"a": 1})
    replaced("evaluation.sampling_study.markdown", "the table")
    replaced("figures.sampling.draw")
    save = replaced("figures.style.save", ["out/sampling.png"])
    words = ["--data_dir=d", "--out_dir=out", "--num_samples=8,2", "--hypotheses=3"]
    call("compare_sampling", *words)
    config = run.args[0]
    assert (config.num_samples, config.hypotheses) == ((2, 8), (3,))
    assert save.args[1:] == ("out", "sampling")
    assert capsys.readouterr().out == "the table\nout/sampling.png\n"


def test_train(call, replaced, capsys):
    train = replaced("training.train.train", _outcome(3, best=0.25))
    words = ["--data_dir=data", "--run_dir=run", "--beta=2", "--noresume"]
    assert call("train", *words) == 0
    assert train.args[0].model.beta == 2.0
    assert (train.kwargs["data_dir"], train.kwargs["run_dir"]) == ("data", "run")
    assert train.kwargs["resume"] is False
    assert capsys.readouterr().out == (
        "trained 3 steps: run\nbest validation: GED 0.2500, loss 12.5 at step 3\n"
    )


def test_train_that_was_stopped(call, replaced, capsys):
    replaced("training.train.train", _outcome(3, stopped_by=signal.SIGTERM))
    code = call("train", "--data_dir=data", "--run_dir=run", "--steps=9")
    assert code == 128 + signal.SIGTERM
    assert capsys.readouterr().out == (
        "stopped at step 3 of 9 and saved; the same command continues from there\n"
    )


def test_train_ensemble(call, replaced, capsys):
    outcomes = [_outcome(5, best=0.5), _outcome(5)]
    train = replaced("training.ensemble.train_members", outcomes)
    words = ["--data_dir=data", "--run_dir=runs/unet", "--num_members=2", "--seed=7"]
    assert call("train_ensemble", *words) == 0
    assert (train.args[0].model.name, train.args[0].training.seed) == ("unet", 7)
    assert train.kwargs["num_members"] == 2
    assert capsys.readouterr().out == (
        "trained 2 members: runs/unet_00 and so on\n"
        "member 00: best validation GED 0.5000\n"
    )


def test_train_ensemble_that_was_stopped(call, replaced, capsys):
    outcomes = [_outcome(9), _outcome(4, stopped_by=signal.SIGINT)]
    replaced("training.ensemble.train_members", outcomes)
    words = ["--data_dir=data", "--run_dir=unet", "--num_members=3", "--steps=9"]
    assert call("train_ensemble", *words) == 128 + signal.SIGINT
    assert capsys.readouterr().out.startswith("stopped in member 2 of 3 at step 4 of 9")


@pytest.mark.parametrize(
    "flag, function",
    [
        ("--run_dir=a", "export_run"),
        ("--members=a", "export_ensemble"),
        ("--saved_model=a", "export_again"),
    ],
)
def test_export(call, replaced, capsys, flag, function):
    export = replaced(f"export.export.{function}", "out")
    last = [] if function == "export_again" else ["--checkpoint=last"]
    call("export", flag, "--out_dir=out", "--overwrite", *last)
    assert export.args == ("a", "out")
    settings = {"results": None, "overwrite": True}
    if last:
        settings["checkpoint"] = "last"
    if function != "export_ensemble":
        settings["sampling"] = {}
    assert export.kwargs == settings
    assert capsys.readouterr().out == "SavedModel: out\n"


@pytest.mark.parametrize("flag", ["--outline_stddev=1.7", "--average_symmetries"])
def test_export_of_another_way_to_sample(call, replaced, flag):
    export = replaced("export.export.export_run", "out")
    call("export", "--run_dir=a", "--out_dir=out", flag)
    name, value = flag[2:].split("=") if "=" in flag else (flag[2:], True)
    assert export.kwargs["sampling"] == {name: float(value)}
    with pytest.raises(ValueError, match=f"U-Nets takes no --{name}"):
        call("export", "--members=a", "--out_dir=out", flag)


def test_export_of_two_things(call):
    with pytest.raises(ValueError, match="expected one of --run_dir, --members and"):
        call("export", "--run_dir=a", "--members=b", "--out_dir=out")


def test_predict(call, replaced, capsys):
    image = {
        "image": "slice",
        "num_samples": 5,
        "hypotheses": [
            {"probability": 0.75, "is_empty": False},
            {"probability": 0.25, "is_empty": True},
        ],
        "explained": 0.98,
        "presence_probability": 0.75,
        "notes": ["one"],
    }
    predict = replaced("predict.predict.predict", {"images": [image], "notes": ["two"]})
    words = ["--input=a.png", "--input=b.png", "--out_dir=out", "--center=3,4"]
    call("predict", *words, "--num_samples=5")
    assert predict.kwargs["model_path"] == pretrained.model_path()
    assert predict.kwargs["inputs"] == ["a.png", "b.png"]
    assert predict.kwargs["crop"].center_numbers == (3, 4)
    assert predict.kwargs["config"].num_samples == 5
    assert capsys.readouterr().out == (
        "slice: 2 hypotheses (75%, 25% nothing) for 98% of the diversity of 5 samples, "
        "something is marked in 75% of the samples\n"
        "note: one\nnote: two\nresults: out\n"
    )


def test_explore(call, replaced, capsys, tmp_path):
    shown = types.SimpleNamespace(notes=["a note"])
    explore = replaced("explorer.explore.explore", shown)
    page = tmp_path / "page.html"
    page.write_bytes(bytes(2**20))
    call("explore", "--input=a.png", f"--out={page}", "--slice=2", "--seed=4")
    assert explore.kwargs["model_path"] == pretrained.model_path()
    assert (explore.kwargs["input_path"], explore.kwargs["data_dir"]) == ("a.png", None)
    assert (explore.kwargs["crop"].slice, explore.kwargs["seed"]) == ("2", 4)
    assert capsys.readouterr().out == f"note: a note\npage: {page} (1.0 MB)\n"


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("predict", ["--input=a", "--reach_mm=3"], "reach_mm is given, but no lesion"),
        ("explore", ["--input=a", "--reach_mm=3"], "reach_mm is given, but no lesion"),
        ("explore", ["--input=a", "--key=b"], "key is given, but no --data_dir"),
        ("explore", ["--data_dir=a", "--slice=3"], "slice is given, but no --input"),
        ("export", ["--saved_model=a", "--checkpoint=last"], "has no checkpoints"),
    ],
)
def test_flags_without_effect_are_refused(call, tmp_path, name, words, message):
    where = {"predict": "out_dir", "explore": "out", "export": "out_dir"}[name]
    with pytest.raises(ValueError, match=message):
        call(name, *words, f"--{where}={tmp_path / 'out'}")


def test_figures(call, replaced):
    read = replaced("figures.make.read_results", ["read"])
    make = replaced("figures.make.make")
    words = ["--results=a,b", "--names=A,B", "--out_dir=out", "--figure=reliability"]
    call("figures", *words, "--keys=k", "--num_images=3", "--dims=4,1")
    assert read.args == (["a", "b"], ["A", "B"])
    figure, request, out_dir = make.args
    assert (figure, out_dir) == ("reliability", "out")
    assert (request.results, request.keys, request.num_images) == (["read"], ["k"], 3)
    assert request.dims == (4, 1)


def test_figures_of_the_help_are_those_that_exist():
    from tf_probunet.figures import make

    with flagsaver.flagsaver():
        module = _fresh("figures")
    assert module.FIGURES == ["all", *make.FIGURES]


def test_draw_curves(call, replaced, capsys):
    replaced("training.logs.read_scalars", {})
    draw = replaced("figures.training_curves.draw", "figure")
    save = replaced("figures.style.save", ["out/x.png", "out/x.svg"])
    words = ["--run_dirs=a,b", "--out_dir=out", "--stem=x", "--floor=0.5"]
    call("draw_curves", *words, "--names=A,B")
    assert draw.args == ({"A": {}, "B": {}}, 0.5)
    assert save.args == ("figure", "out", "x")
    assert capsys.readouterr().out == "out/x.png\nout/x.svg\n"


def test_draw_curves_with_one_name_for_two_runs(call):
    with pytest.raises(ValueError, match=r"names are \['A'\], expected one for each"):
        call("draw_curves", "--run_dirs=a,b", "--names=A", "--out_dir=out")


def test_draw_architectures(call, replaced, capsys):
    save = replaced("figures.architectures.save_all", ["out/unet.svg"])
    call("draw_architectures", "--out_dir=out")
    assert save.args == ("out",)
    assert capsys.readouterr().out == "out/unet.svg\n"


def test_model_table(call, capsys):
    from tf_probunet.models import cost

    call("model_table", "--size=64", "--base_channels=8", "--num_scales=3")
    config = ModelConfig(base_channels=8, num_scales=3)
    assert capsys.readouterr().out == cost.markdown_table(config, 64, 64)


def test_model_table_of_a_size_that_does_not_fit(call):
    with pytest.raises(ValueError, match="size is 100, expected a multiple of 16 for"):
        call("model_table", "--size=100")


def test_prepare_phantom(call, capsys, tmp_path):
    words = ["--num_train=3", "--num_val=1", "--num_test=2", "--image_size=32"]
    call("prepare_phantom", f"--out_dir={tmp_path}", *words)
    info = records.read_info(tmp_path)
    assert [info.count(split) for split in ("train", "val", "test")] == [3, 1, 2]
    assert "train: 3 images of 3 groups" in capsys.readouterr().out


def test_prepare_street_phantom(call, replaced, capsys):
    write = replaced("preparation.street_phantom.write", 42)
    call("prepare_street_phantom", "--out_dir=out", "--images_per_city=2", "--seed=3")
    assert write.args == ("out",)
    assert write.kwargs == {
        "images_per_city": 2,
        "height": 256,
        "width": 512,
        "seed": 3,
    }
    assert capsys.readouterr().out == "42 scenes of 512x256 in out\n"


_REPORT = {"splits": {split: {"examples": 2} for split in ("train", "val", "test")}}


def test_prepare_cityscapes(call, replaced, capsys):
    prepare = replaced("preparation.cityscapes.prepare", _REPORT)
    replaced("preparation.runner.report_summary", "the report\n")
    words = ["--cityscapes_dir=raw", "--out_dir=out", "--strict", "--preview=5"]
    call("prepare_cityscapes", *words)
    assert prepare.args == ("raw", "out")
    assert (prepare.kwargs["strict"], prepare.kwargs["num_preview"]) == (True, 5)
    report, note, *_ = capsys.readouterr().out.splitlines()
    assert report == "the report"
    assert note == "note: train has 2 images, the full data set has 2701"


def test_prepare_lidc(call, replaced, capsys):
    prepare = replaced("preparation.lidc.prepare.prepare", _REPORT)
    replaced("preparation.runner.report_summary", "the report\n")
    words = ["--format=crops", "--input_dir=raw", "--out_dir=out", "--preview=4"]
    call("prepare_lidc", *words)
    assert prepare.args == ("raw", "out")
    assert (prepare.kwargs["source_format"], prepare.kwargs["num_preview"]) == (
        "crops",
        4,
    )
    assert capsys.readouterr().out == "the report\n"


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "expected either --dicom_dir or --input_dir"),
        (["--dicom_dir=a", "--input_dir=b"], "expected either --dicom_dir or --inp"),
        (["--dicom_dir=a", "--format=crops"], "--format=crops goes with --input_dir"),
    ],
)
def test_prepare_lidc_of_unclear_input(call, words, message):
    with pytest.raises(ValueError, match=message):
        call("prepare_lidc", "--out_dir=out", *words)


def test_prepare_folder(call, replaced, capsys):
    prepare = replaced("preparation.folder.prepare.prepare", _REPORT)
    replaced("preparation.runner.report_summary", "the report\n")
    words = ["--input_dir=raw", "--out_dir=out", "--classes=c.csv", "--preview=4"]
    call("prepare_folder", *words, "--strict")
    assert prepare.args[:2] == ("raw", "out")
    given = prepare.kwargs
    assert (given["classes_path"], given["num_preview"]) == ("c.csv", 4)
    assert given["strict"] is True and given["manifest_path"] is None
    given["say"]("a line")
    assert capsys.readouterr().out == "the report\na line\n"
    with pytest.raises(ValueError, match="expected --input_dir or --manifest"):
        call("prepare_folder", "--out_dir=out")


def test_prepare_fundus_phantom(call, replaced, capsys):
    write = replaced("preparation.fundus_phantom.write", (3, 18))
    call("prepare_fundus_phantom", "--out_dir=out")
    assert write.args[0] == "out"
    assert capsys.readouterr().out == "3 images with 18 masks in out\n"


def test_compare_protocols(call, replaced, capsys, tmp_path):
    score = replaced("evaluation.protocol_table.score_all", {"paper": {}})
    table = replaced("evaluation.protocol_table.table", [["", "paper"], ["GED", "0.5"]])
    words = ["--saved_model=model", "--data_dir=data", f"--out_dir={tmp_path}"]
    call("compare_protocols", *words, "--limit=7")
    assert score.args == ("model", "data", str(tmp_path))
    assert score.kwargs == {"split": "val", "limit": 7, "seed": 0}
    assert table.args == ({"paper": {}},)
    assert "| GED | 0.5 |" in (tmp_path / "protocols.md").read_text()
    assert capsys.readouterr().out.endswith(f"table: {tmp_path}/protocols.md\n")


def test_demo_summary(monkeypatch, capsys, tmp_path):
    scores = {"ged": 0.2, "baselines.always_empty.ged": 0.9, "floor": 0.1}
    scores["baselines.majority.ged"] = 0.3

    def read(path):
        factor = 1 if "prob_unet" in path.name else 3

        def required_interval(name, count):
            assert count == 16
            return {"mean": scores[name] * factor}

        return types.SimpleNamespace(required_interval=required_interval)

    monkeypatch.setattr(demo_summary.results_dir, "read", read)
    demo_summary.summarise(tmp_path, ["prob_unet", "unet"], 90.0)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["ged16"] == {
        "prob_unet": 0.2,
        "unet": pytest.approx(0.6),
        "always_empty": 0.9,
        "majority": 0.3,
        "floor": 0.1,
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["always", "empty", "0.900"]
    assert lines[6].split()[-1] == "0.100"
    assert lines[8].startswith("1.5 minutes of work; everything is in ")
