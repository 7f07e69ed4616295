"""Comparing results: pairing, tests, what is best and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import results_writer
from scipy import stats

from tf_probunet.evaluation import compare, scoring, summary

KEYS = [f"key-{i:04d}" for i in range(16)]
GRADERS = np.zeros((16, 4, 4, 4), np.uint8)
GRADERS[:, :2, :2] = 1


def write(directory, samples, *, name="model", counts=(1, 2), sampling="independent"):
    """Writes results of samples [16, 2, 4, 4]."""
    rules = scoring.Rules(kind="binary", counts=counts, sampling=sampling)
    arrays = scoring.score(rules, samples[:, : counts[-1]], GRADERS, keys=KEYS)
    arrays.update(keys=np.array(KEYS), groups=np.array(KEYS))
    numbers = summary.summarise(arrays, rules, num_graders=4)
    marked = {} if sampling == "independent" else {"protocol__sampling": sampling}
    return results_writer.write(
        directory, numbers, arrays, counts=counts, model__name=name, **marked
    )


def draw(seed):
    return np.random.default_rng(seed).integers(0, 2, (16, 2, 4, 4), dtype=np.uint8)


@pytest.fixture
def pair(tmp_path):
    return [
        write(tmp_path / "one", GRADERS[:, 1:3], name="good"),
        write(tmp_path / "two", draw(0), name="random"),
    ]


def rows_of(rows, metric, count):
    return [r for r in rows if (r["metric"], r["num_samples"]) == (metric, count)]


def test_rows_against_scipy(pair):
    found = compare.read_all(pair)
    rows = compare.compare(found)
    good, other, floor = rows_of(rows, "energy distance", 2)
    assert (good["model"], other["model"], floor["model"]) == (
        "good",
        "random",
        "(floor)",
    )
    values = [result.per_image["ged"][:, 1] for result in found]
    expected = stats.wilcoxon(values[1] - values[0])
    assert other["p_value"] == pytest.approx(expected.pvalue)
    assert other["difference"] == pytest.approx(np.mean(values[1] - values[0]))
    assert other["effect_size"] == 1  # Larger on every image.
    assert other["pairs"] == 16
    assert other["mean"] == pytest.approx(values[1].mean())
    assert other["low"] < other["mean"] < other["high"]
    assert "p_value" not in good
    assert (good["best"], other["best"], floor["best"]) == (True, False, False)
    assert floor["mean"] == pytest.approx(
        found[0].summary["floor"]["2"]["mean"],
    )


def test_keys_pair_the_images(tmp_path, pair):
    rows = compare.compare(compare.read_all(pair))
    stored = dict(np.load(pair[1] / "per_image.npz"))
    order = np.random.default_rng(1).permutation(16)
    shuffled = {
        name: array if name == "counts" else array[order]
        for name, array in stored.items()
    }
    np.savez(pair[1] / "per_image.npz", **shuffled)
    again = compare.compare(compare.read_all(pair))
    for row, other in zip(rows, again):
        assert row.get("p_value") == pytest.approx(other.get("p_value"))
    shuffled["keys"][0] = "stranger"
    np.savez(pair[1] / "per_image.npz", **shuffled)
    with pytest.raises(ValueError, match="stranger is missing from the second"):
        compare.compare(compare.read_all(pair))


def test_best_is_high_or_low(pair):
    rows = compare.compare(compare.read_all(pair))
    best = {row["metric"]: row["model"] for row in rows if row["best"]}
    assert best["Hungarian-matched IoU"] == "good"
    assert best["Brier score"] == "good"
    assert "sample diversity" not in best
    diversity = rows_of(rows, "sample diversity", 2)
    assert len(diversity) == 2
    accuracy = rows_of(rows, "ECE of pixels", 2)
    assert (accuracy[0]["best"], accuracy[0]["low"]) == (True, None)
    assert "p_value" not in accuracy[1]


def test_reference(pair):
    found = compare.read_all(pair)
    rows = compare.compare(found, reference="random")
    good, other, _ = rows_of(rows, "energy distance", 1)
    assert "p_value" in good and "p_value" not in other
    assert good["difference"] < 0
    with pytest.raises(ValueError, match="reference is 'x', expected one of good, ran"):
        compare.compare(found, reference="x")


def test_only_common_numbers_of_samples(tmp_path, pair):
    fewer = write(tmp_path / "three", draw(1), name="fewer", counts=(1,))
    rows = compare.compare(compare.read_all([*pair, fewer]))
    models = [row["model"] for row in rows_of(rows, "energy distance", 1)]
    assert models == ["good", "random", "fewer", "(floor)"]
    models = [row["model"] for row in rows_of(rows, "Brier score", 2)]
    assert models == ["good", "random"]
    assert not rows_of(rows, "Brier score", 1)


def test_images_without_value_are_left_out_of_the_test(pair):
    stored = dict(np.load(pair[1] / "per_image.npz"))
    stored["ged"][3] = np.nan
    np.savez(pair[1] / "per_image.npz", **stored)
    rows = compare.compare(compare.read_all(pair))
    assert rows_of(rows, "energy distance", 2)[1]["pairs"] == 15


def test_tables(pair):
    rows = compare.compare(compare.read_all(pair, ["a", "b"]))
    lines = compare.text_table(rows).splitlines()
    assert lines[0].split()[:4] == ["metric", "samples", "model", "mean"]
    first = lines[2].split()
    assert first[:4] == ["energy", "distance", "1", "a"] and first[5] == "*"
    markdown = compare.markdown_table(rows).splitlines()
    assert markdown[2].startswith("| energy distance | 1 | a | **0.")
    assert markdown[3].startswith("|  |  | b | ") and "**" not in markdown[3]
    assert "| <0.001 | +1.00 |" in markdown[3]


def test_one_result_can_not_be_compared(pair):
    with pytest.raises(ValueError, match="got 1 results, expected at least two"):
        compare.read_all(pair[:1])


def test_other_samplings_are_marked_and_have_their_own_floor(tmp_path):
    found = compare.read_all(
        [
            write(tmp_path / "one", draw(0), name="model"),
            write(tmp_path / "two", draw(1), name="other", sampling="stratified"),
        ]
    )
    rows = rows_of(compare.compare(found), "energy distance", 2)
    assert [row["model"] for row in rows] == [
        "model",
        "other (stratified)",
        "(floor)",
        "(floor of chosen samples)",
    ]
    assert "p_value" in rows[1]
    # Two of four graders mark a square: distinct pairs differ by 2/3.
    assert [row["mean"] for row in rows[2:]] == pytest.approx([2 / 3 * 0.75, 2 / 3 / 4])
    (note,) = compare.notes(found)
    assert note.startswith("stratified samples are not the published protocol")
    assert compare.notes(found[:1]) == []


def test_a_model_that_draws_no_switched_class_does_not_win_by_its_modes(tmp_path):
    paths = [
        results_writer.write_street_results(tmp_path / "seeing"),
        results_writer.write_street_results(tmp_path / "blind", blind=True),
    ]
    found = compare.read_all(paths)
    rows = compare.compare(found)
    for metric in ("KL of mode frequencies", "modes never sampled"):
        seeing, blind = rows_of(rows, metric, 16)
        assert blind["mean"] == pytest.approx(0.0, abs=1e-12) and not blind["best"]
        assert seeing["mean"] >= blind["mean"] and seeing["best"]
    seeing, blind = rows_of(rows, "samples that fit several modes, share", 16)
    assert seeing["mean"] < 0.1 and blind["mean"] == pytest.approx(1.0)
    assert seeing["best"] and not blind["best"]
