"""How SavedModels are written: whole or not at all, with all that describes them."""

import concurrent.futures
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_dirs, tiny

from tf_probunet.artifacts import checksums
from tf_probunet.artifacts.saved_model import load
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.config import AugmentationConfig, Config, DataConfig
from tf_probunet.evaluation import evaluate, sources
from tf_probunet.export import export
from tf_probunet.export.signatures import Signatures
from tf_probunet.training.run_dir import RunDir

IMAGE = run_dirs.images(2, 8, 6, 1)


def test_assets_say_what_the_model_is(run, saved_model):
    assets = saved_model / "assets"
    config, dataset, metadata = (
        json.loads((assets / f"{name}.json").read_text())
        for name in ("config", "dataset", "metadata")
    )
    assert config == RunDir(run).config().to_json()
    assert config["data"]["window_low"] == -1000.0
    assert dataset["class_names"] == ["background", "lesion"]
    assert dataset["intensity"] == "hu"
    model = run_dirs.tiny_model()
    parameters = sum(v.shape.num_elements() for v in model.trainable_variables)
    assert metadata == {
        "model": "prob_unet",
        "signatures": [
            "decode",
            "features",
            "log_likelihood",
            "mean",
            "posterior",
            "prior",
            "serving_default",
            "stratified",
            "stratified_latents",
        ],
        "default_samples": 16,
        "max_samples": None,
        "is_stochastic": True,
        "size_divisor": 2,
        "sees": None,
        "frame": None,
        "parameters": parameters,
        "validation": run_dirs.BEST,
    }


def _bounds(value):
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def test_scores_on_the_card(run, saved_model, results, phantom_dir, tmp_path):
    path = export.export_run(run, tmp_path / "out", results=results)
    written = json.loads((results / "results.json").read_text())
    card = (path / "assets" / "README.md").read_text("utf-8")
    for name in ("ged", "floor"):
        cells = " | ".join(_bounds(written[name][n]) for n in ("1", "4"))
        assert f" | {cells} |" in card
    assert f"4 samples: {_bounds(written['hungarian_iou'])}." in card
    assert "On 4 images of 4 groups (the first of the split only), split `test`" in card
    assert (
        f"    python run/evaluate.py --data_dir={phantom_dir.name} --out_dir=res"
        in card
    )
    assert "--saved_model=saved_model --num_samples=1,4" in card
    scores = json.loads((path / "assets" / "scores.json").read_text())
    assert scores["ged"] == written["ged"]
    assert scores["data"]["images"] == 4
    assert str(saved_model.parent) not in json.dumps(scores) + card
    # Another card, and so another fingerprint; but the same model.
    assert checksums.fingerprint(path) != written["model"]["fingerprint"]
    loaded = tf.saved_model.load(str(path))
    original = tf.saved_model.load(str(saved_model))
    for name, expected in original.sample(IMAGE).items():
        np.testing.assert_array_equal(loaded.sample(IMAGE)[name], expected)


def test_scores_survive_an_export_over_the_scored_model(run, edited_results, tmp_path):
    """The model that was scored may be replaced by itself with its scores, twice."""
    out = export.export_run(run, tmp_path / "out")

    def point_to_it(content):
        model = {"path": str(out), "fingerprint": checksums.fingerprint(out)}
        content["model"].update(model)

    moved = edited_results(tmp_path / "moved", point_to_it)
    for _ in range(2):
        export.export_run(run, out, results=moved, overwrite=True)
        assert "## Scores" in (out / "assets" / "README.md").read_text("utf-8")


def test_scores_of_other_weights_are_refused(results, phantom_dir, tmp_path):
    run_dirs.make_run(tmp_path / "run", phantom_dir, latent_dim=3)
    with pytest.raises(ValueError, match="which has other weights than the model to"):
        export.export_run(tmp_path / "run", tmp_path / "out", results=results)
    model = run_dirs.make_run(tmp_path / "near", phantom_dir)
    bias = model.trainable_variables[-1]
    bias.assign_add(tf.fill(bias.shape, 1e-3))
    run_dir = RunDir(tmp_path / "near")
    with pytest.raises(ValueError, match="which has other weights than the model to"):
        export.save(model, run_dir, tmp_path / "out", validation=None, results=results)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda r: r["model"].update(fingerprint="0" * 16), "is another one now"),
        (lambda r: r["model"].update(path="nowhere"), "is not a SavedModel"),
        (lambda r: r["model"].update(source="samples_dir"), "expected 'saved_model'"),
        (lambda r: r.pop("ged"), "lacks ged"),
        (lambda r: r.update(ged={}), "ged is {}, expected one for each number"),
        (lambda r: r["ged"].update(x=r["ged"]["1"]), "ged of 'x', expected a number"),
        (lambda r: r["ged"]["1"].update(mean=None), "ged of 1 samples is"),
        (lambda r: r["ged"]["4"].update(mean=9.0), "expected a mean between low and"),
        (
            lambda r: r["ged"]["4"].update(mean=float("nan")),
            "NaN where a finite number",
        ),
        (lambda r: r["floor"].pop("4"), "not of the same numbers of samples"),
        (lambda r: r.update(hungarian_iou=0.5), "hungarian_iou is 0.5, expected"),
        (lambda r: r["data"].update(images=0), "images is 0, expected at least 1"),
        (lambda r: r["data"].update(split=None), "split is None, expected str"),
        (lambda r: r["protocol"].update(image_size=[8]), "expected two sizes"),
        (lambda r: r.update(command="'"), "command is not a command line"),
    ],
)
def test_bad_results_are_refused(run, edited_results, tmp_path, edit, message):
    bad = edited_results(tmp_path / "bad", edit)
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(message)):
        export.export_run(run, tmp_path / "out", results=bad)
    assert not (tmp_path / "out").exists()


