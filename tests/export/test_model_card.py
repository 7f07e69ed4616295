"""Tests of the model card, and of the scores that are read for it."""

import pathlib
import re

import pytest
from helpers import tiny

from tf_probunet.config import Config, DataConfig
from tf_probunet.dataset.cityscapes_labels import TRAIN_CLASS_NAMES
from tf_probunet.export.model_card import model_card, read_scores
from tf_probunet.training.run_dir import RunDir

ROOT = pathlib.Path(__file__).resolve().parents[2]
METADATA = {
    "model": "prob_unet",
    "parameters": 1234,
    "size_divisor": 2,
    "sees": None,
    "frame": None,
    "signatures": ["prior", "serving_default"],
}


def test_the_model_card_names_data_scores_and_limits(saved_model):
    card = (saved_model / "assets" / "README.md").read_text()
    for text in (
        "# prob_unet trained on phantom",
        "24 train, 8 val, 8 test",
        "background, lesion",
        "-1000 to 400 mapped to 0..1",
        "multiples of 2",
        "`decode`, `features`, `log_likelihood`",
        "Squared energy distance 0.2500",
        "at step 7",
        "not a medical device",
    ):
        assert text in card


def _lidc_card(run, data, scores=None, **preparation):
    config = Config(model=tiny.network(beta=10.0), data=data)
    dataset = {**RunDir(run).dataset(), "name": "lidc_x", "preparation": preparation}
    metadata = {**METADATA, "sees": data.eval_size, "frame": data.frame_size}
    return model_card(config, dataset, metadata, scores)


def test_the_card_of_a_model_of_lidc(run):
    data = DataConfig(crop_size=64, eval_size=64, scored_size=128)
    card = _lidc_card(run, data, format="png_slices")
    for text in (
        "Creative Commons Attribution 3.0 Unported (CC BY 3.0)",
        "https://doi.org/10.7937/K9/TCIA.2015.LO9QL9SX",
        "4 channels at the first of 2 scales, 1 convolutions per block",
        "latent dimensions: 2, beta: 10.",
        "240000 steps of 32 images, crops of 64, learning rate 0.0001",
        "frames of 128, of which the network sees the middle 64",
        "a lesion in the middle of a crop of 128 x 128 pixels",
        "`run/predict.py` assumes 0.7 mm. Images that say they have pixels smaller by",
        "rescaled to its own smallest and largest value",
    ):
        assert text in card
    source = (ROOT / "data" / "README.md").read_text("utf-8")
    citations = re.findall(r"^> .*\d{4}.*$", card, re.MULTILINE)
    assert len(citations) == 3
    assert all(citation in source for citation in citations)


def test_the_card_says_how_the_data_of_lidc_was_prepared(run):
    card = _lidc_card(run, DataConfig(), format="dicom", spacing_mm=0.5)
    assert "a crop of 128 x 128 pixels" in card
    assert "resampled to pixels of 0.5 mm" in card
    assert "rescaled" not in card


def test_the_card_of_a_model_of_streets(run):
    dataset = {
        **RunDir(run).dataset(),
        "name": "cityscapes",
        "class_names": list(TRAIN_CLASS_NAMES),
        "num_graders": 1,
        "intensity": "uint8",
    }
    config = Config(model=tiny.network(), data=DataConfig(task="switched", crop_size=0))
    card = model_card(config, dataset, METADATA)
    assert "24 classes\n  (road, sidewalk, building, wall" in card
    assert "bicycle, sidewalk 2, person 2, car 2, vegetation 2, road 2)" in card
    assert "5 classes flipped at random to a new one each, 32 modes per imag" in card
    assert "other\ncameras" in card and "crops of the whole image" not in card
    assert not re.search("scanner|medical|diagnosis|label maps per image", card)


def test_the_card_says_what_the_intervals_resample(run, edited_results, tmp_path):
    def resample_images(content):
        content["protocol"]["intervals"]["resampled"] = "images"

    def say_nothing(content):
        del content["protocol"]["intervals"]

    def say_something_else(content):
        content["protocol"]["intervals"] = {"resampled": "cities"}

    for edit, word in ((resample_images, "image"), (say_nothing, "group")):
        found = read_scores(edited_results(tmp_path / "edited", edit))
        card = _lidc_card(run, DataConfig(), scores=found)
        assert f"[95 % intervals by {word}.]" in card
    with pytest.raises(ValueError, match="'cities'}, expected resampled groups or im"):
        read_scores(edited_results(tmp_path / "edited", say_something_else))


def test_the_card_says_that_pixels_of_unknown_size_are_left_alone(run):
    card = _lidc_card(run, DataConfig(), format="crops")
    assert "Pixels have the scan's own size; crops must not be resampled." in card


def test_other_cards_do_not_speak_of_lidc(saved_model):
    card = (saved_model / "assets" / "README.md").read_text("utf-8")
    assert "LIDC" not in card and "## Scores" not in card
    assert not (saved_model / "assets" / "scores.json").exists()


def test_scores_are_read_from_the_file_too(results, tmp_path):
    assert read_scores(results / "results.json") == read_scores(results)
    with pytest.raises(FileNotFoundError, match="no such results of an evaluation"):
        read_scores(tmp_path)
