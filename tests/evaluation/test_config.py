"""The settings of an evaluation: limits, and the command that repeats it."""

import pytest

from tf_probunet.config import INTS, field_types
from tf_probunet.evaluation.config import EvaluationConfig

MODEL = {"saved_model": "a"}


@pytest.mark.parametrize(
    "settings, message",
    [
        ({}, "saved_model is None and samples_dir is None, expected exactly one"),
        ({**MODEL, "samples_dir": "b"}, "expected exactly one of them"),
        ({**MODEL, "eval_size": 8}, "eval_size is 8, expected neither: a SavedModel"),
        (
            {**MODEL, "num_samples": (0, 4)},
            r"num_samples is \(0, 4\), expected",
        ),
        ({**MODEL, "num_samples": ()}, r"num_samples is \(\), expected numbers from 1"),
        ({**MODEL, "num_samples": [1]}, r"num_samples is \[1\], expected numbers from"),
        ({**MODEL, "batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({**MODEL, "limit": -1}, "limit is -1, expected at least 0"),
        ({**MODEL, "statistic": "w"}, "statistic is 'w', expected one of v, u"),
        ({**MODEL, "both_empty": "two"}, "both_empty is 'two', expected one of zero,"),
        ({**MODEL, "protocol": "x"}, "protocol is 'x', expected one of paper, mose,"),
        (
            {**MODEL, "protocol": "d_persona", "both_empty": "zero"},
            "both_empty is zero, but the protocol d_persona has one; leave out --both_",
        ),
        (
            {**MODEL, "protocol": "mose", "sampling": "stratified"},
            "sampling is stratified, but the protocol mose has independent; leave out",
        ),
        (
            {**MODEL, "protocol": "ccdm", "num_samples": (4, 1)},
            "num_samples is 1,4, but the protocol ccdm has 16,32,50,100; leave out",
        ),
        ({"samples_dir": "b", "task": "x"}, "task is 'x', expected one of plain, swi"),
        ({**MODEL, "sampling": "sobol"}, "sampling is 'sobol', expected one of indep"),
        (
            {"samples_dir": "b", "sampling": "stratified"},
            "samples_dir is 'b', expected None with sampling='stratified': files hold",
        ),
        (
            {**MODEL, "sampling": "stratified", "statistic": "u"},
            "statistic is 'u', expected 'v' with sampling='stratified'",
        ),
        (
            {**MODEL, "sampling": "stratified", "by": "lesion"},
            r"num_samples is \(1, 4, 8, 16\), expected one number with by='lesion'",
        ),
        ({**MODEL, "split": None}, "split is None, expected str"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        EvaluationConfig(data_dir="d", out_dir="o", **settings)


@pytest.mark.parametrize("number", [0, 4097, 10**6, 99999999999999999999])
def test_numbers_of_samples_that_no_model_draws(number):
    with pytest.raises(
        ValueError, match=rf"{number}\), expected numbers from 1 to 4096"
    ):
        EvaluationConfig("data", "out", "model", num_samples=(1, number))


def test_numbers_of_samples_are_sorted():
    config = EvaluationConfig("data", "out", "model", num_samples=(8, 1, 8))
    assert config.num_samples == (1, 8)


def test_command_repeats_the_evaluation():
    config = EvaluationConfig(
        data_dir="data set", out_dir="o", samples_dir="s", num_samples=(8, 1), seed=3
    )
    assert config.command() == (
        "python run/evaluate.py '--data_dir=data set' --out_dir=o --samples_dir=s "
        "--num_samples=1,8 --seed=3"
    )


def test_types_of_the_settings():
    types = field_types(EvaluationConfig)
    assert types["num_samples"] == (INTS, True)
    assert types["task"] == (str, True)
    assert types["overwrite"] == (bool, False)


def test_a_protocol_fixes_its_settings_and_the_command_repeats_them():
    config = EvaluationConfig("d", "o", "m", protocol="d_persona", statistic="v")
    assert (config.statistic, config.both_empty) == ("v", "one")
    assert config.num_samples == (10, 50)
    assert config.command() == (
        "python run/evaluate.py --data_dir=d --out_dir=o --saved_model=m "
        "--protocol=d_persona"
    )


def test_a_protocol_leaves_the_rest_to_the_user():
    config = EvaluationConfig("d", "o", "m", protocol="qubiq", num_samples=(32,))
    assert (config.both_empty, config.num_samples) == ("zero", (32,))
    assert config.command().endswith("--protocol=qubiq --num_samples=32")
    assert EvaluationConfig("d", "o", "m").num_samples == (1, 4, 8, 16)


def test_scores_of_images_are_not_those_of_lesions():
    with pytest.raises(ValueError, match=r"its scores \(qubiq_dice, .*of images"):
        EvaluationConfig("d", "o", "m", protocol="qubiq", by="lesion")
    assert EvaluationConfig("d", "o", "m", protocol="ccdm", by="lesion").by == "lesion"
