"""The models that come with the repository: small, documented, and as good as said."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from helpers import real_data

from tf_probunet.artifacts import pretrained, saved_model
from tf_probunet.evaluation import sources
from tf_probunet.evaluation.metrics import ged

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PRETRAINED = _ROOT / "data" / "pretrained"
_MAX_BYTES = 10_000_000
# Of 120 slices, whose mean is that of all but for about 0.02.
_NUM_SLICES = 120
_TOLERANCE = 0.05

_NONE = pytest.param(
    None, marks=pytest.mark.skip(reason="no model in data/pretrained yet")
)
_PATHS = sorted(p for p in _PRETRAINED.glob("*") if p.is_dir())


@pytest.fixture(
    scope="module", params=_PATHS or [_NONE], ids=lambda path: getattr(path, "name", "")
)
def path(request: pytest.FixtureRequest) -> pathlib.Path:
    return request.param


@pytest.fixture(scope="module")
def model(path):
    return saved_model.load(path)


@pytest.fixture(scope="module")
def card(path):
    return (path / "assets" / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def scores(path):
    return json.loads((path / "assets" / "scores.json").read_text("utf-8"))


@pytest.fixture(params=["checkout", "installed"])
def shipped(request, tmp_path, monkeypatch) -> dict[str, pathlib.Path]:
    """The directories for models and flag files beside or inside a package."""
    package = tmp_path / "tf_probunet"
    monkeypatch.setattr(pretrained, "_PACKAGE", package)
    if request.param == "installed":
        found = {"models": package / "pretrained", "flags": package / "flag_files"}
    else:
        found = {"models": tmp_path / "data" / "pretrained", "flags": tmp_path}
    for path in found.values():
        path.mkdir(parents=True, exist_ok=True)
    return found


def test_models_and_flag_files_are_found_in_a_checkout_and_installed(shipped):
    for name in ("b", "a"):
        (shipped["models"] / name).mkdir()
    (shipped["models"] / "README.md").touch()
    assert pretrained.names() == ["a", "b"]
    assert pretrained.model_path("b") == shipped["models"] / "b"
    for name in ("lidc.flags", "README.md"):
        (shipped["flags"] / name).touch()
    assert pretrained.flag_file("lidc.flags") == shipped["flags"] / "lidc.flags"
    for name in ("", "no.flags", "README.md", f"{shipped['flags'] / 'lidc.flags'}"):
        assert pretrained.flag_file(name) is None
    in_package = shipped["flags"].name == "flag_files"
    assert pretrained.checkout() == (None if in_package else shipped["flags"])


def test_a_model_that_is_not_there_is_named(shipped):
    with pytest.raises(FileNotFoundError, match="lidc_cpu: .* a complete checkout or"):
        pretrained.model_path()
    (shipped["models"] / "lidc_cpu").mkdir()
    message = r"/no: no such pretrained model, expected lidc_cpu$"
    with pytest.raises(FileNotFoundError, match=message):
        pretrained.model_path("no")


def _disc() -> tuple[np.ndarray, np.ndarray]:
    """Returns a bright disc on dark ground, [1, 64, 64, 1], and where it is."""
    rows, cols = np.mgrid[:64, :64]
    inside = (rows - 32) ** 2 + (cols - 32) ** 2 < 8**2
    return np.where(inside, 0.6, 0.1).astype(np.float32)[None, ..., None], inside


def test_is_small(path):
    sizes = [p.stat().st_size for p in path.rglob("*") if p.is_file()]
    assert 0 < sum(sizes) <= _MAX_BYTES


def test_the_card_says_where_it_is_from_and_what_it_is_for(card):
    for text in (
        "CC BY 3.0",
        "https://doi.org/10.7937/K9/TCIA.2015.LO9QL9SX",
        "Armato III, S. G.",
        "Clark, K.",
        "## Intended use and limits",
        "medical device",
        "a lesion in the middle",
    ):
        assert text in card


def test_the_card_shows_the_scores(card, scores):
    assert "## Scores" in card
    for value in scores["ged"].values():
        bounds = f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"
        assert bounds in card
    assert scores["floor"]["16"]["mean"] < scores["ged"]["16"]["mean"] < 0.5


def test_names_no_directories_of_the_machine_it_was_made_on(path):
    for file in sorted((path / "assets").iterdir()):
        found = re.findall(r"[=\s\"'](/\w+/\S+)", file.read_text("utf-8"))
        assert not found, file.name


def test_says_how_its_pictures_were_made(model):
    assert model.is_lidc and model.has_rescaled_images
    assert model.dataset["intensity"] == "uint8"
    assert (model.data.eval_size, model.data.frame_size) == (64, 128)
    assert (model.metadata["sees"], model.metadata["frame"]) == (64, 128)


def test_samples_depend_on_the_seed_alone(model):
    image, _ = _disc()
    first, again, other = (
        model.call("sample", image, 16, seed, about="disc") for seed in (1, 1, 2)
    )
    for name in ("labels", "probabilities"):
        np.testing.assert_array_equal(first[name], again[name])
    assert np.abs(first["probabilities"] - other["probabilities"]).max() > 1e-3


def test_samples_of_a_disc(model):
    image, inside = _disc()
    drawn = model.call("sample", image, 16, 0, about="disc")
    assert drawn["labels"].shape == (1, 16, 64, 64)
    assert set(np.unique(drawn["labels"])) <= {0, 1}
    probabilities = drawn["probabilities"][0]
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
    lesion = probabilities[..., 1].mean(axis=0)
    assert lesion[inside].mean() > 3 * lesion[~inside].mean()


def test_samples_are_those_of_the_first_export(model, path):
    """Sums of the lesion's probabilities by the graph that the weights came with."""
    if path.name != "lidc_cpu":
        pytest.skip(f"{path.name} was exported once")
    expected = [202.992, 237.89, 217.97, 226.735, 210.536, 152.124, 186.492, 219.848]
    expected += [178.281, 187.002, 207.177, 173.81, 258.857, 195.544, 209.0, 209.871]
    drawn = model.module.sample(_disc()[0], 16, 0)["probabilities"].numpy()
    np.testing.assert_allclose(drawn[0, ..., 1].sum((1, 2)), expected, rtol=1e-4)


