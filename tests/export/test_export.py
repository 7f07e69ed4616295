"""SavedModels: what they compute, where they load, and how they are written."""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_dirs, serving_json, tiny

from tf_probunet.artifacts import checksums
from tf_probunet.config import Config, DataConfig
from tf_probunet.dataset.cityscapes_labels import TRAIN_CLASS_NAMES
from tf_probunet.evaluation import evaluate
from tf_probunet.export import export
from tf_probunet.export.model_card import model_card, read_scores
from tf_probunet.export.signatures import Signatures
from tf_probunet.training.run_dir import RunDir

IMAGE = run_dirs.images(2, 8, 6, 1)
LABELS = np.random.default_rng(1).integers(0, 2, (2, 8, 6), np.int32)
Z = np.random.default_rng(2).normal(size=(2, 3, 2)).astype(np.float32)
DOCS = pathlib.Path(__file__).parents[1] / "docs" / "serving.md"

CALLS = {
    "sample": {"image": IMAGE, "num_samples": 4, "seed": [5, 6]},
    "mean": {"image": IMAGE, "num_samples": 4, "seed": 5},
    "prior": {"image": IMAGE},
    "posterior": {"image": IMAGE, "labels": LABELS},
    "decode": {"image": IMAGE, "z": Z},
    "features": {"image": IMAGE},
    "log_likelihood": {
        "image": IMAGE,
        "labels": LABELS,
        "num_samples": 4,
        "seed": [5, 6],
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory, phantom_dir):
    path = tmp_path_factory.mktemp("runs") / "run"
    run_dirs.make_run(path, phantom_dir)
    return path


@pytest.fixture(scope="module")
def saved_model(run):
    return export.export_run(run, run.parent / "saved_model")


@pytest.fixture(scope="module")
def loaded(saved_model):
    return tf.saved_model.load(str(saved_model))


@pytest.fixture(scope="module")
def functions(run):
    """The functions before they are made graphs, of the weights in the checkpoint."""
    graphs = Signatures(RunDir(run).load_model()).functions()
    return {name: graph.python_function for name, graph in graphs.items()}


def _assert_close(outputs, expected):
    assert sorted(outputs) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", CALLS)
def test_loaded_functions_and_signatures_compute_what_the_model_does(
    loaded, functions, name
):
    expected = functions[name](**CALLS[name])
    _assert_close(getattr(loaded, name)(**CALLS[name]), expected)
    signature = loaded.signatures["serving_default" if name == "sample" else name]
    tensors = {k: tf.constant(v) for k, v in CALLS[name].items()}
    _assert_close(signature(**tensors), expected)


def test_the_exported_weights_are_the_checkpoints(loaded):
    expected = run_dirs.tiny_model().trainable_variables
    assert len(loaded.weights) == len(expected)
    for weights, variable in zip(loaded.weights, expected):
        np.testing.assert_array_equal(weights, variable)


def test_number_and_seed_are_optional_in_python(loaded):
    expected = loaded.sample(IMAGE, 16, 0)
    _assert_close(loaded.sample(IMAGE), expected)
    assert np.abs(loaded.sample(IMAGE, 16, 1)["labels"] - expected["labels"]).any()


def test_bad_inputs_are_still_named_after_loading(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="nearest are 6 x 6 and"):
        loaded.sample(IMAGE[:, :7])


@pytest.fixture(scope="module")
def without_package(saved_model, tmp_path_factory):
    """What a process that can't import the package computes of `IMAGE`."""
    code = """
import sys
sys.modules["tf_probunet"] = None
import numpy as np, tensorflow as tf
from tensorflow.python.tools import saved_model_cli
path, directory = sys.argv[1:]
loaded = tf.saved_model.load(path)
outputs = loaded.sample(np.load(directory + "/image.npy"), 4, [5, 6])
np.savez(directory + "/loaded.npz", **{k: v.numpy() for k, v in outputs.items()})
try:
    import tf_probunet
except ImportError:
    print("no such package")
sys.argv = ["saved_model_cli", "run", "--dir", path, "--tag_set", "serve"]
sys.argv += ["--signature_def", "serving_default", "--outdir", directory]
sys.argv += ["--inputs", f"image={directory}/image.npy"]
saved_model_cli.main()
"""
    directory = tmp_path_factory.mktemp("without_package")
    np.save(directory / "image.npy", IMAGE)
    command = [sys.executable, "-c", code, str(saved_model), str(directory)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout.startswith("no such package")
    return directory


def test_loads_and_samples_alike_in_another_process(without_package, loaded):
    outputs = dict(np.load(without_package / "loaded.npz"))
    _assert_close(outputs, loaded.sample(IMAGE, 4, [5, 6]))


def test_saved_model_cli_runs_the_serving_graph_on_an_image_alone(
    without_package, loaded
):
    names = ("labels", "probabilities")
    outputs = {name: np.load(without_package / f"{name}.npy") for name in names}
    _assert_close(outputs, loaded.sample(IMAGE))


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
        ],
        "default_samples": 16,
        "max_samples": None,
        "is_stochastic": True,
        "size_divisor": 2,
        "parameters": parameters,
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
        "no medical device",
    ):
        assert text in card


