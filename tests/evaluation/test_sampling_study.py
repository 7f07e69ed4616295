"""The comparison of samplings: each number from its own definition."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from helpers.threshold_model import save_threshold_model

from tf_probunet.artifacts import saved_model
from tf_probunet.dataset import records
from tf_probunet.evaluation import sampling_study, sources
from tf_probunet.evaluation.metrics import ged
from tf_probunet.evaluation.metrics.representatives import representatives
from tf_probunet.evaluation.study_config import StudyConfig
from tf_probunet.figures import sampling as figure
from tf_probunet.predict import sampling

SETTINGS = {"num_samples": (2, 1), "hypotheses": (2,), "pool": 8, "seed": 3}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_threshold_model(tmp_path_factory.mktemp("study") / "m", eval_size=16)


def test_the_scores_of_one_image(path):
    model, config = saved_model.load(path), StudyConfig("data", "out", **SETTINGS)
    rng = np.random.default_rng(0)
    image = rng.random((16, 16, 1)).astype(np.float32)
    graders = (image[None, ..., 0] > np.array([0.4, 0.5, 0.9])[:, None, None]) * 1
    modes = (image[None, ..., 0] > np.array([0.45, 0.52])[:, None, None]) * 1
    found = sampling_study.score_image(model, "a", image, graders, config, modes)

    def draw(way, count):
        seed = sources.image_seed(3, "a")
        drawn = sampling.draw_set(
            model, image[None], count=count, seed=seed, sampling=way, about="a"
        )
        return drawn["labels"][0]

    pool = draw("stratified", 8)
    chosen = representatives(pool, 2)
    sets = {
        "independent": [(draw("independent", 2)[:n], None) for n in (1, 2)],
        "stratified": [(draw("stratified", n), None) for n in (1, 2)],
        "weighted": [(pool[chosen.indices], chosen.weights)],
    }
    for way, members in sets.items():
        for i, (maps, weights) in enumerate(members):
            towards = [
                ged.energy_distance(maps, others, sample_weights=weights)
                for others in (graders, pool)
            ]
            assert found[way][i] == pytest.approx(towards[0])
            assert found[f"{way}_apart"][i] == pytest.approx(towards[1], abs=1e-12)
            share = np.average(maps.any(axis=(1, 2)), weights=weights)
            error = share - pool.any(axis=(1, 2)).mean()
            assert found[f"{way}_presence"][i] == pytest.approx(error)
    for way, members in (("independent", [2]), ("stratified", [1, 2])):
        for i, n in enumerate(members):
            maps = draw(way, n)
            near = [ged.energy_distance(m[None], modes[:1]) for m in maps]
            far = [ged.energy_distance(m[None], modes[1:]) for m in maps]
            second = np.mean(np.array(far) < near)
            if way == "independent":
                expected = [1 - second, second]
                np.testing.assert_allclose(found["mode_shares"], expected)
            else:
                bias = second - found["mode_shares"][1]
                np.testing.assert_allclose(found["mode_bias"][i], [-bias, bias])
    assert found["explained"] == pytest.approx([chosen.explained])
    assert found["limit"] == pytest.approx(ged.energy_distance(pool, graders))
    assert found["diversity"] == pytest.approx(ged.sample_diversity(pool))
    expected = ged.grader_floor(graders, [1, 2, math.inf])
    np.testing.assert_allclose(found["floor"], expected)


def test_a_study_is_written_continued_and_drawn(path, phantom_dir, tmp_path):
    info = records.read_info(phantom_dir)
    config = StudyConfig(
        str(phantom_dir),
        str(tmp_path / "out"),
        saved_model=str(path),
        split="test",
        **SETTINGS,
    )
    results = sampling_study.run(config)
    assert results["data"]["images"] == info.count("test")
    assert json.loads((tmp_path / "out" / "sampling.json").read_text()) == results
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "sampling.json",
        "sampling.md",
    ]
    one = results["ways"]["stratified"]["2"]
    ratio = results["diversity"]["mean"] / one["apart"]["mean"]
    assert one["as_good_as"] == pytest.approx(ratio)
    text = sampling_study.markdown(results)
    assert f"| {one['ged']['mean']:.3f} [" in text
    assert f"Floor of chosen samples: {results['chosen_floor']['mean']:.3f}" in text
    assert len(results["mode_bias"]["2"]) == info.spec.num_modes
    assert sum(results["mode_shares"]) == pytest.approx(1)
    assert "| 2 stratified, difference in percentage points |" in text
    (axis,) = figure.draw(results).axes
    lines = {line.get_label(): line for line in axis.lines}
    np.testing.assert_allclose(
        lines["stratified samples"].get_ydata(),
        [results["ways"]["stratified"][n]["ged"]["mean"] for n in "12"],
    )
    ends = lines["floor of independent samples"].get_ydata()[[0, -1]]
    np.testing.assert_allclose(ends, [results["floor"][n]["mean"] for n in "12"])
    with pytest.raises(ValueError, match=r"sampling.json: exists already; --overwrite"):
        sampling_study.run(config)


def test_a_model_without_latents_is_refused(phantom_dir, tmp_path):
    plain = save_threshold_model(tmp_path / "m", with_latents=False)
    config = StudyConfig(str(phantom_dir), str(tmp_path / "out"), str(plain), "test")
    with pytest.raises(ValueError, match="'stratified', but .* has no latents"):
        sampling_study.run(config)


def test_more_hypotheses_than_samples_are_refused():
    with pytest.raises(ValueError, match="hypotheses is 9, expected at most 8, the p"):
        StudyConfig("data", "out", pool=8, hypotheses=(9, 2))
