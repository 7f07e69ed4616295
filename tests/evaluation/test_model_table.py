"""The table of all models, from results with known numbers."""

import numpy as np
import pytest
from helpers import results_writer
from scipy import stats

from tf_probunet.artifacts import results_dir
from tf_probunet.evaluation import model_table

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
        model_table.Entry(_results(tmp_path, "ours", good, counts), 100.4, 0.0213, 16),
        model_table.Entry(
            _results(tmp_path, "other", bad, counts, None), 50.0, 0.5, 16
        ),
        model_table.Entry(
            _results(tmp_path, "few", few, counts[:2], 0.5), 25.0, 0.004, 4
        ),
    ]


def test_cells_are_the_results_numbers(entries):
    head, ours, other, few, floor = model_table.table(entries, "ours")
    assert head[:6] == ["model", "GED 1", "GED 4", "GED 8", "GED 16", "p"]
    means = entries[0].results.per_image["ged"].mean(0)
    cells = [cell.split()[0].strip("*") for cell in ours[1:5]]
    assert list(map(float, cells)) == pytest.approx(means, abs=5e-4)
    assert ours[4].endswith("** [0.000, 1.000]") and "[" not in ours[3]
    # Better in every image, so bold where there is no third.
    assert ours[3].startswith("**") and ours[4].startswith("**")
    assert not other[3].startswith("**")
    assert head[6:9] == ["HM-IoU", "ambiguity (always: 60.0 %)", "ECE"]
    assert ours[5:9] == ["-", "0.500", "75.0 %", "0.062"]
    assert ours[9:12] == ["1.7 min", "21 ms", "1.23 M"]
    assert other[6:12] == ["-", "-", "-", "0.8 min", "500 ms", "1.23 M"]
    assert ours[12:] == ["-"] * 5
    assert few[3:5] == ["-", "-"]
    assert few[7] == "50.0 %" and few[10] == "4 ms (4)"
    assert floor[:5] == ["(floor)", "0.160", "0.040", "0.020", "0.010"]


def test_numbers_that_one_model_alone_has_are_shown(entries):
    rows = model_table.table([entries[0], entries[2]], "ours")
    means = entries[0].results.per_image["ged"].mean(0)
    found = [cell.split()[0] for cell in rows[1][3:5]]
    assert found == [f"**{mean:.3f}**" for mean in means[2:]]


def test_many_samples_are_a_column_of_their_own(entries, tmp_path):
    many = _results(tmp_path / "more", "ours", np.full([12, 1], 0.05), (100,))
    with_many = model_table.Entry(entries[0].results, 1.0, 1.0, 16, many)
    head, ours, other, floor = model_table.table([with_many, entries[1]], "ours")
    assert head[4:7] == ["GED 16", "GED 100", "p"]
    assert (ours[5], other[5], floor[5]) == ("**0.050**", "-", "0.002")


def test_p_values_are_of_the_most_samples_that_both_have(entries):
    rows = model_table.table(entries, "ours")
    ours, other, few = (entry.results.per_image["ged"] for entry in entries)
    expected = stats.wilcoxon(other[:, 3], ours[:, 3]).pvalue
    assert rows[2][5] == f"{expected:.1e}"
    expected = stats.wilcoxon(few[:, 1], ours[:, 1]).pvalue
    assert rows[3][5] == f"{expected:.1e}"


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
    entries.append(model_table.Entry(stranger, 1.0, 1.0, 16))
    with pytest.raises(ValueError, match="data.fingerprint is 'f0'.*'f1'"):
        model_table.table(entries, "ours")


def test_chosen_samples_modes_cost_and_seeds_have_columns(entries, tmp_path):
    first, counts = entries[0].results, (1, 4, 8, 16)
    first.summary["calibration"]["presence"] = {"ece": 0.125}
    first.summary["exact_modes"] = {"ged": {"16": {"mean": 0.0625}}}
    chosen = _results(tmp_path / "c", "ours", np.full([12, 1], 0.05), (16,))
    chosen.summary["protocol"]["sampling"] = "weighted"
    again = _results(tmp_path / "s", "ours", np.full([12, 4], 0.3), counts)
    entry = model_table.Entry(
        first, 1.0, 1.0, 16, None, chosen, 1_500_000_000, [first, again]
    )
    head, ours, *_ = model_table.table([entry, entries[1]], "ours")
    assert head[12:] == [
        "presence ECE",
        "chosen 16",
        "modes 16",
        "multiply-adds",
        "seeds",
    ]
    assert ours[12:16] == ["0.125", "0.050 (w)", "0.062", "1.50 G"]
    means = [first.per_image["ged"].mean(0)[3], 0.3]
    expected = f"{np.mean(means):.3f} ± {np.std(means, ddof=1):.3f} (2)"
    assert ours[16] == expected