def test_a_model_without_latents_has_no_latent_signatures(tmp_path, phantom_dir):
    data = DataConfig(crop_size=16, eval_size=0)
    run_dirs.make_run(tmp_path / "run", phantom_dir, data, name="m_heads", num_heads=3)
    path = export.export_run(tmp_path / "run", tmp_path / "saved_model")
    metadata = json.loads((path / "assets" / "metadata.json").read_text())
    loaded = tf.saved_model.load(str(path))
    assert sorted(loaded.signatures) == metadata["signatures"]
    assert metadata["signatures"] == ["mean", "serving_default"]
    assert metadata["max_samples"] == metadata["default_samples"] == 3
    assert not metadata["is_stochastic"]
    assert not hasattr(loaded, "prior")
    assert loaded.sample(IMAGE)["labels"].shape == (2, 3, 8, 6)


def _fail(*args, **kwargs):
    raise OSError("disk full")


def test_a_failed_export_leaves_nothing_behind(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.saved_model, "save", _fail)
    with pytest.raises(OSError, match="disk full"):
        export.export_run(run, tmp_path / "saved_model")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_one_before(run, tmp_path, monkeypatch):
    before = tmp_path / "saved_model" / "saved_model.pb"
    before.parent.mkdir()
    before.write_text("before")
    monkeypatch.setattr(tf.saved_model, "save", _fail)
    with pytest.raises(OSError, match="disk full"):
        export.export_run(run, before.parent, overwrite=True)
    assert before.read_text() == "before"
    assert list(tmp_path.iterdir()) == [before.parent]


def test_only_savedmodels_are_replaced_and_only_if_asked(run, tmp_path, quick_save):
    out_dir = tmp_path / "out"
    export.export_run(run, out_dir)
    with pytest.raises(ValueError, match="out: exists already; --overwrite replaces"):
        export.export_run(run, out_dir)
    (out_dir / "saved_model.pb").write_text("old")
    export.export_run(run, out_dir, overwrite=True)
    assert (out_dir / "saved_model.pb").read_text() == "new"
    (out_dir / "saved_model.pb").rename(out_dir / "thesis.tex")
    with pytest.raises(ValueError, match="holds something other than a SavedModel"):
        export.export_run(run, out_dir, overwrite=True)
    assert (out_dir / "thesis.tex").read_text() == "new"
    assert list(tmp_path.iterdir()) == [out_dir]


@pytest.fixture
def quick_save(monkeypatch):
    """Stands for TensorFlow's part of an export."""

    def write(module, path, signatures):
        pathlib.Path(path).mkdir()
        (pathlib.Path(path) / "saved_model.pb").write_text("new")

    monkeypatch.setattr(tf.saved_model, "save", write)


def test_what_a_link_points_to_is_replaced_and_the_link_is_kept(
    run, tmp_path, quick_save
):
    (tmp_path / "disk" / "model").mkdir(parents=True)
    (tmp_path / "disk" / "model" / "saved_model.pb").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk" / "model")
    assert export.export_run(run, link, overwrite=True) == link
    assert link.is_symlink()
    assert (tmp_path / "disk" / "model" / "saved_model.pb").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["disk", "link"]
    assert [p.name for p in (tmp_path / "disk").iterdir()] == ["model"]


def test_what_a_killed_export_left_is_removed_or_completed(run, tmp_path, quick_save):
    (tmp_path / ".sm.abcd_123" / "scratch").mkdir(parents=True)
    completed = tmp_path / ".sm.abcd_456"
    (completed / "new" / "sm").mkdir(parents=True)
    (completed / "new" / "sm" / "saved_model.pb").write_text("killed")
    (completed / "journal.json").write_text('{"names": ["sm"]}')
    (tmp_path / ".sm.settings").mkdir()
    (tmp_path / ".sm.settings" / "mine").touch()
    (tmp_path / ".other.abcd_123" / "scratch").mkdir(parents=True)
    with pytest.raises(ValueError, match="sm: exists already; --overwrite replaces"):
        export.export_run(run, tmp_path / "sm")
    assert (tmp_path / "sm" / "saved_model.pb").read_text() == "killed"
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == [".other.abcd_123", ".sm.settings", "sm"]


