"""The comparison of all models: none is missing."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from helpers.goldens import GOLDENS

from tf_probunet.commands import compared

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_model_and_ablation_is_compared():
    candidates = compared.candidates()
    flags = {model.key: model.flags for model in candidates}
    assert candidates[0].key == "prob_unet"
    assert len(compared.chosen([])) == len(flags) == len(candidates)
    named = {f.split("=")[1] for fs in flags.values() for f in fs if "--model=" in f}
    ensembles = {m.key for m in candidates if m.is_ensemble}
    assert named | ensembles == {g.model for g in GOLDENS} - {"unet_ensemble"}
    ablations = {fs[1:] for fs in flags.values() if len(fs) > 1}
    assert {a for a in ablations if "num_heads" not in a[0]} == {
        ("--prior_components=4",),
        ("--beta=1.0",),
        ("--kl_warmup_steps=0",),
        ("--fixed_prior",),
        ("--fixed_prior", "--noposterior_sees_image"),
        ("--injection=start",),
    }
    heads = [fs[1] for fs in flags.values() if "--model=m_heads" in fs]
    assert heads == ["--num_heads=4", "--num_heads=8", "--num_heads=16"]


def test_some_models_can_be_chosen():
    keys = [model.key for model in compared.chosen(["unet", "m_heads_8"])]
    assert keys == ["prob_unet", "unet", "m_heads_8"]
    with pytest.raises(
        ValueError, match="models has 'vnet', expected some of prob_unet"
    ):
        compared.chosen(["vnet"])


@pytest.mark.slow
def test_the_command_makes_the_table_and_goes_on_where_it_was(tmp_path):
    settings = [
        "--base_channels=4",
        "--num_scales=2",
        "--convs_per_block=1",
        "--crop_size=16",
        "--eval_size=16",
        "--batch_size=2",
        "--validation_images=2",
    ]
    (tmp_path / "tiny.flags").write_text("\n".join(settings))
    words = [
        sys.executable,
        str(_ROOT / "run" / "compare_models.py"),
        f"--out_dir={tmp_path / 'out'}",
        f"--settings={tmp_path / 'tiny.flags'}",
        "--models=unet,m_heads_4",
        "--steps=2",
        "--num_members=2",
        "--member_steps=1",
        "--num_train=8",
        "--num_val=6",
        "--num_test=6",
        "--size=16",
        "--limit=4",
        "--many_samples=20",
    ]

    def run(*more: str) -> str:
        done = subprocess.run(
            [*words, *more], cwd=_ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run("--jobs=2")
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8").splitlines()
    titles = [line.split("|")[1].strip() for line in table[2:]]
    assert titles == [
        "Probabilistic U-Net",
        "U-Net Ensemble",
        "M-Heads, 4 heads",
        "(floor)",
    ]
    head, ours, ensemble = (
        [cell.strip() for cell in table[row].split("|")] for row in (0, 2, 3)
    )
    # Two members: one sample is there, four are not; and only ours has twenty.
    assert ensemble[2] != "-" and ensemble[3:7] == ["-", "-", "-", "-"]
    assert head[6] == "GED 20" and float(ours[6].strip("*")) <= 2.0
    assert head[8] == "p" and float(ensemble[8]) <= 1.0
    logs = {path.stem: path.read_text() for path in (tmp_path / "out/logs").iterdir()}
    assert "trained 2 steps" in logs["train_prob_unet"]
    for member in ("train_unet_00", "train_unet_01"):
        assert "trained 1 steps" in logs[member]
    assert "trained" not in first and "train_prob_unet: done in" in first
    # The phantom; training, export and score of three models; one more member; twenty
    # samples and stratified ones of the only model that has them.
    second = run()
    assert second.count("done before") == 1 + 3 * 3 + 1 + 2
    assert first.split("model  ")[-1] == second.split("model  ")[-1]


_STUBBED = """
import pathlib, sys
import numpy as np
from absl import flags
from helpers import results_writer
from tf_probunet.artifacts import results_dir
from tf_probunet.commands import compare_models, compared

