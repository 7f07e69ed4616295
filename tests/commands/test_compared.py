"""The models that are compared: the commands that train, export and prepare them."""

from __future__ import annotations

import pathlib

import pytest

from tf_probunet.commands import compared

_MODEL = compared.Candidate(
    "m_heads_8", "M-Heads", ("--model=m_heads", "--num_heads=8")
)
_ENSEMBLE = compared.Candidate("unet", "Ensemble", ("--model=unet",), is_ensemble=True)


class _Recorded:
    """Stands in for `Pieces`: notes the commands, each of which takes a second."""

    path = pathlib.Path("out[1]")

    def __init__(self):
        self.commands = {}

    def run(self, name, *words):
        assert name not in self.commands
        self.commands[name] = words
        return 1.0

    def side_by_side(self, tasks):
        return [task() for task in tasks]


@pytest.fixture
def pieces():
    return _Recorded()


def test_phantoms_have_a_seed_that_no_recipe_was_tuned_on(pieces):
    counts = {"num_train": 20, "num_test": 5, "steps": 3}
    path = compared.phantom(pieces, counts)
    words = ("--num_train=20", "--num_test=5", "--seed=1")
    assert pieces.commands == {
        "prepare": ("prepare_phantom", f"--out_dir={path}", *words)
    }


def test_the_flags_of_a_model_win_over_those_of_all(pieces):
    assert compared.training(pieces, _MODEL, ["--flagfile=x", "--steps=3"])() == 1.0
    assert pieces.commands["train_m_heads_8"] == (
        "train",
        "--flagfile=x",
        "--steps=3",
        "--run_dir=out[1]/m_heads_8",
        "--seed=0",
        "--model=m_heads",
        "--num_heads=8",
    )


def test_members_differ_in_seed_and_their_times_are_added(pieces):
    seconds = compared.train(pieces, [_MODEL, _ENSEMBLE], ["--beta=1"], 5, [3, 4])
    assert seconds == {"m_heads_8": 1.0, "unet": 2.0}
    assert "--steps=5" in pieces.commands["train_m_heads_8"]
    member = pieces.commands["train_unet_01"]
    for word in ("--seed=1", "--steps=4", "--validate_every=4", "--beta=1"):
        assert word in member


def test_members_are_exported_together(pieces):
    compared.export(pieces, _ENSEMBLE)
    assert pieces.commands["export_unet"] == (
        "export",
        "--members=out[[]1]/unet_[0-9][0-9]",
        "--out_dir=out[1]/unet_saved_model",
        "--overwrite",
    )


def test_other_seeds_are_runs_of_their_own(pieces):
    first, second = _MODEL.with_seeds(2)
    assert first is _MODEL
    assert (second.key, second.model) == ("m_heads_8_seed1", "m_heads_8")
    compared.training(pieces, second, ["--steps=3"])()
    words = pieces.commands["train_m_heads_8_seed1"]
    assert "--seed=100" in words and "--run_dir=out[1]/m_heads_8_seed1" in words
    # The members of an ensemble never share a seed with those of another.
    other = _ENSEMBLE.with_seeds(3)[2]
    compared.training(pieces, other, [], 5)()
    assert "--seed=205" in pieces.commands["train_unet_seed2_05"]


def test_steps_are_what_fits_into_the_time():
    assert compared.budget(60.0, 0.5) == (120, 60)
    assert compared.budget(1.0, 5.0) == (1, 0)


def test_a_step_takes_its_processor_time_at_the_fastest_speed(pieces, monkeypatch):
    _log(monkeypatch, {10: 5.0, 20: 2.0, 30: 3.0})
    pieces.remember = lambda name, compute: compute()
    again = _MODEL.with_seeds(2)[1]
    assert compared.seconds_per_step(pieces, again, ["--flagfile=x"]) == 2.0
    # One measurement serves all seeds.
    words = pieces.commands["speed_m_heads_8"]
    assert words[:2] == ("train", "--flagfile=x") and "--num_heads=8" in words


def test_a_training_took_the_processor_time_of_all_its_steps(pieces, monkeypatch):
    from tf_probunet.config import Config, TrainingConfig
    from tf_probunet.training import run_dir

    config = Config(training=TrainingConfig(steps=35))
    monkeypatch.setattr(run_dir.RunDir, "config", lambda self: config)
    pieces.remember = lambda name, compute: compute()
    # The first part built the graph.
    _log(monkeypatch, {10: 9.0, 20: 2.0, 30: 3.0})
    assert compared.processor_seconds(pieces, _MODEL, 4) == 35 * 3.0
    assert compared.processor_seconds(pieces, _ENSEMBLE, 4) == 4 * 35 * 3.0
    _log(monkeypatch, {})
    assert compared.processor_seconds(pieces, _MODEL, 4) is None


def _log(monkeypatch, seconds):
    """Makes all runs have logged these seconds of processor time per step."""
    from tf_probunet.training import logs

    tag = "training/processor_seconds_per_step"
    monkeypatch.setattr(logs, "read_scalars", lambda path: {tag: seconds})


def test_objectives_are_rows_of_their_own():
    rows = compared.chosen(["unet", "ssn", "mixture"], ["both", "energy"])
    assert {row.key: row.flags[1:] for row in rows} == {
        "prob_unet": (),
        "ssn_both": ("--energy_weight=1000",),
        "ssn_energy": ("--energy_weight=1000", "--elbo_weight=0"),
        # Its own loss is no sum over pixels.
        "mixture_both": ("--beta=1.0", "--energy_weight=1"),
        "mixture_energy": ("--beta=1.0", "--energy_weight=1", "--elbo_weight=0"),
    }
    assert rows[1].title == "Stochastic Segmentation Network + energy distance"
    keys = [row.key for row in compared.chosen(["unet", "ssn_both", "m_heads_8"])]
    assert keys == ["prob_unet", "unet", "m_heads_8", "ssn_both"]
    with pytest.raises(ValueError, match="'elbo', expected some of own, both, energy"):
        compared.chosen([], ["elbo"])
