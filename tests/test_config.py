"""Tests of tf_probunet.config."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys

import pytest

from tf_probunet import files
from tf_probunet.config import (
    AugmentationConfig,
    Config,
    DataConfig,
    ModelConfig,
    PhantomConfig,
    TrainingConfig,
    field_types,
    read_config,
)

_OTHER = Config(
    model=ModelConfig(name="m_heads", beta=0.5, latent_dim=3, ignore_label=255),
    data=DataConfig(task="switched", crop_size=64, eval_size=0, window_low=-600),
    augmentation=AugmentationConfig(flip=True, gamma=0.3),
    training=TrainingConfig(seed=-(2**63), learning_rate=0.1 + 0.2),
)


@pytest.mark.parametrize("config", [Config(), _OTHER])
def test_json_round_trip(tmp_path, config):
    files.write_json(tmp_path / "config.json", config.to_json())
    assert read_config(tmp_path / "config.json") == config


def test_defaults_are_the_papers():
    model, training = ModelConfig(), TrainingConfig()
    assert (model.base_channels, model.num_scales, model.convs_per_block) == (32, 5, 3)
    assert model.initializer == "orthogonal"
    assert (training.steps, training.batch_size) == (240_000, 32)
    assert (training.learning_rate, training.final_learning_rate) == (1e-4, 1e-6)
    assert (training.learning_rate_steps, training.weight_decay) == (5, 1e-5)


def test_whole_numbers_become_floats_where_floats_are_meant():
    config = DataConfig(window_low=-600, window_high=200)
    assert isinstance(config.window_low, float)
    assert config == DataConfig(window_low=-600.0, window_high=200.0)


@pytest.mark.parametrize(
    "section, values, message",
    [
        (ModelConfig, {"name": "vnet"}, "model is 'vnet', expected one of prob_unet, "),
        (ModelConfig, {"num_classes": 1}, "num_classes is 1, expected at least 2"),
        (ModelConfig, {"num_scales": 0}, "num_scales is 0, expected at least 1"),
        (ModelConfig, {"base_channels": 8.0}, "base_channels is 8.0, expected int"),
        (ModelConfig, {"base_channels": "8"}, "base_channels is '8', expected int"),
        (ModelConfig, {"base_channels": None}, "base_channels is None, expected int"),
        (ModelConfig, {"latent_dim": 0}, "latent_dim is 0, expected at least 1"),
        (ModelConfig, {"beta": -1.0}, "beta is -1.0, expected at least 0"),
        (ModelConfig, {"beta": float("nan")}, "beta is nan, expected a finite number"),
        (ModelConfig, {"fixed_prior": 1}, "fixed_prior is 1, expected bool"),
        (ModelConfig, {"dropout_rate": 1}, "dropout_rate is 1.0, expected below 1"),
        (ModelConfig, {"num_heads": True}, "num_heads is True, expected int"),
        (DataConfig, {"task": "x"}, "task is 'x', expected one of plain, switched"),
        (DataConfig, {"crop_size": -1}, "crop_size is -1, expected at least 0"),
        (
            DataConfig,
            {"window_low": 400},
            "window_low is 400.0, expected less than window_high, which is 400.0",
        ),
        (
            DataConfig,
            {"window_high": float("inf")},
            "window_high is inf, expected a finite number",
        ),
        (
            AugmentationConfig,
            {"shear_degrees": 45},
            "shear_degrees is 45.0, expected below 45",
        ),
        (
            AugmentationConfig,
            {"elastic_spacing_px": 1},
            "elastic_spacing_px is 1, expected at least 2",
        ),
        (AugmentationConfig, {"flip": "yes"}, "flip is 'yes', expected bool"),
        (TrainingConfig, {"steps": 0}, "steps is 0, expected at least 1"),
        (
            TrainingConfig,
            {"seed": 2**63},
            "seed is 9223372036854775808, expected below 9223372036854775808",
        ),
        (TrainingConfig, {"best_by": "iou"}, "best_by is 'iou', expected one of ged, "),
        (PhantomConfig, {"image_size": 8}, "image_size is 8, expected at least 32"),
        (PhantomConfig, {"num_val": 0}, "num_val is 0, expected at least 1"),
        (
            ModelConfig,
            {"num_classes": 10**8},
            "num_classes is 100000000, expected at most 256",
        ),
        (
            ModelConfig,
            {"base_channels": 60000},
            "base_channels is 60000, expected at most 8192",
        ),
        (
            ModelConfig,
            {"base_channels": 1024, "num_scales": 5},
            "base_channels is 1024 with 5 scales, which makes 16384 channels, expected "
            "at most 8192",
        ),
        (ModelConfig, {"num_scales": 40}, "num_scales is 40, expected at most 12"),
        (
            ModelConfig,
            {"base_channels": 1, "num_scales": 12, "latent_pooling": 4},
            "latent_pooling is 4 with 12 scales, which needs sides that are multiples "
            "of 8192, expected at most 4096",
        ),
        (
            ModelConfig,
            {"latent_dim": 10**9},
            "latent_dim is 1000000000, expected at most 4096",
        ),
        (ModelConfig, {"ignore_label": -1}, "ignore_label is -1, expected at least 0"),
        (
            DataConfig,
            {"scored_size": 10**6},
            "scored_size is 1000000, expected at most 32768",
        ),
        (
            TrainingConfig,
            {"batch_size": 2**31},
            "batch_size is 2147483648, expected at most 2147483647",
        ),
        (
            PhantomConfig,
            {"image_size": 10**8},
            "image_size is 100000000, expected at most 4096",
        ),
        (
            PhantomConfig,
            {"num_train": 10**12},
            "num_train is 1000000000000, expected at most 10000000",
        ),
        (
            PhantomConfig,
            {"seed": 2**64},
            "seed is 18446744073709551616, expected below 9223372036854775808",
        ),
    ],
)
def test_bad_values_are_named(section, values, message):
    with pytest.raises(ValueError) as caught:
        section(**values)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["crop_size", "eval_size"])
def test_sizes_must_fit_the_down_samplings(name):
    data = dataclasses.replace(DataConfig(), **{name: 40})
    message = f"{name} is 40, expected a multiple of 16 for 5 scales"
    with pytest.raises(ValueError, match=message):
        Config(data=data)
    assert Config(model=ModelConfig(num_scales=4), data=data).model.size_divisor == 8


def test_a_crop_has_one_side_or_a_height_and_a_width():
    assert DataConfig(crop_size=(96, 96)) == DataConfig(crop_size=96)
    config = Config(data=DataConfig(crop_size=(96, 128)))
    stored = json.loads(json.dumps(config.to_json()))
    assert stored["data"]["crop_size"] == [96, 128]
    assert Config.from_json(stored, "config.json") == config
    with pytest.raises(ValueError, match=r"\(96, 40\), expected a multiple of 16"):
        Config(data=DataConfig(crop_size=(96, 40)))
    for wrong in ((96, 0), (96, -16), (96.0, 128)):
        with pytest.raises(ValueError, match="expected a height and a width from 1 to"):
            DataConfig(crop_size=wrong)
    for wrong in ("96", (96, 96, 96), (96,)):
        message = "expected one number, or a height and a width"
        with pytest.raises(ValueError, match=message):
            DataConfig(crop_size=wrong)


def test_differences_are_listed():
    other = Config(
        model=ModelConfig(beta=2.0), training=TrainingConfig(steps=7, seed=1)
    )
    assert Config().differences(other) == [
        "model.beta: None -> 2.0",
        "training.seed: 0 -> 1",
        "training.steps: 240000 -> 7",
    ]
    assert Config().differences(Config()) == []


def _changed(section: str, **values) -> dict:
    changed = Config().to_json()
    changed[section].update(values)
    return changed


@pytest.mark.parametrize(
    "value, message",
    [
        ({}, r"has the sections \[\], expected \['augmentation', 'data', "),
        ({**Config().to_json(), "more": {}}, "has the sections .*'more'"),
        ({**Config().to_json(), "data": 3}, "data is 3, expected an object"),
        (
            _changed("data", colour=1),
            "data has the settings colour, expected crop_jitter_px, crop_size",
        ),
        (_changed("training", steps=1.5), "training: steps is 1.5, expected int"),
        (_changed("model", beta=[1]), "expected float"),
        (_changed("data", crop_size=40), "crop_size is 40, expected a multiple of 16"),
    ],
)
def test_bad_json_is_named_with_its_file(tmp_path, value, message):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=message) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_setting_that_an_earlier_version_did_not_know_has_its_default():
    earlier = Config(training=TrainingConfig(steps=7)).to_json()
    del earlier["training"]["ema_decay"]
    read = Config.from_json(earlier, "config.json")
    assert read == Config(training=TrainingConfig(steps=7, ema_decay=0.0))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json: no such configuration"):
        read_config(tmp_path / "config.json")


def test_off_switches_every_change_off():
    off = AugmentationConfig.off()
    assert off.moves_nothing
    values = dataclasses.asdict(off)
    del values["elastic_spacing_px"]  # a distance, without effect when off
    assert not any(values.values())
    for name in ("rotation_degrees", "shear_degrees", "scale", "elastic_std_px"):
        assert not dataclasses.replace(off, **{name: 1}).moves_nothing
    assert not dataclasses.replace(off, flip=True).moves_nothing
    assert dataclasses.replace(off, brightness=0.5).moves_nothing


def test_importing_does_not_import_tensorflow():
    code = "import sys, tf_probunet.config; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("eval_size", [0, 32])
def test_a_scored_frame_smaller_than_the_crop_is_refused(eval_size):
    with pytest.raises(ValueError, match="scored_size is 16, expected 0 or at least"):
        DataConfig(eval_size=eval_size, scored_size=16)
    assert DataConfig(eval_size=16, scored_size=32).frame_size == 32
    assert DataConfig(eval_size=16).frame_size == 16


def test_a_loss_without_any_weight_is_refused():
    with pytest.raises(ValueError, match="elbo_weight and energy_weight are 0"):
        ModelConfig(elbo_weight=0.0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"name": "unet"}, "unet has no posterior"),
        ({"elbo_weight": 0.0, "energy_weight": 1.0}, "elbo_weight is 0"),
    ],
)
def test_a_posterior_that_cannot_learn_is_refused(settings, reason):
    with pytest.raises(ValueError, match=f"learned is 'posterior'.*{reason}"):
        ModelConfig(learned="posterior", **settings)


@pytest.mark.parametrize("name", ["mixture", "hpu_net"])
def test_classes_are_weighed_where_the_loss_is_a_cross_entropy(name):
    with pytest.raises(
        ValueError, match=f"class_balance is 0.5, expected 0: .* {name}"
    ):
        ModelConfig(name=name, class_balance=0.5)
    ModelConfig(name=name, class_balance=0.5, segmentation_weight=1.0)
    ModelConfig(name="hpu_net", class_balance=0.5, hierarchy_loss="elbo")


def test_a_rate_that_falls_to_zero_in_steps_is_refused():
    with pytest.raises(
        ValueError, match="final_learning_rate is 0 .* expected above 0"
    ):
        TrainingConfig(final_learning_rate=0.0)
    TrainingConfig(final_learning_rate=0.0, learning_rate_steps=0)


def test_outlines_are_drawn_where_there_are_latents():
    with pytest.raises(ValueError, match="outline_stddev is 1.7, expected 0: m_heads"):
        ModelConfig(name="m_heads", outline_stddev=1.7)


@pytest.mark.parametrize("settings", [{"name": "unet"}, {"injection": "start"}])
def test_features_are_averaged_where_samples_share_them(settings):
    with pytest.raises(ValueError, match="average_symmetries is True, expected False"):
        ModelConfig(average_symmetries=True, **settings)


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({"flip": True}, True),  # By default, images are turned by any angle.
        ({"flip": False}, False),
        ({"flip": True, "rotation_degrees": 90}, False),
        ({"flip": True, "rotation_degrees": 0, "quarter_turns": True}, True),
        ({"rotation_degrees": 0, "quarter_turns": True}, False),
    ],
)
def test_features_are_averaged_if_training_showed_all_symmetries(settings, fits):
    augmentation = AugmentationConfig(**settings)
    message = "not trained on turned and mirrored images"
    refused = pytest.raises(ValueError, match=message)
    with contextlib.nullcontext() if fits else refused:
        Config(ModelConfig(average_symmetries=True), augmentation=augmentation)


@pytest.mark.parametrize("name", ["outline_stddev", "presence_weight"])
def test_what_needs_a_background_is_refused_for_the_switched_task(name):
    with pytest.raises(ValueError, match=f"{name} is 1.7, expected 0 for the switched"):
        Config(ModelConfig(**{name: 1.7}), DataConfig(task="switched"))


def test_a_dropped_setting_is_ignored_where_it_changed_nothing():
    earlier = _changed("training", prior_steps=0, keep_checkpoints=3)
    earlier["model"]["free_bits"] = 0.0
    assert Config.from_json(earlier, "config.json") == Config()


def test_a_dropped_setting_that_changed_something_is_named():
    with pytest.raises(ValueError) as caught:
        Config.from_json(_changed("training", prior_steps=20), "config.json")
    assert str(caught.value) == (
        "config.json: training: prior_steps is 20, but this version has no such "
        "setting (it does what 0 did); use the version of tf_probunet that wrote the "
        "file"
    )
    # A trained model works whatever it was trained with.
    assert ModelConfig.without_dropped({"beta": 2.0, "free_bits": 0.5}) == {"beta": 2.0}


def test_no_setting_is_both_dropped_and_known():
    for section in (ModelConfig, DataConfig, AugmentationConfig, TrainingConfig):
        names = {setting.name for setting in dataclasses.fields(section)}
        assert not names & set(section.DROPPED)


def test_types_of_fields_are_those_of_their_annotations():
    types = field_types(ModelConfig)
    assert types["beta"] == (float, True)
    assert types["latent_dim"] == (int, True)
    assert types["fixed_prior"] == (bool, False)
    assert types["name"] == (str, False)


def test_the_model_knows_the_task():
    for task in ("plain", "switched"):
        config = Config(model=ModelConfig(switched=True), data=DataConfig(task=task))
        assert config.model.switched == (task == "switched")
    for name in ("segmentation_weight", "mode_weight"):
        with pytest.raises(ValueError, match=f"{name} is 1.0, expected 0: the task is"):
            Config(model=ModelConfig(**{name: 1.0}))


def test_only_a_fixed_prior_has_a_given_deviation():
    with pytest.raises(ValueError, match="prior_stddev is 2.0, expected 1 unless"):
        ModelConfig(prior_stddev=2.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"energy_stride": 3}, "3 with 5 scales, expected a divisor of 16"),
        ({"energy_stride": 32}, "32 with 5 scales, expected a divisor of 16"),
        ({"energy_stride": 2, "injection": "start"}, "2, expected 1: with injection"),
        ({"energy_stride": 2, "name": "image2image_vae"}, "2, expected 1: with inject"),
    ],
)
def test_stride_of_the_samples_fits_the_features(settings, message):
    ModelConfig(energy_stride=2, num_scales=5)
    with pytest.raises(ValueError, match=f"energy_stride is {message}"):
        ModelConfig(num_scales=5, **settings)


def test_settings_that_a_model_determines_are_needed_to_build_it():
    config = ModelConfig(latent_dim=5)
    assert config.num_latents == 5
    with pytest.raises(ValueError, match="beta is None, expected a number: models.b"):
        _ = config.kl_beta


@pytest.mark.parametrize(
    "changes", [{"fixed_prior": True}, {"name": "image2image_vae"}]
)
def test_a_fixed_prior_is_no_mixture(changes):
    with pytest.raises(ValueError, match="prior_components is 2 with a fixed prior"):
        ModelConfig(prior_components=2, **changes)
