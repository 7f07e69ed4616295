"""The page of a lesion in a real browser: all slices follow the same point."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
from helpers import browser, dicom_writer
from helpers.predictions import hounsfield_units

from tf_probunet.explorer import scene
from tf_probunet.explorer.explore import explore
from tf_probunet.imaging.crop_config import CropConfig
from tf_probunet.metrics import representatives
from tf_probunet.predict import lesion
from tf_probunet.predict.config import LesionConfig

_TOLERANCE = 2e-4
_CROP = CropConfig(center="2,20,21")
_RULES = LesionConfig(reach_mm=4.0)


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    dicom_writer.write_series(folder, hounsfield_units((7, 40, 40)))
    return folder


@pytest.fixture(scope="module")
def path(model, series, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "explorer.html"
    explore(
        model_path=model.path,
        out=out,
        input_path=str(series),
        crop=_CROP,
        rules=_RULES,
        num_samples=4,
        seed=5,
    )
    return out


@pytest.fixture(scope="module")
def shown(model, series):
    return scene.scene_of_lesion(
        model, path=str(series), crop=_CROP, rules=_RULES, num_samples=4, seed=5
    )


@pytest.fixture(scope="module")
def tab(path, tmp_path_factory):
    browser.executable()
    with browser.Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(path.as_uri())
        opened.wait_for("document.getElementById('explorer')?.dataset.ready")
        yield opened


def test_slices_have_the_smoothed_priors_and_share_the_noise(model, shown):
    assert [view.number for view in shown.slices] == [0, 1, 2, 3, 4]
    assert shown.slice == 2 and shown.step_mm == pytest.approx(2)
    assert shown.pixel_mm2 == pytest.approx(0.25)
    stack = np.stack([view.image for view in shown.slices])
    prior = lesion.priors(model, stack, 1.0)
    np.testing.assert_allclose([v.prior_mean for v in shown.slices], prior["mean"])
    noise = lesion.shared_noise(model, prior, 4, 5)
    np.testing.assert_allclose(
        (shown.samples - shown.prior_mean) / shown.prior_stddev, noise, atol=1e-4
    )


def _labels(model, view, u):
    """Returns the labels of a slice, and which of them are beyond doubt."""
    z = (view.prior_mean + view.prior_stddev * u).astype(np.float32)
    found = model.call("decode", view.image[None], z[None, None], about="x")
    clear = np.abs(found["probabilities"][0, 0, ..., 1] - 0.5) > _TOLERANCE
    return found["labels"][0, 0], clear


def test_hypotheses_are_of_whole_lesions(model, series):
    shown = scene.scene_of_lesion(
        model, path=str(series), crop=_CROP, rules=_RULES, num_samples=24, seed=5
    )
    noise = (shown.samples - shown.prior_mean) / shown.prior_stddev
    volumes = [[_labels(model, view, u)[0] for view in shown.slices] for u in noise]
    flat = np.reshape(volumes, (len(noise), -1, 32))
    chosen = representatives(flat, 4)
    found = [(h.sample, h.probability) for h in shown.hypotheses.found]
    assert found == list(zip(chosen.indices, chosen.weights))
    empty = [not flat[i].any() for i in chosen.indices]
    assert [h.is_empty for h in shown.hypotheses.found] == empty


def _settled(tab):
    tab.wait_for("document.getElementById('explorer').dataset.labels")
    data = tab.evaluate("({...document.getElementById('explorer').dataset})")
    labels = np.frombuffer(base64.b64decode(data["labels"]), np.uint8)
    latent = np.array(re.findall(r"[-+.\deE]+", data["latent"]), float)
    return latent, labels.reshape(32, 32), data


def _slide(tab, place):
    tab.evaluate(
        f"(e => {{ e.value = {place}; e.dispatchEvent(new Event('input')); }})"
        "(document.getElementById('slice'))"
    )
    return _settled(tab)


def test_all_slices_follow_the_point(model, shown, tab):
    u = np.array([0.7, -0.4, 1.1, 0.2])
    z = shown.prior_mean + shown.prior_stddev * u
    tab.evaluate(f"location.hash = '#z={','.join(map(str, z))}&slice=2'")
    tab.wait_for(
        f"Math.abs(JSON.parse(document.getElementById('explorer').dataset.latent"
        f" || '[9]')[0] - {z[0]}) < 1e-4"
    )
    total = doubtful = 0
    for place, view in enumerate(shown.slices):
        latent, labels, data = _slide(tab, place)
        assert data["slice"] == str(view.number)
        own = view.prior_mean + view.prior_stddev * u
        np.testing.assert_allclose(latent, own, rtol=1e-4, atol=1e-4)
        expected, clear = _labels(model, view, u)
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(labels[clear], expected[clear])
        total += int(expected.sum())
        doubtful += int((~clear).sum())
        voxels = int(data["voxels"])
    assert abs(voxels - total) <= doubtful
    text = tab.evaluate("document.getElementById('volume').textContent")
    size = float(re.search(r"([\d.]+) mm³", text)[1])
    assert size == pytest.approx(voxels * 0.25 * 2, abs=0.51)
    assert not tab.errors


def test_samples_are_drawn_anew_on_each_slice(model, shown, tab):
    tab.wait_for("document.getElementById('explorer').dataset.ready")
    _slide(tab, 0)
    tab.wait_for("document.getElementById('explorer').dataset.ready")
    captions = tab.evaluate(
        "[...document.querySelectorAll('#samples button')].map(b => b.ariaLabel)"
    )
    noise = (shown.samples - shown.prior_mean) / shown.prior_stddev
    for caption, u in zip(captions, noise):
        labels, clear = _labels(model, shown.slices[0], u)
        found = re.search(r"([\d.]+) mm²", caption)
        area = 0.0 if found is None else float(found[1])
        slack = 0.25 * int((~clear).sum()) + 0.6
        assert abs(area - 0.25 * int(labels.sum())) <= slack


def test_pages_of_single_images_have_no_slider(model, phantom_dir, tmp_path):
    out = tmp_path / "page.html"
    explore(model_path=model.path, out=out, data_dir=phantom_dir, num_samples=2)
    assert '"stepMm": null' in out.read_text(encoding="utf-8")
    with browser.Browser(tmp_path / "profile") as tab:
        tab.open(out.as_uri())
        tab.wait_for("document.getElementById('explorer')?.dataset.ready")
        hidden = tab.evaluate("document.getElementById('slice-row').offsetParent")
        assert hidden is None