def test_whole_frames_get_the_samples_that_are_scored(model, path):
    size = model.metadata["frame"]
    frames = np.random.default_rng(0).random((2, size, size, 1), np.float32)
    frames[1, 32:96, 32:96] = _disc()[0]
    drawn = sources.SavedModel(path, seed=3).draw(["a", "b"], frames, 16).labels
    for key, frame, expected in zip("ab", frames, drawn):
        seed = [sources.image_seed(3, key)]
        outputs = model.module.sample(frame[None], 16, seed)
        np.testing.assert_array_equal(outputs["labels"][0], expected)
    assert drawn[1].any()


def test_values_of_8_bits_are_refused(model):
    frames = np.full((1, 128, 128, 1), 200, np.uint8)
    message = "values from 200 to 200, expected 0 to 1: 8-bit values divided by 255"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.module.sample(frames)


def test_is_the_default_of_the_command(path, tmp_path):
    if path.name != "lidc_cpu":
        pytest.skip(f"{path.name} is not the default")
    image, _ = _disc()
    pixels = np.full((128, 128), 26, np.uint8)
    pixels[32:96, 32:96] = np.rint(255 * image[0, ..., 0])
    pixels[0, :2] = 0, 255
    PIL.Image.fromarray(pixels).save(tmp_path / "disc.png")
    command = [sys.executable, str(_ROOT / "run" / "predict.py"), "--input=disc.png"]
    done = subprocess.run(
        [*command, "--out_dir=out", "--num_samples=4", "--seed=3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("disc: ") and "note" not in done.stdout
    seen = (pixels[None, 32:96, 32:96, None] / 255).astype(np.float32)
    expected = saved_model.load(path).call("stratified", seen, 4, 3, about="disc")
    for i, labels in enumerate(expected["labels"][0]):
        opened = PIL.Image.open(tmp_path / "out" / "disc" / f"sample_{i:03d}.png")
        np.testing.assert_array_equal(np.array(opened), np.pad(labels, 32))


@pytest.mark.real_data
def test_is_as_good_as_the_card_says(path, scores):
    keys, images, graders = real_data.validation_slices(_NUM_SLICES)
    frames = (images / 255).astype(np.float32)[..., None]
    drawn = sources.SavedModel(path, seed=0).draw(keys, frames, 16)
    distances = ged.energy_terms(drawn.labels, graders).energy_distance
    assert abs(distances.mean() - scores["ged"]["16"]["mean"]) < _TOLERANCE
