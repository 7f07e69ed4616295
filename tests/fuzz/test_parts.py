"""Damaged part files of an interrupted preparation."""

from __future__ import annotations

import json

from helpers import datasets
from helpers.mutations import mutate, mutate_json

from tf_probunet.preparation import runner

MEMORY_GIB = 4  # TensorFlow's threads.
TRIES = 300


def _process(unit: runner.Unit) -> runner.UnitResult:
    result = runner.UnitResult(examples=[("train", datasets.example(unit.payload))])
    result.count("images")
    result.problems.append(runner.Problem("a reason", "a file"))
    return result


def test_damaged_parts_are_made_again(fuzz, tmp_path):
    unit = runner.Unit("a", 7)
    runner._process_unit(unit, _process, datasets.spec(), tmp_path)
    (path,), (data,) = tmp_path.glob("*.json"), tmp_path.glob("*.bin")
    seed = json.loads(path.read_text())
    whole = runner._finished_part(tmp_path, unit)
    assert whole == seed

    def valid(part) -> None:
        if part is not None:  # None: the unit is processed again.
            assert runner._reader(tmp_path, part, part["examples"][0])() == stored
            assert len(runner._problems(part)) == len(part["problems"])
            assert sum(part["counts"].values()) is not None

    stored = data.read_bytes()
    for rng in fuzz.rngs(TRIES):
        if rng.random() < 0.8:
            path.write_text(json.dumps(mutate_json(seed, rng)))
        else:
            path.write_bytes(mutate(json.dumps(seed).encode(), rng))
        fuzz.check(lambda: runner._finished_part(tmp_path, unit), valid, [path.name])
    assert 0 < fuzz.accepted < fuzz.tried
