"""Tests of predictions from file to file: what is written, kept and refused."""

from __future__ import annotations

import builtins
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
from helpers import datasets, dicom_writer
from helpers.predictions import (
    closed_form,
    hounsfield_units,
    predict_files,
    sample_labels,
)

from tf_probunet.predict import predict as predict_lib

_ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("quick_pictures")


def test_an_array_in_closed_form(hu_model, tmp_path):
    hounsfield = hounsfield_units((16, 24))
    np.save(tmp_path / "x.npy", hounsfield)
    predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy")
    values = ((hounsfield + 1000) / 1400).astype(np.float32)
    expected = closed_form(hu_model, values)
    folder = tmp_path / "out" / "x"
    np.testing.assert_array_equal(sample_labels(folder), expected > 0.5)
    maps = np.load(folder / "maps.npz")
    mean = expected.mean(axis=0)
    np.testing.assert_allclose(maps["mean"][..., 1], mean, atol=1e-5)
    entropy = -sum(p * np.log(np.maximum(p, 1e-30)) for p in (mean, 1 - mean))
    np.testing.assert_allclose(maps["entropy"], entropy, atol=1e-4)
    grey = np.array(PIL.Image.open(folder / "mean.png"))
    np.testing.assert_allclose(grey / 255, mean, atol=1 / 255)


def test_the_summary(hu_model, tmp_path):
    hounsfield = np.full((16, 16), -1000, np.int16)
    hounsfield[4:8, 4:10] = 400  # 24 pixels, marked by every sample
    np.save(tmp_path / "x.npy", hounsfield)
    crop = {"spacing_mm": "0.5,0.8"}
    predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy", crop=crop)
    summary = json.loads((tmp_path / "out" / "x" / "summary.json").read_text())
    assert summary["num_samples"] == 4
    assert summary["spacing_mm"] == [0.5, 0.8]
    marked = [h for h in summary["hypotheses"] if not h["is_empty"]]
    weights = [h["probability"] for h in summary["hypotheses"]]
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    lesion = [h for h in marked if h["areas"]["lesion"]["pixels"] == 24]
    assert lesion[0]["areas"]["lesion"]["mm2"] == pytest.approx(24 * 0.4)
    assert summary["explained"] == pytest.approx(1)  # Few samples, all different.
    assert summary["energy_distance"] == pytest.approx(0, abs=1e-9)
    present = sum(h["probability"] for h in marked)
    assert summary["presence_probability"] == pytest.approx(present)
    assert summary["classes"]["lesion"]["area_unit"] == "mm2"


def test_samples_are_stratified_unless_told(hu_model, tmp_path):
    hounsfield = hounsfield_units((16, 16))
    np.save(tmp_path / "x.npy", hounsfield)
    values = ((hounsfield + 1000) / 1400).astype(np.float32)
    predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy", sampling=None)
    expected = closed_form(hu_model, values, sampling="stratified") > 0.5
    np.testing.assert_array_equal(sample_labels(tmp_path / "out" / "x"), expected)
    summary = json.loads((tmp_path / "out" / "x" / "summary.json").read_text())
    assert summary["sampling"] == "stratified"


def test_a_model_without_latents_is_not_stratified(picture_model, tmp_path):
    PIL.Image.effect_noise((16, 8), 80).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="'stratified', but .* has no latents"):
        predict_files(
            picture_model, tmp_path / "out", tmp_path / "a.png", sampling="stratified"
        )
    assert not (tmp_path / "out").exists()


def test_pictures_and_a_model_with_three_samples(picture_model, tmp_path):
    (tmp_path / "in").mkdir()
    for name, size in (("a", (16, 8)), ("b", (8, 8))):
        PIL.Image.effect_noise(size, 80).save(tmp_path / "in" / f"{name}.png")
    result = predict_files(picture_model, tmp_path / "out", tmp_path / "in")
    assert [image["image"] for image in result["images"]] == ["a", "b"]
    assert result["images"][0]["notes"] == ["the model has 3 samples, not 4"]
    assert sample_labels(tmp_path / "out" / "a", 3).shape == (3, 8, 16)
    assert not (tmp_path / "out" / "a" / "sample_003.png").exists()


