"""Reading results: names, chosen images, and errors that name the file."""

import json

import numpy as np
import pytest

from tf_probunet.figures import results


@pytest.fixture
def directory(tmp_path):
    write(tmp_path / "model")
    return tmp_path / "model"


def write(path, fingerprint="f", statistic="v", **per_image):
    path.mkdir()
    numbers = {
        "data": {"fingerprint": fingerprint, "split": "test"},
        "protocol": {"statistic": statistic},
    }
    (path / "results.json").write_text(json.dumps(numbers))
    np.savez(path / "per_image.npz", ged=np.arange(6.0).reshape(3, 2), **per_image)
    labels = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.ones(
        (3, 2, 4, 4), np.uint8
    )
    np.savez(
        path / "samples.npz",
        keys=np.array(["a", "b", "c"]),
        images=np.zeros((3, 4, 4, 1), np.float32),
        graders=labels,
        samples=labels,
    )


def test_chosen_images_come_in_the_order_asked_for(directory):
    (model,) = results.read([str(directory)])
    chosen = model.samples(["c", "a"])
    assert chosen.keys == ["c", "a"]
    assert chosen.graders[:, 0, 0, 0].tolist() == [2, 0]
    assert model.samples(number=2).keys == ["a", "b"]
    assert model.samples().keys == ["a", "b", "c"]
    assert model.samples().first(1).samples.shape == (1, 2, 4, 4)


def test_names_are_those_of_the_directories_unless_given(directory):
    assert results.read([str(directory)])[0].name == "model"
    assert results.read([str(directory)], ["ours"])[0].name == "ours"


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "1 for 2 results"), (["a", "a"], "'a' stands twice")],
)
def test_bad_names(directory, names, message):
    with pytest.raises(ValueError, match=message):
        results.read([str(directory)] * 2, names)


def test_missing_and_damaged_files_are_named(directory):
    with pytest.raises(FileNotFoundError, match="nowhere/results.json"):
        results.read([str(directory / "nowhere")])
    (model,) = results.read([str(directory)])
    with pytest.raises(results.UnavailableError, match="per_image.npz: no array 'x'"):
        model.array("x")
    with pytest.raises(ValueError, match="samples.npz: no image 'z'; there are a, b"):
        model.samples(["z"])
    (directory / "per_image.npz").write_bytes(b"no zip file")
    (fresh,) = results.read([str(directory)])
    with pytest.raises(ValueError, match="per_image.npz: damaged NPZ"):
        fresh.array("ged")
    (directory / "per_image.npz").unlink()
    (fresh,) = results.read([str(directory)])
    with pytest.raises(FileNotFoundError, match="per_image.npz: no such file"):
        fresh.array("ged")


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"fingerprint": "g"}, "data fingerprint"), ({"statistic": "u"}, "statistic")],
)
def test_other_data_or_protocol_can_not_be_compared(directory, changed, message):
    other = directory.parent / "other"
    write(other, **changed)
    models = results.read([str(directory), str(other)])
    results.check_comparable(models[:1])
    with pytest.raises(ValueError, match=f"{message} .*other"):
        results.check_comparable(models)