def _lidc_card(run, data, scores=None, **preparation):
    config = Config(model=tiny.network(beta=10.0), data=data)
    dataset = {**RunDir(run).dataset(), "name": "lidc_x", "preparation": preparation}
    metadata = {
        "model": "prob_unet",
        "parameters": 1234,
        "size_divisor": 2,
        "signatures": ["prior", "serving_default"],
    }
    return model_card(config, dataset, metadata, None, scores)


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
        "`run/predict.py` assumes 0.7 mm, and resamples images that say they differ",
        "rescaled to its own least and largest value",
    ):
        assert text in card
    source = (DOCS.parents[1] / "data" / "README.md").read_text("utf-8")
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
    metadata = {
        "model": "prob_unet",
        "parameters": 1234,
        "size_divisor": 2,
        "signatures": ["prior", "serving_default"],
    }
    config = Config(model=tiny.network(), data=DataConfig(task="switched", crop_size=0))
    card = model_card(config, dataset, metadata, None)
    assert "24 classes\n  (road, sidewalk, building, wall" in card
    assert "bicycle, sidewalk 2, person 2, car 2, vegetation 2, road 2)" in card
    assert "5 classes flipped at random to a new one each, 32 modes per imag" in card
    assert "other cameras" in card and "crops of the whole image" not in card
    assert not re.search("scanner|medical|diagnosis|label maps per image", card)


def test_the_card_says_what_the_intervals_resample(run, results, tmp_path):
    def resample_images(content):
        content["protocol"]["intervals"]["resampled"] = "images"

    def say_nothing(content):
        del content["protocol"]["intervals"]

    def say_something_else(content):
        content["protocol"]["intervals"] = {"resampled": "cities"}

    for edit, word in ((resample_images, "image"), (say_nothing, "group")):
        found = read_scores(_edited(results, tmp_path / "edited", edit))
        card = _lidc_card(run, DataConfig(), scores=found)
        assert f"[95 % intervals by {word}.]" in card
    with pytest.raises(ValueError, match="'cities'}, expected resampled groups or im"):
        read_scores(_edited(results, tmp_path / "edited", say_something_else))


def test_the_card_says_that_pixels_of_unknown_size_are_left_alone(run):
    card = _lidc_card(run, DataConfig(), format="crops")
    assert "Pixels have the scan's own size; crops must not be resampled." in card


def test_other_cards_do_not_speak_of_lidc(saved_model):
    card = (saved_model / "assets" / "README.md").read_text("utf-8")
    assert "LIDC" not in card and "## Scores" not in card
    assert not (saved_model / "assets" / "scores.json").exists()


@pytest.fixture(scope="module")
def results(saved_model, phantom_dir):
    """The results of an evaluation of the exported model."""
    out_dir = saved_model.parent / "results"
    evaluate.evaluate(
        evaluate.EvaluationConfig(
            data_dir=str(phantom_dir),
            out_dir=str(out_dir),
            saved_model=str(saved_model),
            num_samples=(1, 4),
            limit=4,
            validation_split="",
        )
    )
    return out_dir


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
    _assert_close(loaded.sample(IMAGE), original.sample(IMAGE))


def _edited(results, target, edit):
    """Copies the results with a change."""
    content = json.loads((results / "results.json").read_text())
    edit(content)
    target.mkdir(exist_ok=True)
    (target / "results.json").write_text(json.dumps(content))
    return target