def test_existing_results_are_kept_unless_told(hu_model, tmp_path):
    np.save(tmp_path / "x.npy", hounsfield_units((16, 16)))
    predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy")
    with pytest.raises(ValueError, match="exists already; --overwrite replaces it"):
        predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy")
    predict_files(
        hu_model, tmp_path / "out", tmp_path / "x.npy", overwrite=True, num_samples=2
    )
    assert not (tmp_path / "out" / "x" / "sample_003.png").exists()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["summary.json", "x"]


def test_all_or_nothing(hu_model, tmp_path, monkeypatch):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", hounsfield_units((16, 16)))
    inputs = [tmp_path / "a.npy", tmp_path / "b.npy"]
    true_write = predict_lib._write

    def write(folder, prediction, model, output_format):
        if prediction.image.name == "b":
            raise OSError("No space left on device")
        true_write(folder, prediction, model, output_format)

    monkeypatch.setattr(predict_lib, "_write", write)
    with pytest.raises(OSError, match="No space left"):
        predict_files(hu_model, tmp_path / "out", *inputs)
    assert not (tmp_path / "out").exists()


def test_what_is_no_result_is_not_replaced(hu_model, tmp_path):
    np.save(tmp_path / "x.npy", hounsfield_units((16, 16)))
    (tmp_path / "out" / "x").mkdir(parents=True)
    (tmp_path / "out" / "x" / "scan.dcm").touch()
    with pytest.raises(ValueError, match="out/x: holds something other than results"):
        predict_files(hu_model, tmp_path / "out", tmp_path / "x.npy", overwrite=True)
    assert (tmp_path / "out" / "x" / "scan.dcm").exists()


def test_the_exchange_of_a_killed_prediction_is_completed(
    hu_model, tmp_path, monkeypatch
):
    """Killed after the first new result: the next command, which fails, goes on."""

    class Killed(BaseException):
        pass

    for name in "ab":
        np.save(tmp_path / f"{name}.npy", hounsfield_units((16, 16)))
    inputs, out = [tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out"
    predict_files(hu_model, tmp_path / "new", *inputs, seed=6)
    predict_files(hu_model, out, *inputs)
    rename = os.rename

    def rename_one_new(source, target):
        if source.parent.name == "new" and source.name == "b":
            raise Killed
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_one_new)
        with pytest.raises(Killed):
            predict_files(hu_model, out, *inputs, seed=6, overwrite=True)
    (out / ".predict.abcd_123" / "c").mkdir(parents=True)  # Killed before.
    with pytest.raises(ValueError, match="exists already"):
        predict_files(hu_model, out, *inputs)
    assert datasets.contents(out) == datasets.contents(tmp_path / "new")
    assert sorted(p.name for p in out.iterdir()) == ["a", "b", "summary.json"]


def test_dicom_without_highdicom(hu_model, tmp_path, monkeypatch):
    true_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "highdicom":
            raise ImportError(name)
        return true_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    path = dicom_writer.write_slice(
        tmp_path / "x.dcm", hounsfield_units((16, 16)), z_mm=0, uid="1.2"
    )
    result = predict_files(hu_model, tmp_path / "out", path)
    assert "tf_probunet[dicom-seg]" in result["notes"][0]
    assert sample_labels(tmp_path / "out" / "x").shape == (4, 16, 16)
    with pytest.raises(ValueError, match="need the package highdicom"):
        predict_files(hu_model, tmp_path / "other", path, output_format="dicom_seg")


def test_a_segmentation_object_needs_dicom(hu_model, tmp_path):
    pytest.importorskip("highdicom", reason="highdicom (an extra) is not installed")
    np.save(tmp_path / "x.npy", hounsfield_units((16, 16)))
    with pytest.raises(ValueError, match=r"x\.npy: not a DICOM file"):
        predict_files(
            hu_model, tmp_path / "out", tmp_path / "x.npy", output_format="dicom_seg"
        )


def test_the_command(hu_model, tmp_path):
    np.save(tmp_path / "x.npy", hounsfield_units((16, 16)))
    command = [sys.executable, "run/predict.py", f"--saved_model={hu_model.path}"]
    command += [f"--input={tmp_path / 'x.npy'}", f"--out_dir={tmp_path / 'out'}"]
    done = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("x: ")
    assert done.stdout.endswith(f"results: {tmp_path / 'out'}\n")
    assert PIL.Image.open(tmp_path / "out" / "x" / "summary.png").size[0] > 1000
