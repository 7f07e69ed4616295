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
