"""The same samples by every protocol, next to each other."""

from __future__ import annotations

import pytest
from helpers import datasets, saved_models
from helpers.evaluations import DOUBTFUL, SURE, alternate, lesion

from tf_probunet.evaluation import protocol_table, sources
from tf_probunet.evaluation.protocols import PROTOCOLS


def test_every_protocol_scores_the_same_samples(tmp_path):
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=2)
    examples = [lesion(0, SURE), lesion(1, DOUBTFUL)]
    info = datasets.write(tmp_path / "data", {"val": examples}, spec)
    model = saved_models.save(tmp_path / "model", alternate, info)
    results = protocol_table.score_all(model, info.data_dir, tmp_path / "out")
    assert list(results) == list(PROTOCOLS)
    head, *rows = protocol_table.table(results)
    cells = {row[0]: dict(zip(head[1:], row[1:])) for row in rows}
    # Every other sample marks the doubtful lesion, as every other grader does.
    for name, value in cells["GED\u00b2 of 16 samples"].items():
        expected = "0.000" if name in ("paper", "mose", "ccdm") else ""
        assert value == expected, name
    assert cells["HM-IoU of 16 samples"]["ccdm"] == "1.000"
    assert cells["HM-IoU of 16 samples"]["paper"] == ""
    assert cells["GED\u00b2 of 50 samples"]["d_persona"] == "0.000"
    # Thresholds below the shared share of 1/2 see the lesion in both maps.
    assert cells["QUBIQ Dice of mean maps"]["qubiq"] == "1.000"
    assert cells["CURVAS consensus Dice"]["curvas"] == "1.000"
    titles = list(cells)
    order = [int(title.split()[2]) for title in titles if title.startswith("GED")]
    assert order == sorted(order)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        PROTOCOLS
    )
    assert not list((tmp_path / "out").glob(".parts"))
    with pytest.raises(ValueError, match="exists already"):
        protocol_table.score_all(model, info.data_dir, tmp_path / "out")


def test_goes_on_after_an_interruption(tmp_path, monkeypatch):
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=2)
    info = datasets.write(tmp_path / "data", {"val": [lesion(0, DOUBTFUL)]}, spec)
    model = saved_models.save(tmp_path / "model", alternate, info)
    expected = protocol_table.score_all(model, info.data_dir, tmp_path / "whole")
    evaluate, done = protocol_table.evaluate.evaluate, []

    def stop_at_the_third(config):
        done.append(config.protocol)
        if len(done) == 3:
            raise KeyboardInterrupt
        return evaluate(config)

    monkeypatch.setattr(protocol_table.evaluate, "evaluate", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        protocol_table.score_all(model, info.data_dir, tmp_path / "out")
    # The samples are there: none are drawn again.
    monkeypatch.setattr(sources.SavedModel, "draw", None)
    found = protocol_table.score_all(model, info.data_dir, tmp_path / "out")
    assert {n: r["ged"] for n, r in found.items()} == {
        n: r["ged"] for n, r in expected.items()
    }