def test_two_exports_to_one_directory_are_kept_apart(run, tmp_path, monkeypatch):
    def export_again(*args, **kwargs):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(export.export_run, run, tmp_path / "sm").result()

    monkeypatch.setattr(tf.saved_model, "save", export_again)
    with pytest.raises(ValueError, match=f"{tmp_path / 'sm'}: in use since .* by proc"):
        export.export_run(run, tmp_path / "sm")
    assert list(tmp_path.iterdir()) == []


def test_directories_with_patterns_for_names(phantom_dir, tmp_path):
    """From the checkpoint over the SavedModel to the results and the model card."""
    run, out = tmp_path / "run[1]*", tmp_path / "sm[1]?"
    run_dirs.make_run(run, phantom_dir)
    export.export_run(run, out)
    config = evaluate.EvaluationConfig(
        saved_model=str(out),
        data_dir=str(phantom_dir),
        out_dir=str(tmp_path / "results[1]"),
        num_samples=(2,),
        limit=2,
        validation_split="",
    )
    results = evaluate.evaluate(config)
    assert results["data"]["images"] == 2
    export.export_run(run, out, results=tmp_path / "results[1]", overwrite=True)
    assert (out / "assets" / "scores.json").is_file()


def test_missing_runs_and_checkpoints_are_named(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such run directory"):
        export.export_run(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="no checkpoint.*--checkpoint=best"):
        export.export_run(run, tmp_path / "out", checkpoint="last")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def framed(tmp_path_factory, phantom_dir):
    """The SavedModel of a network that sees the middle 16 of frames of 24."""
    folder = tmp_path_factory.mktemp("framed")
    data = DataConfig(crop_size=16, eval_size=16, scored_size=24)
    run_dirs.make_run(folder / "run", phantom_dir, data)
    return export.export_run(folder / "run", folder / "saved_model")


def test_whole_frames_get_the_samples_that_are_scored(framed):
    frames = run_dirs.images(3, 24, 24, 1)
    module = load(framed).module
    keys = ["a", "b", "c"]
    drawn = sources.SavedModel(framed, seed=3).draw(keys, frames, 4, with_mean=True)
    for i, key in enumerate(keys):
        seed = [sources.image_seed(3, key)]
        outputs = module.sample(frames[i : i + 1], 4, seed)
        np.testing.assert_array_equal(outputs["labels"][0], drawn.labels[i])
        mean = outputs["probabilities"][0].numpy().mean(axis=0)
        np.testing.assert_array_equal(mean, drawn.mean[i])
    assert drawn.labels.any() and not drawn.labels[..., :4, :].any()


def test_metadata_and_card_say_what_the_network_sees(framed):
    model = load(framed)
    assert (model.metadata["sees"], model.metadata["frame"]) == (16, 24)
    card = (framed / "assets" / "README.md").read_text("utf-8")
    assert "at least 16 x 16 pixels (frames of 24 x 24 were" in card
    assert "The network sees the middle 16 x 16" in card


def test_prediction_reaches_the_network_with_any_fitting_size(framed):
    image = run_dirs.images(1, 32, 8, 1)
    drawn = load(framed).call("sample", image, 2, 0, about="x")
    expected = Signatures(run_dirs.tiny_model()).functions()["sample"](image, 2, 0)
    np.testing.assert_allclose(
        drawn["probabilities"], expected["probabilities"], atol=1e-5
    )


def test_misuse_is_named_after_loading(framed):
    loaded = tf.saved_model.load(str(framed))
    frames = run_dirs.images(1, 24, 24, 1)
    message = (
        "values from 1.* to 253.*, expected 0 to 1: Hounsfield units, -1000 to 400"
    )
    for values in (255 * frames, (255 * frames).astype(np.uint8)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            loaded.sample(values)
    message = "image is 24 x 15, expected at least 16 x 16"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded.sample(frames[:, :, :15])


def test_a_frame_without_background_is_not_filled_up(framed):
    described = load(framed)
    config = Config(model=described.network, data=described.data)
    classes = {"class_names": ["road", "car"]}
    assert export._Origin(config, described.dataset).sees == 16
    assert export._Origin(config, {**described.dataset, **classes}).sees is None


def _with_history(run, path):
    """Copies a run, and says that it went on from an earlier training."""
    directory = RunDir(shutil.copytree(run, path))
    config = directory.config().to_json()
    earlier = tiny.run(energy_weight=2.0, steps=11).to_json()
    directory.write_history([{"config": earlier, "validation": {"ged": 0.5}}])
    config["model"]["learned"] = "posterior"
    config["training"]["start_from"] = "/models/earlier"
    (path / "config.json").write_text(json.dumps(config))
    return path


def _check_history(saved, validation):
    """Checks that a SavedModel of such a run tells both trainings."""
    before, last = SavedModelDir(saved).history()
    assert before["config"]["training"]["steps"] == 11
    assert before["validation"]["ged"] == 0.5
    assert last["config"]["training"]["start_from"] == "earlier"  # Without its place.
    assert last["validation"] == validation
    card = (saved / "assets" / "README.md").read_text("utf-8")
    earlier, later = card.partition("**Training**: ")[2].split("; then ")
    assert earlier.startswith("11 steps of 4 images")
    assert earlier.endswith(", on the energy distance and the model's own loss")
    assert ", of the posterior net alone; all settings" in later


def test_an_export_can_be_written_once_more(run, results, tmp_path):
    path = _with_history(run, tmp_path / "run")
    first = export.export_run(path, tmp_path / "first", results=results)
    _check_history(first, RunDir(path).best_score())
    again = export.export_again(first, tmp_path / "again")
    for name in ("config.json", "dataset.json", "metadata.json", "scores.json"):
        assert (again / "assets" / name).read_text() == (
            first / "assets" / name
        ).read_text()
    card = (again / "assets" / "README.md").read_text("utf-8")
    assert card == (first / "assets" / "README.md").read_text("utf-8")
    outputs, expected = (
        load(path).call("sample", IMAGE, 4, 1, about="x") for path in (again, first)
    )
    np.testing.assert_array_equal(outputs["probabilities"], expected["probabilities"])
    with pytest.raises(ValueError, match="again: exists already"):
        export.export_again(first, again)


def test_an_export_whose_weights_do_not_fit_its_network_is_refused(framed, tmp_path):
    copy = shutil.copytree(framed, tmp_path / "copy")
    file = copy / "assets" / "config.json"
    content = json.loads(file.read_text())
    content["model"]["base_channels"] = 8
    file.write_text(json.dumps(content))
    checksums.write(copy)
    with pytest.raises(ValueError, match="weights that do not fit the network of its"):
        export.export_again(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_trained_model_takes_up_averaged_features(
    run, results, tmp_path, phantom_dir
):
    sampling, mirrored = {"average_symmetries": True}, tmp_path / "mirrored"
    data = DataConfig(crop_size=16, eval_size=0)
    run_dirs.make_run(mirrored, phantom_dir, data, AugmentationConfig(flip=True))
    path = export.export_run(mirrored, tmp_path / "averaged", sampling=sampling)
    model, image = load(path), run_dirs.images(1, 8, 8, 1)
    z = np.array([[[0.3, -0.2]]], np.float32)
    found, turned = (
        model.call("decode", x, z, about="x")["probabilities"]
        for x in (image, np.rot90(image, axes=(1, 2)))
    )
    np.testing.assert_allclose(turned, np.rot90(found, axes=(2, 3)), atol=1e-6)
    assert "over eight symmetries" in SavedModelDir(path).asset("README.md").read_text()
    settings = {"results": results, "sampling": sampling}
    with pytest.raises(ValueError, match="average_symmetries is False, expected True"):
        export.export_run(mirrored, tmp_path / "x", **settings)
    with pytest.raises(ValueError, match="not trained on turned and mirrored images"):
        export.export_run(run, tmp_path / "x", sampling=sampling)


def test_a_trained_model_takes_up_drawn_outlines(run, saved_model, results, tmp_path):
    sampling = {"outline_stddev": 1.5}
    drawn = export.export_run(run, tmp_path / "drawn", sampling=sampling)
    again = export.export_again(saved_model, tmp_path / "again", sampling=sampling)
    plain = load(saved_model)
    image = run_dirs.images(1, 8, 8, 1)
    z = np.array([[[0.3, -0.2]]], np.float32)
    moved = np.concatenate([z, [[[2.0]]]], axis=-1).astype(np.float32)
    p = plain.call("decode", image, z, about="x")["probabilities"][..., 1]
    for path in (drawn, again):
        found = load(path).call("decode", image, moved, about="x")["probabilities"]
        odds = (p / (1 - p) * np.exp(1.5 * 2.0)) ** (1 / np.sqrt(1 - 6.75 / np.pi**2))
        np.testing.assert_allclose(found[..., 1], odds / (1 + odds), rtol=1e-4)
        assert SavedModelDir(path).describe().num_latents == 3
        assert not SavedModelDir(path).asset("scores.json").exists()
    with pytest.raises(ValueError, match="outline_stddev is 0.0, expected 1.5"):
        export.export_run(run, tmp_path / "x", results=results, sampling=sampling)
