"""The table of all models, from results with known numbers."""

import numpy as np
import pytest
from helpers import results_writer
from scipy import stats

from tf_probunet.artifacts import results_dir
from tf_probunet.evaluation import model_table, summary
from tf_probunet.evaluation.metrics import statistics

KEYS = [f"image-{i:02d}" for i in range(12)]
RNG = np.random.default_rng(0)


def _results(folder, name, ged, counts, accuracy=0.75, fingerprint="f0"):
    ged = np.asarray(ged, float)
    means = {
        str(c): {"mean": float(m), "low": 0.0, "high": 1.0}
        for c, m in zip(counts, ged.mean(0))
    }
    summary = {
        "ged": means,
        "floor": {str(c): {"mean": 0.16 / c, "low": 0, "high": 1} for c in counts},
    }
    if accuracy is not None:
        summary["ambiguity"] = {"accuracy": accuracy, "always_ambiguous": 0.6}
        summary["hungarian_iou"] = {"mean": 0.5, "low": 0.4, "high": 0.6}
        summary["calibration"] = {"marked_pixels": {"ece": 0.0625}}
    path = results_writer.write(
        folder / name,
        summary,
        {"keys": np.array(KEYS), "ged": ged},
        counts=counts,
        data__fingerprint=fingerprint,
    )
    return results_dir.read(path, name)


@pytest.fixture
def entries(tmp_path):
    """Three models; the last has four samples only."""
    good = RNG.uniform(0.1, 0.3, [12, 4])
    bad = good + RNG.uniform(0.01, 0.3, [12, 4])
    few = good[:, :2] + RNG.normal(0.1, 0.2, [12, 2])
    counts = (1, 4, 8, 16)
    return [
        model_table.Entry(
            [_results(tmp_path, "ours", good, counts)], 100.4, 0.0213, 16
        ),
        model_table.Entry(
            [_results(tmp_path, "other", bad, counts, None)], 50.0, 0.5, 16
        ),
        model_table.Entry(
            [_results(tmp_path, "few", few, counts[:2], 0.5)], 25.0, 0.004, 4
        ),
    ]


def test_cells_are_the_results_numbers(entries):
    head, ours, other, few, floor = model_table.table(entries, "ours")
    assert head[:5] == ["model", "GED 1", "GED 4", "GED 8", "GED 16"]
    means = entries[0].results[0].per_image["ged"].mean(0)
    cells = [cell.split()[0].strip("*") for cell in ours[1:5]]
    assert list(map(float, cells)) == pytest.approx(means, abs=5e-4)
    assert ours[4].endswith("** [0.000, 1.000]") and "[" not in ours[3]
    # Better in every image, so bold where there is no third.
    assert ours[3].startswith("**") and ours[4].startswith("**")
    assert not other[3].startswith("**")
    assert head[5:7] == ["difference", "p"]
    assert head[7:10] == ["HM-IoU", "ambiguity (always: 60.0 %)", "ECE"]
    assert ours[5:10] == ["-", "-", "0.500", "75.0 %", "0.062"]
    assert ours[10:13] == ["1.7 min", "21 ms", "1.23 M"]
    assert other[7:13] == ["-", "-", "-", "0.8 min", "500 ms", "1.23 M"]
    assert ours[13:] == ["-"] * 5
    assert few[3:5] == ["-", "-"]
    assert few[8] == "50.0 %" and few[11] == "4 ms (4)"
    assert floor[:5] == ["(floor)", "0.160", "0.040", "0.020", "0.010"]


def test_numbers_that_one_model_alone_has_are_shown(entries):
    rows = model_table.table([entries[0], entries[2]], "ours")
    means = entries[0].results[0].per_image["ged"].mean(0)
    found = [cell.split()[0] for cell in rows[1][3:5]]
    assert found == [f"**{mean:.3f}**" for mean in means[2:]]


def test_many_samples_are_a_column_of_their_own(entries, tmp_path):
    many = _results(tmp_path / "more", "ours", np.full([12, 1], 0.05), (100,))
    with_many = model_table.Entry(entries[0].results, 1.0, 1.0, 16, [many])
    head, ours, other, floor = model_table.table([with_many, entries[1]], "ours")
    assert head[4:7] == ["GED 16", "GED 100", "difference"]
    assert (ours[5], other[5], floor[5]) == ("**0.050**", "-", "0.002")


