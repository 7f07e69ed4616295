"""Tests of the page in a real browser: it shows what Python computes."""

from __future__ import annotations

import base64
import dataclasses
import pathlib
import re
import subprocess

import numpy as np
import pytest
from helpers import browser, datasets

from tf_probunet.explorer import page, scene
from tf_probunet.explorer.explore import explore

# Pixels this close to one half may fall on either side by rounding.
_TOLERANCE = 2e-4
_RANGE = 4.5


@pytest.fixture(scope="module")
def path(model, phantom_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "explorer.html"
    settings = {"data_dir": phantom_dir, "num_samples": 4, "seed": 5}
    explore(model_path=model.path, out=out, **settings)
    return out


@pytest.fixture(scope="module")
def shown(model, phantom_dir):
    return scene.scene_of_record(
        model, data_dir=phantom_dir, split="test", key=None, num_samples=4, seed=5
    )


@pytest.fixture(scope="module")
def tab(path, tmp_path_factory):
    browser.executable()
    with browser.Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(path.as_uri())
        opened.wait_for("document.getElementById('explorer')?.dataset.ready")
        yield opened


def _settled(tab, action, size=(32, 32)):
    """Does something and returns the latent and labels that the page ends with."""
    action()  # The labels are gone from the first move until the point rests.
    tab.wait_for("document.getElementById('explorer').dataset.labels")
    data = tab.evaluate("({...document.getElementById('explorer').dataset})")
    labels = np.frombuffer(base64.b64decode(data["labels"]), np.uint8)
    latent = np.array(re.findall(r"[-+.\deE]+", data["latent"]), float)
    return latent, labels.reshape(size), int(data["foreground"])


def _check(model, shown, latent, labels):
    z = latent.astype(np.float32)[None, None]
    outputs = model.call("decode", shown.image[None], z, about="x")
    probability = outputs["probabilities"][0, 0, ..., 1]
    clear = np.abs(probability - 0.5) > _TOLERANCE
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(labels[clear], outputs["labels"][0, 0][clear])


def _open_latent(tab, z):
    return lambda: tab.evaluate(f"location.hash = '#z={','.join(map(str, z))}'")


def test_one_file_without_a_network(path):
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", text)
    assert "{{" not in text


def test_opens_on_a_sample_that_marks_something(model, shown, tab):
    """The first test with the tab: the page is as it was opened."""
    latent, labels, count = _settled(tab, lambda: None)
    start = shown.start
    np.testing.assert_allclose(latent, shown.samples[start], rtol=1e-5, atol=1e-5)
    _check(model, shown, latent, labels)
    assert count == labels.sum() > 0
    pressed = f"document.querySelectorAll('#samples button')[{start}].ariaPressed"
    assert tab.evaluate(pressed) == "true"


def test_what_lies_under_the_point_can_be_seen(tab):
    fills = tab.evaluate(
        "[...document.querySelectorAll('#point circle')]"
        ".map(c => getComputedStyle(c).fill)"
    )
    assert fills == ["none", "none"]


def test_samples_are_counted_as_in_the_files_of_a_prediction(tab):
    """`sample_000.png` is the first; graders are people and counted from 1."""
    tab.wait_for("document.getElementById('explorer').dataset.ready")
    for name, first in (("sample", 0), ("grader", 1)):
        labels = tab.evaluate(
            f"[...document.querySelectorAll('#{name}s button')].map(b => b.ariaLabel)"
        )
        for number, label in enumerate(labels):
            assert label.startswith(f"{name} {number + first}, ")
    titles = tab.evaluate(
        "[...document.querySelectorAll('.sample-dot title')].map(t => t.textContent)"
    )
    assert titles == [f"sample {i}" for i in range(4)]


def test_the_pages_name_is_ignored_by_git():
    root = pathlib.Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        pytest.skip(f"{root} is no git checkout")
    command = ["git", "check-ignore", "--quiet", "explorer.html"]
    assert subprocess.run(command, cwd=root, check=False).returncode == 0


def test_latents_in_the_address(model, shown, tab):
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(4):
        z = shown.prior_mean + shown.prior_stddev * rng.normal(size=4)
        latent, labels, count = _settled(tab, _open_latent(tab, z))
        np.testing.assert_allclose(latent, z, rtol=1e-6, atol=1e-6)
        _check(model, shown, latent, labels)
        assert count == labels.sum()
        seen.add(labels.tobytes())
    assert len(seen) > 1


def test_dragging_the_point(model, shown, tab):
    _settled(tab, lambda: tab.evaluate("document.getElementById('to-mean').click()"))
    before = tab.evaluate("document.getElementById('image').toDataURL()")
    box = tab.evaluate(
        "(({x, y, width, height}) => ({x, y, width, height}))"
        "(document.getElementById('plane').getBoundingClientRect())"
    )

    def place(across, up):
        return (
            box["x"] + box["width"] * (across + _RANGE) / (2 * _RANGE),
            box["y"] + box["height"] * (_RANGE - up) / (2 * _RANGE),
        )

    def drag():
        tab.mouse("mousePressed", *place(0, 0))
        for share in (0.3, 0.6, 1.0):
            tab.mouse("mouseMoved", *place(2.5 * share, -1.5 * share))
        tab.mouse("mouseReleased", *place(2.5, -1.5))

    latent, labels, _ = _settled(tab, drag)
    sigmas = (latent - shown.prior_mean) / shown.prior_stddev
    expected = np.zeros(4)
    expected[list(shown.axes)] = [2.5, -1.5]
    np.testing.assert_allclose(sigmas, expected, atol=0.02)  # About a screen pixel.
    _check(model, shown, latent, labels)
    assert tab.evaluate("document.getElementById('image').toDataURL()") != before
    # Once released, the point no longer follows.
    tab.mouse("mouseMoved", *place(-3, 3))
    still = tab.evaluate("document.getElementById('explorer').dataset.latent")
    assert np.allclose(np.array(re.findall(r"[-+.\deE]+", still), float), latent)


def test_arrow_keys(model, shown, tab):
    _settled(tab, lambda: tab.evaluate("document.getElementById('to-mean').click()"))
    tab.evaluate("document.getElementById('plane').focus()")

    def press():
        tab.key("ArrowRight")
        tab.key("ArrowRight")
        tab.key("ArrowUp", modifiers=8)

    latent, labels, _ = _settled(tab, press)
    sigmas = (latent - shown.prior_mean) / shown.prior_stddev
    np.testing.assert_allclose(sigmas[list(shown.axes)], [0.2, 0.5], atol=1e-6)
    _check(model, shown, latent, labels)
    latent, _, _ = _settled(tab, lambda: tab.key("Home"))
    np.testing.assert_allclose(latent, shown.prior_mean, atol=1e-6)


def test_sliders_and_other_axes(model, shown, tab):
    others = [dim for dim in range(4) if dim not in shown.axes]
    assert tab.evaluate("document.querySelectorAll('#sliders input').length") == 2

    def slide():
        tab.evaluate(
            "(() => {const s = document.querySelector('#sliders input');"
            "s.value = 1.5; s.dispatchEvent(new Event('input'))})()"
        )

    latent, labels, _ = _settled(tab, slide)
    sigmas = (latent - shown.prior_mean) / shown.prior_stddev
    assert sigmas[others[0]] == pytest.approx(1.5)
    _check(model, shown, latent, labels)
    tab.evaluate(
        f"(() => {{const s = document.getElementById('axis-x'); s.value = {others[0]};"
        "s.dispatchEvent(new Event('change'))})()"
    )
    axes = tab.evaluate("state.axes")
    assert axes == [others[0], shown.axes[1]]


def test_a_click_on_a_sample_or_grader_goes_there(model, shown, tab):
    for name, latents in (
        ("samples", shown.samples),
        ("hypotheses", shown.samples[[h.sample for h in shown.hypotheses.found]]),
        ("graders", shown.grader_latents),
    ):
        click = f"document.querySelectorAll('#{name} button')[1].click()"
        latent, labels, _ = _settled(tab, lambda click=click: tab.evaluate(click))
        np.testing.assert_allclose(latent, latents[1], rtol=1e-5, atol=1e-5)
        _check(model, shown, latent, labels)
        pressed = f"document.querySelectorAll('#{name} button')[1].ariaPressed"
        assert tab.evaluate(pressed) == "true"


def test_mean_and_entropy_are_those_of_the_samples(model, shown, tab):
    outputs = model.call("decode", shown.image[None], shown.samples[None], about="x")
    mean = outputs["probabilities"][0].mean(axis=0)  # [H, W, 2]
    entropy = -(mean * np.log(mean)).sum()
    data = tab.evaluate("({...document.getElementById('explorer').dataset})")
    assert float(data["meanForeground"]) == pytest.approx(mean[..., 1].sum(), rel=1e-3)
    assert float(data["entropySum"]) == pytest.approx(entropy, rel=1e-3)
    pictures = set()
    for base in ("image", "mean", "entropy"):
        tab.evaluate(f"document.querySelector('input[value={base}]').click()")
        pictures.add(tab.evaluate("document.getElementById('image').toDataURL()"))
    assert len(pictures) == 3


def test_the_page_asks_for_nothing_and_has_no_errors(tab, path):
    outside = [r for r in tab.requests if not r.startswith(("data:", path.as_uri()))]
    assert not [r for r in outside if r != "about:blank"]
    assert tab.errors == []


def test_everything_can_be_reached_and_has_a_name(tab):
    unnamed = tab.evaluate(
        "[...document.querySelectorAll('button, select, input, [tabindex]')].filter("
        "e => !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).length"
    )
    assert unnamed == 0


def test_a_street_scene_shows_its_modes(street_model, street_dir, tmp_path):
    browser.executable()
    path = tmp_path / "street.html"
    settings = {"data_dir": street_dir, "num_samples": 2, "seed": 5}
    shown = explore(model_path=street_model.path, out=path, **settings)
    with browser.Browser(tmp_path / "profile") as tab:
        tab.open(path.as_uri())
        tab.wait_for("document.getElementById('explorer')?.dataset.ready")
        title = tab.evaluate("document.getElementById('graders-title').textContent")
        captions = tab.evaluate(
            "[...document.querySelectorAll('#graders span')].map(s => s.textContent)"
        )
        numbers = tab.evaluate(
            "[...document.querySelectorAll('.grader-dot text')].map("
            "t => t.textContent).join()"
        )
        assert tab.errors == []
    assert title == "Modes of the ground truth, the most probable first"
    assert captions == shown.grader_names
    assert sorted(map(int, numbers.split(","))) == list(range(32))


def test_titles_cannot_end_the_script(shown):
    evil = dataclasses.replace(
        shown, title="</script><b>", class_names=["background", "</script>"]
    )
    text = page.render(evil)
    assert "&lt;/script&gt;&lt;b&gt;" in text
    assert text.count("</script>") == 2


def test_classes_are_outlined_and_measured(class_model, tmp_path):
    browser.executable()
    labels = np.zeros((2, 7, 11), np.uint8)
    labels[0, 1:5, 2:8], labels[0, 2:4, 3:6] = 1, 2
    image = (40 * labels[:1] + 60).transpose(1, 2, 0)
    info = datasets.write(
        tmp_path / "data",
        {"test": [datasets.example(0, image=image, labels=labels)]},
        datasets.spec(
            class_names=tuple(class_model.class_names),
            image_shape=(7, 11, 1),
            num_graders=2,
        ),
    )
    shown = scene.scene_of_record(
        class_model,
        data_dir=info.data_dir,
        split="test",
        key=None,
        num_samples=16,
        seed=5,
    )
    # A sample that marks something.
    frame = shown.image[None].astype(np.float32)
    decoded = class_model.call("decode", frame, shown.samples[None], about="test")
    chosen = next(i for i, maps in enumerate(decoded["labels"][0]) if maps.any())
    z, probabilities = shown.samples[chosen], decoded["probabilities"][0, chosen]
    assert abs(z[-1]) > 0.1  # It moves the outlines.
    # The network takes multiples of two.
    assert shown.image.shape == (8, 12, 1)
    assert "7x11 pixels is mirrored at its border" in shown.notes[0]
    path = tmp_path / "classes.html"
    path.write_text(page.render(shown))
    with browser.Browser(tmp_path / "profile") as tab:
        tab.open(path.as_uri())
        tab.wait_for("document.getElementById('explorer')?.dataset.ready")
        _, drawn, _ = _settled(tab, _open_latent(tab, z), (8, 12))
        status = tab.evaluate("document.getElementById('status').textContent")
        names = tab.evaluate(
            "[...document.querySelectorAll('#graders button')].map(b => b.ariaLabel)"
        )
        legend = tab.evaluate(
            "[...document.querySelectorAll('#legend li')].map(l => l.textContent)"
        )
        assert tab.errors == []
    best = np.sort(probabilities, axis=-1)
    clear = best[..., -1] - best[..., -2] > _TOLERANCE
    np.testing.assert_array_equal(drawn[clear], probabilities.argmax(axis=-1)[clear])
    for label, name in ((1, "disc"), (2, "cup")):
        number = int((drawn == label).sum())
        assert (f"{name}: {number} px" in status) == (number > 0)
    assert "disc" in status or "cup" in status
    # The first row of the mirrored image is not there twice: the border is below.
    assert names == ["grader 1, disc: 18 px, cup: 6 px", "grader 2, empty"]
    assert legend == ["disc", "cup"]
