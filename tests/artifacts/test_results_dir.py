"""Results directories: what is written comes back, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import results_writer

from tf_probunet.artifacts import results_dir

KEYS = np.array(["a", "b", "c"])
GED = np.arange(6.0).reshape(3, 2)
LABELS = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.ones(
    (3, 2, 4, 4), np.uint8
)
SAMPLES = {
    "keys": KEYS,
    "images": np.zeros((3, 4, 4, 1), np.float32),
    "graders": LABELS,
    "samples": LABELS,
}


def interval(mean):
    return {"mean": mean, "low": 0.0, "high": 9.0}


def write(path, **changes):
    numbers = {
        "ged": {"1": interval(2.0), "4": interval(3.0)},
        "hungarian_iou": interval(0.5),
        "ambiguity": {"accuracy": 0.75},
    }
    per_image = {"keys": KEYS, "ged": GED, "hungarian_iou": np.array([0.2, 0.5, 0.8])}
    return results_writer.write(
        path, numbers, per_image, counts=(1, 4), samples=SAMPLES, **changes
    )


@pytest.fixture
def directory(tmp_path):
    return write(tmp_path / "model")


def edit(directory, change):
    """Changes `results.json`."""
    path = directory / results_dir.RESULTS_NAME
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def store(directory, **per_image):
    """Replaces `per_image.npz`."""
    np.savez(directory / results_dir.PER_IMAGE_NAME, **per_image)


def test_what_is_written_comes_back(directory):
    found = results_dir.read(directory)
    assert (found.path, found.name, found.counts) == (directory, "model", [1, 4])
    assert found.summary["data"]["images"] == 3
    np.testing.assert_array_equal(found.array("ged"), GED)
    assert found.values("ged", 4) == {"a": 1, "b": 3, "c": 5}
    assert found.values("hungarian_iou", 4) == {"a": 0.2, "b": 0.5, "c": 0.8}
    assert found.values("ambiguity.accuracy", 4) is None
    assert results_dir.read(directory / "results.json", "ours").name == "ours"
    assert results_dir.read(directory / "results.json").path == directory


def test_intervals_by_number_of_samples(directory):
    found = results_dir.read(directory)
    assert found.interval("ged", 1) == interval(2.0)
    assert found.interval("hungarian_iou", 4) == interval(0.5)
    scalar = {"mean": 0.75, "low": None, "high": None}
    assert found.interval("ambiguity.accuracy", 4) == scalar
    # Reported for the largest number of samples only; and what is not there at all.
    assert found.interval("hungarian_iou", 1) is None
    assert found.interval("ged", 8) is found.interval("floor", 4) is None
    assert found.required_interval("ged", 1) == interval(2.0)
    with pytest.raises(ValueError, match="results.json: lacks floor of 4 samples"):
        found.required_interval("floor", 4)
    found.summary["ged"]["4"] = 3.0
    message = "results.json: ged of 4 samples is 3.0, expected a mean between low and"
    with pytest.raises(ValueError, match=message):
        found.interval("ged", 4)


def test_results_json_is_written_last(directory, monkeypatch):
    def fail(path, content):
        raise OSError("disk full")

    monkeypatch.setattr(results_dir.files, "write_text", fail)
    with pytest.raises(OSError):
        write(directory)
    assert not (directory / "results.json").exists()


def test_existing_results_are_not_replaced_by_default(directory, tmp_path):
    results_dir.refuse_existing(tmp_path / "new", overwrite=False)
    results_dir.refuse_existing(directory, overwrite=True)
    with pytest.raises(ValueError, match="results.json: exists already; --overwrite"):
        results_dir.refuse_existing(directory, overwrite=False)


def test_chosen_images_come_in_the_order_asked_for(directory):
    model = results_dir.read(directory)
    chosen = model.samples(["c", "a"])
    assert chosen.keys == ["c", "a"]
    assert chosen.graders[:, 0, 0, 0].tolist() == [2, 0]
    assert model.samples(number=2).keys == ["a", "b"]
    assert model.samples().keys == ["a", "b", "c"]
    assert model.samples().first(1).samples.shape == (1, 2, 4, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": KEYS[:2]}, "have 2, 3, 3, 3 entries; expected the same number"),
        (
            {"images": SAMPLES["images"][..., 0]},
            r"the shapes \[3, 4, 4\], \[3, 2, 4, 4",
        ),
        ({"graders": LABELS[..., :3]}, r"expected \[K, H, W, C\], \[K, G, H, W\]"),
    ],
)
def test_samples_that_do_not_fit_each_other(directory, changes, message):
    np.savez(directory / "samples.npz", **{**SAMPLES, **changes})
    with pytest.raises(ValueError, match=f"samples.npz: .*{message}"):
        results_dir.read(directory).samples()


def test_what_is_not_there_is_named(directory):
    model = results_dir.read(directory)
    with pytest.raises(results_dir.UnavailableError, match="npz: no array 'x' in it"):
        model.array("x")
    assert not model.has("x") and model.has("ged")
    with pytest.raises(ValueError, match="samples.npz: no image 'z'; there are a, b"):
        model.samples(["z"])
    np.savez(directory / "samples.npz")
    with pytest.raises(results_dir.UnavailableError, match="no array 'keys'"):
        results_dir.read(directory).samples()


def test_missing_and_damaged_files(directory, tmp_path):
    with pytest.raises(
        FileNotFoundError, match="nowhere/results.json: no such results"
    ):
        results_dir.read(tmp_path / "nowhere")
    (directory / "per_image.npz").write_bytes(b"half")
    with pytest.raises(ValueError, match="per_image.npz: damaged NPZ"):
        results_dir.read(directory).array("ged")
    (directory / "per_image.npz").unlink()
    with pytest.raises(FileNotFoundError, match="per_image.npz: no such NPZ file"):
        results_dir.read(directory).array("ged")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.clear(), "lacks command, data, ged, model, protocol"),
        (lambda r: r.update(ged=[]), r"ged is \[\], expected dict"),
        (lambda r: r.update(ambiguity=1), "ambiguity is 1, expected dict"),
        (lambda r: r["model"].pop("name"), "lacks name"),
        (lambda r: r["data"].update(images="3"), "images is '3', expected int"),
        (lambda r: r["data"].update(groups=0), "groups is 0, expected at least 1"),
        (lambda r: r["protocol"].update(image_size=[8]), "image_size is .* two sizes"),
        (lambda r: r.update(ged={}), "ged is {}, expected one for each number of"),
        (lambda r: r.update(floor=1), "floor is 1, expected one for each number of"),
        (lambda r: r["ged"].update(x=interval(1)), "ged of 'x', expected a number"),
        (
            lambda r: r["ged"]["1"].update(mean=None),
            "ged of 1 samples is {'mean': ",
        ),
        (
            lambda r: r["ged"]["1"].update(low=None),
            "ged of 1 samples is .*, exp",
        ),
        (lambda r: r["ged"]["1"].update(mean=10), "expected a mean between low and h"),
        (
            lambda r: r.update(hungarian_iou=0.5),
            "hungarian_iou is 0.5, expected a",
        ),
    ],
)
def test_results_of_another_schema(directory, change, message):
    edit(directory, change)
    with pytest.raises(ValueError, match=f"results.json: .*{message}"):
        results_dir.read(directory)


def test_undefined_means_and_means_without_bounds_are_results(directory):
    undefined = {"mean": None, "low": None, "high": None, "left_out": 3}
    alone = {"mean": 0.5, "low": None, "high": None}
    edit(directory, lambda r: r["ged"].update({"1": undefined, "4": alone}))
    found = results_dir.read(directory)
    assert found.interval("ged", 1) == undefined
    assert found.interval("ged", 4) == alone


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": np.array(["a", "a", "b"])}, "keys are not a list of different names"),
        ({"counts": np.array([0.5, 1])}, "counts are not a list of whole numbers"),
        ({"ged": GED[:2]}, r"ged is float64\[2, 2\], expected numbers for 3 images"),
        ({"ged": GED.astype(str)}, "ged is <U32"),
    ],
)
def test_arrays_that_do_not_fit_each_other(directory, changes, message):
    store(
        directory, **{"keys": KEYS, "counts": np.array([1, 4]), "ged": GED, **changes}
    )
    with pytest.raises(ValueError, match=f"per_image.npz: {message}"):
        results_dir.read(directory).array("ged")


def test_arrays_that_are_missing_or_of_another_shape(directory):
    store(directory, ged=GED)
    with pytest.raises(ValueError, match="per_image.npz: lacks counts, keys"):
        results_dir.read(directory).array("ged")
    store(directory, keys=KEYS, counts=np.array([1, 4]), ged=GED, brier=np.zeros(2))
    with pytest.raises(ValueError, match=r"brier is float64\[2\], expected numbers"):
        results_dir.read(directory).values("brier", 4)


def test_names(directory, tmp_path):
    same = write(tmp_path / "other", model__name="model")
    other = write(tmp_path / "third")
    names = [r.name for r in results_dir.read_all([directory, other])]
    assert names == ["model", "third"]
    names = [r.name for r in results_dir.read_all([directory, same])]
    assert names == [str(directory), str(same)]
    names = [r.name for r in results_dir.read_all([directory, same], ["x", "y"])]
    assert names == ["x", "y"]
    with pytest.raises(
        ValueError, match="names are x: got 1, expected 2, one for each"
    ):
        results_dir.read_all([directory, same], ["x"])
    for paths, names in (([directory, same], ["x", "x"]), ([directory] * 2, None)):
        with pytest.raises(
            ValueError, match="names two of the results, expected a dif"
        ):
            results_dir.read_all(paths, names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__fingerprint": "g"}, "data.fingerprint is '0.*' in the first and 'g'"),
        ({"data__split": "val"}, "data.split is 'test' in the first and 'val' in the"),
        (
            {"protocol__statistic": "u"},
            "protocol.statistic is 'v' in the first and 'u'",
        ),
        ({"protocol__limit": 7}, "protocol.limit is 0 in the first and 7"),
        ({"protocol__new": 1}, "protocol.new is None in the first and 1"),
    ],
)
def test_other_data_and_protocols_are_refused(directory, tmp_path, changes, message):
    other = write(tmp_path / "other", **changes)
    with pytest.raises(ValueError, match=f"model and .*other cannot .*: {message}"):
        results_dir.read_all([directory, other])


def test_other_numbers_of_samples_can_be_compared(directory, tmp_path):
    free = {"protocol__num_samples": [1], "protocol__validation_split": "val"}
    other = write(tmp_path / "other", **free)
    assert len(results_dir.read_all([directory, other])) == 2


def test_lookup():
    assert results_dir.lookup({"a": {"b": 3}}, "a.b") == 3
    assert results_dir.lookup({"a": {"b": 3}}, "a.c") is None
    assert results_dir.lookup({"a": 3}, "a.b") is None