def test_p_values_are_of_the_most_samples_that_both_have(entries):
    rows = model_table.table(entries, "ours")
    ours, other, few = (entry.results[0].per_image["ged"] for entry in entries)
    expected = stats.wilcoxon(other[:, 3], ours[:, 3]).pvalue
    assert rows[2][6] == f"{expected:.1e}"
    expected = stats.wilcoxon(few[:, 1], ours[:, 1]).pvalue
    assert rows[3][6] == f"{expected:.1e}"
    assert float(rows[3][5].split()[0]) == pytest.approx(
        (few - ours[:, :2])[:, 1].mean(), abs=5e-4
    )


def test_text_marks_the_best_with_a_star(entries):
    rows = model_table.table(entries, "ours")
    text, markdown = model_table.to_text(rows), model_table.to_markdown(rows)
    assert "**" not in text and " *" in text
    assert markdown.count("**") == 2 * 4
    assert markdown.splitlines()[0].startswith("| model | GED 1 |")


def test_other_data_is_refused(entries, tmp_path):
    stranger = _results(
        tmp_path, "x", np.zeros([12, 4]), (1, 4, 8, 16), fingerprint="f1"
    )
    entries.append(model_table.Entry([stranger], 1.0, 1.0, 16))
    with pytest.raises(ValueError, match="data.fingerprint is 'f0'.*'f1'"):
        model_table.table(entries, "ours")


def test_chosen_samples_modes_and_cost_have_columns(entries, tmp_path):
    (first,) = entries[0].results
    first.summary["calibration"]["presence"] = {"ece": 0.125}
    first.summary["exact_modes"] = {"ged": {"16": {"mean": 0.0625}}}
    chosen = _results(tmp_path / "c", "ours", np.full([12, 1], 0.05), (16,))
    chosen.summary["protocol"]["sampling"] = "weighted"
    entry = model_table.Entry([first], 1.0, 1.0, 16, (), [chosen], 1_500_000_000)
    head, ours, *_ = model_table.table([entry, entries[1]], "ours")
    assert head[13:] == [
        "presence ECE",
        "chosen 16",
        "modes 16",
        "multiply-adds",
        "seeds",
    ]
    assert ours[13:] == ["0.125", "0.050 (w)", "0.062", "1.50 G", "-"]


def test_all_seeds_count(entries, tmp_path):
    """Each image is averaged over the trainings before anything is tested."""
    reference, counts = entries[0], (1, 4, 8, 16)
    theirs = reference.results[0].per_image["ged"]
    apart = np.linspace(-0.1, 0.2, 12)[:, None]
    both = [
        _results(tmp_path / str(i), "two", theirs + sign + apart, counts, accuracy)
        for i, (sign, accuracy) in enumerate([(0.05, 0.5), (-0.05, 0.75)])
    ]
    groups = np.array([f"patient-{max(i, 1)}" for i in range(12)])
    for found in both:
        found.per_image["groups"] = groups
    many = [
        _results(tmp_path / f"m{i}", "two", np.full([12, 1], value), (100,))
        for i, value in enumerate([0.02, 0.04])
    ]
    entry = model_table.Entry(both, 1.0, 1.0, 16, many, many)
    head, _, row, _ = model_table.table([reference, entry], "ours")
    cells = dict(zip(head, row))
    assert float(cells["GED 16"].split()[0].strip("*")) == pytest.approx(
        (theirs + apart)[:, 3].mean(), abs=5e-4
    )
    assert cells["GED 100"] == "**0.030**" and cells["chosen 16"] == "0.030 (i)"
    assert cells["p"] == f"{stats.wilcoxon(apart[:, 0]).pvalue:.1e}"
    seed = summary.BOOTSTRAP_SEED
    bounds = statistics.group_bootstrap(apart[:, 0], groups, seed=seed)
    assert cells["difference"] == f"+0.050 [{bounds.low:+.3f}, {bounds.high:+.3f}]"
    assert cells["ambiguity (always: 60.0 %)"] == "62.5 %"
    assert cells["seeds"] == f"± {np.std([0.05, -0.05], ddof=1):.3f} (2)"