def test_scores_survive_an_export_over_the_scored_model(run, results, tmp_path):
    """The model that was scored may be replaced by itself with its scores, twice."""
    out = export.export_run(run, tmp_path / "out")

    def point_to_it(content):
        model = {"path": str(out), "fingerprint": checksums.fingerprint(out)}
        content["model"].update(model)

    moved = _edited(results, tmp_path / "moved", point_to_it)
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
        (lambda r: r["model"].update(path="nowhere"), "is no SavedModel"),
        (lambda r: r["model"].update(source="samples_dir"), "expected 'saved_model'"),
        (lambda r: r.pop("ged"), "lacks ged"),
        (lambda r: r.update(ged={}), "ged is {}, expected one for each number"),
        (lambda r: r["ged"].update(x=r["ged"]["1"]), "ged of 'x', expected a number"),
        (lambda r: r["ged"]["1"].update(mean=None), "ged of 1 samples is"),
        (lambda r: r["ged"]["4"].update(mean=9.0), "expected a mean between low and"),
        (lambda r: r["ged"]["4"].update(mean=float("nan")), "ged of 4 samples is"),
        (lambda r: r["floor"].pop("4"), "not of the same numbers of samples"),
        (lambda r: r.update(hungarian_iou=0.5), "hungarian_iou is 0.5, expected"),
        (lambda r: r["data"].update(images=0), "images is 0, expected at least 1"),
        (lambda r: r["data"].update(split=None), "split is None, expected str"),
        (lambda r: r["protocol"].update(image_size=[8]), "expected two sizes"),
        (lambda r: r.update(command="'"), "command is no command line"),
    ],
)
def test_bad_results_are_refused(run, results, tmp_path, edit, message):
    bad = _edited(results, tmp_path / "bad", edit)
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(message)):
        export.export_run(run, tmp_path / "out", results=bad)
    assert not (tmp_path / "out").exists()


def test_scores_are_read_from_the_file_too(results, tmp_path):
    assert read_scores(results / "results.json") == read_scores(results)
    with pytest.raises(FileNotFoundError, match="no such results of an evaluation"):
        read_scores(tmp_path)


def test_a_model_without_latents_has_no_latent_signatures(tmp_path, phantom_dir):
    run_dirs.make_run(tmp_path / "run", phantom_dir, name="m_heads", num_heads=3)
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


def test_only_savedmodels_are_replaced_and_only_if_asked(run, tmp_path, monkeypatch):
    def write(module, path, signatures):
        pathlib.Path(path).mkdir()
        (pathlib.Path(path) / "saved_model.pb").write_text("new")

    monkeypatch.setattr(tf.saved_model, "save", write)
    out_dir = tmp_path / "out"
    export.export_run(run, out_dir)
    with pytest.raises(ValueError, match="out: exists already; --overwrite replaces"):
        export.export_run(run, out_dir)
    (out_dir / "saved_model.pb").write_text("old")
    export.export_run(run, out_dir, overwrite=True)
    assert (out_dir / "saved_model.pb").read_text() == "new"
    (out_dir / "saved_model.pb").rename(out_dir / "thesis.tex")
    with pytest.raises(ValueError, match="holds something else than a SavedModel"):
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


def _documented_json():
    blocks = re.findall(r"```json\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    return [json.loads(block) for block in blocks]


def _arrays(response):
    """Returns the outputs by name, whichever format they came in."""
    if "outputs" in response:
        return {k: np.array(v) for k, v in response["outputs"].items()}
    rows = response["predictions"]
    return {k: np.array([row[k] for row in rows]) for k in rows[0]}


def test_documented_rest_requests_get_the_documented_responses(loaded):
    documented = _documented_json()
    assert len(documented) == 4
    for request, expected in zip(documented[::2], documented[1::2]):
        response = json.loads(serving_json.predict(loaded, json.dumps(request)))
        assert sorted(response) == sorted(expected)
        for name, values in _arrays(expected).items():
            np.testing.assert_allclose(_arrays(response)[name], values, atol=1e-4)


def test_rest_requests_must_name_all_inputs(loaded):
    request = _documented_json()[0]
    del request["inputs"]["seed"]
    with pytest.raises(ValueError, match="got the inputs"):
        serving_json.predict(loaded, json.dumps(request))
