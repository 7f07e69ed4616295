"""From results directories to files, and the command line."""

import json
import pathlib
import subprocess
import sys

import pytest
from helpers import results_writer

from tf_probunet.artifacts.results_dir import UnavailableError
from tf_probunet.figures import make, style

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Draws few pixels, to save time."""
    monkeypatch.setattr(style, "DPI", 50)


@pytest.fixture(scope="module")
def lesion_dirs(tmp_path_factory):
    base = tmp_path_factory.mktemp("lesions")
    for seed, name in enumerate(("one", "two")):
        results_writer.write_lesion_results(
            base / name, num_images=6, seed=seed, saved=2
        )
    return [str(base / "one"), str(base / "two")]


@pytest.fixture(scope="module")
def street_dir(tmp_path_factory):
    base = tmp_path_factory.mktemp("street")
    return str(results_writer.write_street_results(base / "s", num_images=4, saved=2))


def names(paths):
    return {path.name for path in paths if path.suffix == ".png"}


def test_all_figures_of_lesions(lesion_dirs, tmp_path):
    lines = []
    request = make.Request(
        results=make.read_results(lesion_dirs), num_images=1, num_samples=3
    )
    paths = make.make("all", request, str(tmp_path), lines.append)
    assert names(paths) == {
        "energy_distance.png",
        "sample_grid_one.png",
        "sample_grid_two.png",
        "sample_comparison_image-000.png",
        "ambiguity.png",
        "uncertainty_one.png",
        "uncertainty_two.png",
        "reliability.png",
        "presence_reliability.png",
    }
    assert {p.with_suffix(".svg") for p in paths if p.suffix == ".png"} < set(paths)
    assert all(path.is_file() for path in paths)
    left_out = [line.split(":")[0] for line in lines if line.startswith("left out")]
    assert left_out == [
        "left out mode_calibration",
        "left out mode_histograms",
        "left out latent_plane",
    ]


def test_all_figures_of_street_scenes(street_dir, tmp_path):
    request = make.Request(results=make.read_results([street_dir]), num_images=1)
    paths = make.make("all", request, str(tmp_path), lambda line: None)
    assert names(paths) == {
        "energy_distance.png",
        "sample_grid_s.png",
        "mode_calibration.png",
        "mode_histograms_s.png",
        "uncertainty_s.png",
    }


def test_models_are_compared_on_the_images_that_all_kept(tmp_path):
    for number, saved in enumerate((3, 1)):
        results_writer.write_lesion_results(
            tmp_path / str(number), num_images=4, saved=saved
        )
    path = tmp_path / "1" / "results.json"
    results = json.loads(path.read_text())
    results["protocol"]["sampling"] = "stratified"
    path.write_text(json.dumps(results))
    found = make.read_results([str(tmp_path / "0"), str(tmp_path / "1")])
    request = make.Request(results=found)
    paths = make.make("sample_comparison", request, str(tmp_path), lambda line: None)
    assert names(paths) == {"sample_comparison_image-000.png"}
    paths = make.make("reliability", request, str(tmp_path), lambda line: None)
    text = next(p for p in paths if p.name == "reliability.svg").read_text()
    assert "1 (stratified)" in text


def test_second_run_writes_the_same_bytes(street_dir, tmp_path):
    request = make.Request(results=make.read_results([street_dir]), keys=["image-001"])
    first, second = (
        make.make("uncertainty", request, str(tmp_path / name), lambda line: None)
        for name in ("a", "b")
    )
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert ">image-001</text>" in first[1].read_text()


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("mode_calibration", "per_image.npz: no array 'mode_counts'"),
        ("latent_plane", "needs a SavedModel and the prepared data"),
        ("cake", "figure is 'cake'; expected all, energy_distance"),
    ],
)
def test_what_can_not_be_drawn_is_an_error(lesion_dirs, tmp_path, figure, message):
    request = make.Request(results=make.read_results(lesion_dirs))
    with pytest.raises(ValueError, match=message):
        make.make(figure, request, str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_models_with_one_sample_have_no_uncertainty(lesion_dirs, tmp_path):
    models = make.read_results(lesion_dirs)
    models[0]._samples["samples"] = models[0]._samples["samples"][:, :1]
    request = make.Request(results=models, num_images=1)
    paths = make.make("uncertainty", request, str(tmp_path), lambda line: None)
    assert names(paths) == {"uncertainty_two.png"}
    only = make.Request(results=models[:1], num_images=1)
    with pytest.raises(UnavailableError, match="one sample per image"):
        make.make("uncertainty", only, str(tmp_path), lambda line: None)


def test_nothing_to_draw_at_all(tmp_path):
    with pytest.raises(ValueError, match="no figure can be drawn"):
        make.make("all", make.Request(), str(tmp_path), lambda line: None)


def test_names_that_would_share_a_file_are_refused(lesion_dirs, tmp_path):
    models = make.read_results(lesion_dirs, ["a b", "a/b"])
    request = make.Request(results=models, num_images=1)
    with pytest.raises(ValueError, match="both be called sample_grid_a-b"):
        make.make("sample_grid", request, str(tmp_path), lambda line: None)


def test_names_are_those_of_the_directories_unless_given(lesion_dirs):
    assert [r.name for r in make.read_results(lesion_dirs)] == ["one", "two"]
    assert [r.name for r in make.read_results(lesion_dirs, ["a", "b"])] == ["a", "b"]
    with pytest.raises(ValueError, match="'one' names two of the results"):
        make.read_results([lesion_dirs[0]] * 2)


def test_dims_are_two_numbers():
    assert make.two_numbers(["2", "0"]) == (2, 0)
    for texts in (["1"], ["0", "1", "2"], ["a", "b"]):
        with pytest.raises(ValueError, match="expected two numbers"):
            make.two_numbers(texts)


def command(*arguments):
    return subprocess.run(
        [sys.executable, "run/figures.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_command_writes_and_lists_the_files(lesion_dirs, tmp_path):
    run = command(
        f"--results={','.join(lesion_dirs)}",
        "--names=A,B",
        "--figure=reliability",
        f"--out_dir={tmp_path}",
    )
    assert run.returncode == 0, run.stderr
    listed = run.stdout.split()
    stems = ("reliability", "presence_reliability")
    expected = [f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")]
    assert listed == [str(tmp_path / name) for name in expected]
    svg = (tmp_path / "reliability.svg").read_text()
    assert ">A: ECE " in svg and ">B: ECE " in svg


def test_command_fails_in_one_line(tmp_path):
    run = command("--results=nowhere", f"--out_dir={tmp_path}")
    assert run.returncode == 1
    expected = "error: nowhere/results.json: no such results of an evaluation\n"
    assert run.stderr == expected


def test_command_knows_all_figures():
    run = command("--help")
    assert run.returncode == 0
    listed = run.stdout.split("--figure: <", 1)[1].split(">", 1)[0]
    assert "".join(listed.split()).split("|") == ["all", *make.FIGURES]
