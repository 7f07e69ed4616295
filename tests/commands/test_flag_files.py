"""The flag files in the root: valid configurations, with the numbers of the paper."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

from tf_probunet import models
from tf_probunet.config import Config

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FLAG_FILES = sorted(_ROOT.glob("*.flags"))
# Reads flag files with the flags of run/train.py, one after another.
_READER = """
import json, sys
sys.argv[0] = "run/train.py"
from tf_probunet.commands import cli, train, train_flags
configs = []
for arguments in json.loads(sys.argv[1]):
    cli.FLAGS.unparse_flags()
    for name in cli.FLAGS:
        cli.FLAGS[name].unparse()
    cli.FLAGS([sys.argv[0], *arguments])
    configs.append({
        "config": train_flags.config().to_json(),
        "data_dir": cli.FLAGS.data_dir,
        "run_dir": cli.FLAGS.run_dir,
    })
print(json.dumps(configs))
"""


def _read(*lines: list[str]) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-c", _READER, json.dumps(lines)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def read() -> dict[str, dict]:
    """What each flag file says, by name."""
    found = _read(*[[f"--flagfile={path.name}"] for path in _FLAG_FILES])
    return {path.stem: values for path, values in zip(_FLAG_FILES, found)}


def test_the_experiments_are_there(read):
    assert {"lidc", "cityscapes", "cityscapes_cpu", "phantom"} <= set(read)


def test_each_is_a_valid_configuration_with_directories(read):
    run_dirs = set()
    for name, values in read.items():
        Config.from_json(values["config"], name)
        assert values["data_dir"].startswith("runs/")
        run_dirs.add(values["run_dir"])
    assert len(run_dirs) == len(read)


def test_the_flags_read_what_the_documents_prepare(read):
    commands = _ROOT / "tf_probunet" / "commands"
    texts = [_ROOT / "docs" / "cityscapes.md", commands / "prepare_cityscapes.py"]
    for path in texts:
        command = r"prepare_cityscapes.py --cityscapes_dir=cityscapes --out_dir=(\S+)"
        (written,) = re.findall(command, path.read_text(encoding="utf-8"))
        for name in ("cityscapes", "cityscapes_cpu"):
            assert written == read[name]["data_dir"], path


def test_lidc_is_the_papers(read):
    config = Config.from_json(read["lidc"]["config"], "lidc")
    model, training = config.model, config.training
    assert (model.base_channels, model.num_scales, model.convs_per_block) == (32, 5, 3)
    assert model.initializer == "orthogonal"
    assert model.name == "prob_unet"
    assert (config.data.task, config.data.crop_size, config.data.eval_size) == (
        "plain",
        128,
        128,
    )
    assert (training.steps, training.batch_size) == (240_000, 32)
    assert (training.learning_rate, training.final_learning_rate) == (1e-4, 1e-6)
    assert (training.learning_rate_steps, training.weight_decay) == (5, 1e-5)
    assert (training.graders_per_image, training.ema_decay) == (1, 0)
    augmentation = config.augmentation
    assert augmentation.rotation_degrees > 0 and augmentation.shear_degrees > 0
    assert augmentation.scale > 0 and augmentation.elastic_std_px > 0
    with_defaults = models.with_defaults(model)
    assert (with_defaults.latent_dim, with_defaults.beta) == (6, 1.0)


def test_cityscapes_is_the_papers(read):
    config = Config.from_json(read["cityscapes"]["config"], "cityscapes")
    model, training = config.model, config.training
    assert (model.base_channels, model.num_scales, model.convs_per_block) == (32, 6, 3)
    assert model.initializer == "orthogonal"
    assert config.data.task == "switched"
    assert config.data.crop_size == config.data.eval_size == 0
    assert (training.steps, training.batch_size) == (240_000, 16)
    assert (training.learning_rate, training.final_learning_rate) == (1e-4, 1e-5)
    assert (training.learning_rate_steps, training.weight_decay) == (3, 1e-5)
    assert (training.graders_per_image, training.ema_decay) == (1, 0)
    augmentation = config.augmentation
    moves = "rotation_degrees shear_degrees scale elastic_std_px translation_px"
    for name in (*moves.split(), "brightness", "contrast", "saturation", "gamma"):
        assert getattr(augmentation, name) > 0, name
    with_defaults = models.with_defaults(model)
    assert (with_defaults.latent_dim, with_defaults.beta) == (6, 1.0)


def test_the_small_cityscapes_trains_on_what_is_scored(read):
    full, small = (
        Config.from_json(read[name]["config"], name)
        for name in ("cityscapes", "cityscapes_cpu")
    )
    assert small.data.task == full.data.task == "switched"
    assert small.data.eval_size == full.data.eval_size == 0  # The whole frame.
    assert not small.model.elbo_weight
    for name in ("energy_weight", "mode_weight", "segmentation_weight"):
        assert getattr(small.model, name) > 0 == getattr(full.model, name), name
    assert small.model.fixed_prior and not full.model.fixed_prior
    assert small.training.final_learning_rate == full.training.final_learning_rate


def test_every_model_and_ablation_is_a_flag_away():
    lidc, city = "--flagfile=lidc.flags", "--flagfile=cityscapes.flags"
    lines = [
        [lidc, "--model=image2image_vae"],
        [city, "--model=image2image_vae", "--beta=1"],
        [lidc, "--model=m_heads", "--num_heads=8"],
        [lidc, "--model=dropout_unet"],
        [lidc, "--model=unet", "--seed=3"],
        [lidc, "--fixed_prior", "--noposterior_sees_image"],
        [lidc, "--injection=start"],
    ]
    configs = [Config.from_json(v["config"], "flags") for v in _read(*lines)]
    network = [models.with_defaults(config.model) for config in configs]
    assert (network[0].latent_dim, network[0].beta) == (3, 10.0)
    assert (network[1].latent_dim, network[1].beta) == (3, 1.0)
    assert (network[2].num_heads, network[2].head_epsilon) == (8, 0.05)
    assert network[3].dropout_rate == 0.5
    assert (network[4].name, configs[4].training.seed) == ("unet", 3)
    assert network[5].fixed_prior and not network[5].posterior_sees_image
    assert network[6].injection == "start" and not network[6].fixed_prior
