"""Protocols: the table, and whole evaluations of the same samples by each of them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import datasets
from helpers.evaluations import SQUARE, run

from tf_probunet.artifacts import results_dir
from tf_probunet.evaluation import challenges, sample_files, summary, tables
from tf_probunet.evaluation.metrics import distances, ged
from tf_probunet.evaluation.protocols import DEFAULTS, PROTOCOLS, resolve

NOTHING = np.zeros_like(SQUARE)


def test_the_table_names_only_what_exists():
    titled = {metric.name for metric in summary.METRICS}
    assert set(challenges.SCORES) <= titled
    used = {name for protocol in PROTOCOLS.values() for name in protocol.scores}
    assert used == set(challenges.SCORES)
    for protocol in PROTOCOLS.values():
        assert protocol.statistic in (None, *ged.STATISTICS)
        assert protocol.both_empty in (None, *distances.BOTH_EMPTY)
        if protocol.matching_samples:
            assert protocol.matching_samples in protocol.num_samples


def test_resolve():
    nothing = dict.fromkeys(DEFAULTS)
    assert resolve(None, nothing)["num_samples"] == (1, 4, 8, 16)
    assert resolve("d_persona", nothing)["both_empty"] == "one"
    assert resolve("curvas", {**nothing, "statistic": "u"})["statistic"] == "u"
    with pytest.raises(ValueError, match="statistic is u, but the protocol mose has v"):
        resolve("mose", {**nothing, "statistic": "u"})


@pytest.fixture(name="evaluated", scope="module")
def fixture_evaluated(tmp_path_factory):
    """Results of each protocol: two of four graders mark a square; so do the samples.

    The first 16 of 100 samples mark it always, the others never.
    """
    path = tmp_path_factory.mktemp("protocols")
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=4)
    graders = np.stack([SQUARE, SQUARE, NOTHING, NOTHING])
    example = datasets.example(0, image=SQUARE[..., None], labels=graders)
    info = datasets.write(path / "data", {"test": [example]}, spec)
    samples = np.stack([SQUARE] * 16 + [NOTHING] * 84)
    sample_files.write(path / "samples", example.key, samples)
    return {
        name: run(
            path / name,
            info.data_dir,
            samples_dir=str(path / "samples"),
            protocol=name,
        )
        for name in PROTOCOLS
    }


def _mean(results, name):
    return results_dir.lookup(results, name)["mean"]


def test_the_empty_rule_is_the_protocols(evaluated):
    # With "zero", D2 is 1/2 if all samples mark the square. Among the graders, 8 of 16
    # pairs differ; with "one" the four pairs of empty masks count, too.
    for name in ("paper", "mose", "ccdm"):
        assert _mean(evaluated[name], "ged.16") == pytest.approx(1 / 2)
    assert _mean(evaluated["d_persona"], "ged.10") == pytest.approx(2 / 2 - 12 / 16)
    # 16 of 50: the share p of squares gives 2 (1 - p/2) - (1 - p^2) - 3/4.
    share = 16 / 50
    expected = 2 * (1 - share / 2) - (1 - share**2) - 3 / 4
    assert _mean(evaluated["d_persona"], "ged.50") == pytest.approx(expected)
    assert "floor" not in evaluated["d_persona"]


def test_the_matching_takes_the_protocols_samples(evaluated):
    # 16 squares for two squares and two empty masks: half of them match.
    for name in ("mose", "ccdm"):
        assert _mean(evaluated[name], "hungarian_iou") == pytest.approx(1 / 2)
        table = tables.text_table(evaluated[name])
        assert "Hungarian-matched IoU, 16 samples" in table
        assert "hungarian_iou,16,0.5" in tables.csv_table(evaluated[name])
    # Each of four graders finds a sample of its own among 50.
    assert _mean(evaluated["d_persona"], "dice_match") == 1
    assert _mean(evaluated["d_persona"], "dice_max") == 1


def test_challenges_score_the_mean_map(evaluated):
    # 16 of 16 samples mark the square and half of the graders, so the maps agree up to
    # 0.4 and at no higher threshold.
    assert _mean(evaluated["qubiq"], "qubiq_dice") == pytest.approx(4 / 9)
    assert _mean(evaluated["curvas"], "multirater_ece") == pytest.approx(
        (0 + 0 + 2 * SQUARE.mean()) / 4
    )
    left_out = evaluated["curvas"]["consensus_dice"]
    assert left_out["mean"] is None and left_out["left_out"] == 1


def test_the_output_says_the_protocol(evaluated):
    protocol = evaluated["d_persona"]["protocol"]
    assert (protocol["name"], protocol["statistic"]) == ("d_persona", "v")
    assert protocol["both_empty"] == "one" and protocol["num_samples"] == [10, 50]
    assert protocol["matching"].startswith("each grader with a sample of its own")
    for table in (
        tables.text_table(evaluated["d_persona"]),
        tables.markdown_table(evaluated["d_persona"]),
    ):
        assert "protocol d_persona: Wu et al. 2024 (D-Persona)" in table
        assert "V-statistic, both empty: one" in table
        assert "matching: each grader with a sample of its own" in table


def test_a_protocol_adds_only_its_own_scores(evaluated):
    for name, results in evaluated.items():
        assert set(challenges.SCORES) & set(results) == set(PROTOCOLS[name].scores)