out, started = pathlib.Path(sys.argv[1]), []

def results(pieces, model, words, many=None, counts=(1, 4, 8, 16)):
    if many is not None:
        return None
    level = {"prob_unet": 0.1}.get(model.model, 0.2) + model.first_seed / 1000
    means = {str(c): {"mean": level, "low": 0, "high": 1} for c in counts}
    arrays = {
        "keys": np.array([f"image-{i}" for i in range(12)]),
        "ged": level + np.random.default_rng(1).random((12, len(counts))),
    }
    path = out / f"{model.key}_{len(counts)}"
    summary = {"ged": means, "floor": means}
    results_writer.write(path, summary, arrays, counts=counts)
    return results_dir.read(path, model.title)

class Pieces(compare_models.Pieces):
    def run(self, name, *words):
        started.append((name, *map(str, words)))
        return 60.0

compare_models.Pieces = Pieces
compared.export = lambda pieces, model: None
compared.score = results
compared.score_chosen = lambda p, m, w: results(p, m, w, counts=(16,))
compared.seconds_per_step = lambda p, m, w: {"prob_unet": 2.0, "ssn": 1.0}[m.model]
compared.processor_seconds = lambda p, m, members: 90.0 + m.first_seed
compared.time_samples = lambda p, m, size: (0.01, 16)
compared.multiply_adds = lambda p, m, size: 10**9
flags.FLAGS(["x", f"--out_dir={out}", "--models=ssn", *sys.argv[2:]])
compare_models.main()
for words in started:
    print("STARTED", *words)
"""


def _stubbed(tmp_path, *flags: str) -> dict[str, list[str]]:
    """Runs the command without training anything, and returns the trainings' flags."""
    done = subprocess.run(
        [sys.executable, "-c", _STUBBED, str(tmp_path / "out"), *flags],
        cwd=_ROOT / "tests",
        env={**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        line.split()[1]: line.split()[2:]
        for line in done.stdout.splitlines()
        if line.startswith("STARTED train_")
    }


def test_models_get_the_same_computing_and_as_many_seeds(tmp_path):
    started = _stubbed(tmp_path, "--train_minutes=2", "--seeds=2")
    assert list(started) == [
        "train_prob_unet",
        "train_ssn",
        "train_prob_unet_seed1",
        "train_ssn_seed1",
    ]
    # Two minutes are 60 steps of two seconds, or 120 of one.
    for name, steps, warm_up, seed in (
        ("train_prob_unet_seed1", 60, 30, 100),
        ("train_ssn", 120, 60, 0),
    ):
        wanted = {f"--steps={steps}", f"--seed={seed}"}
        wanted |= {f"--{term}_warmup_steps={warm_up}" for term in ("kl", "energy")}
        assert wanted <= set(started[name])
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8").splitlines()
    head, ours = ([c.strip() for c in table[row].split("|")] for row in (0, 2))
    cells = dict(zip(head, ours))
    assert cells["seeds"].endswith("(2)") and cells["multiply-adds"] == "1.00 G"
    # The mean of 90 and 190 seconds.
    assert cells["training"] == "2.3 min"


def test_only_the_leading_models_are_trained_again(tmp_path):
    flags = ["--seeds=3", "--leading=1", "--objectives=own,both", "--steps=4"]
    flags += ["--common=--batch_size=3 --flip"]
    started = _stubbed(tmp_path, *flags)
    assert list(started) == [
        "train_prob_unet",
        "train_ssn",
        "train_ssn_both",
        # The stub's scores put it before the others.
        "train_prob_unet_seed1",
        "train_prob_unet_seed2",
    ]
    for word in ("--energy_weight=1000", "--batch_size=3", "--flip"):
        assert word in started["train_ssn_both"]
