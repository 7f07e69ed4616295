"""The latent plane of a model that is simple enough to know what it must show."""

import json
import pathlib

import numpy as np
import pytest
from matplotlib.patches import Circle

from tf_probunet.artifacts.results_dir import UnavailableError
from tf_probunet.artifacts.saved_model_dir import Description
from tf_probunet.config import Config, DataConfig, ModelConfig
from tf_probunet.figures import latent_plane

MEAN, STDDEV = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, 1.0])
SIZE = 16


class SquareModel:
    """Marks rows below a height set by z[0], in columns up to a width set by z[1]."""

    def __init__(self):
        self.decoded = []

    def prior(self, image):
        return {"mean": MEAN[None], "stddev": STDDEV[None]}

    def posterior(self, image, labels):
        # The area sets how far out the posterior lies, in all dimensions.
        areas = np.asarray(labels).sum(axis=(1, 2))[:, None] / 16
        return {"mean": MEAN + STDDEV * areas, "stddev": np.ones((len(areas), 3))}

    def decode(self, image, z):
        z = np.asarray(z)
        self.decoded.append(z[0])
        scaled = (z - MEAN) / STDDEV  # [1, S, 3]
        sides = np.rint(4 + scaled[..., None, None, :2] * 2)
        rows, cols = np.indices((SIZE, SIZE))
        marked = (rows < sides[..., 0]) & (cols < sides[..., 1])
        return {"labels": marked.astype(np.int32)}


def settings(data=None, **model):
    network = ModelConfig(latent_dim=3, **model)
    dataset = {"class_names": ["background", "lesion"]}
    return Description(pathlib.Path("m"), network, data or DataConfig(), {}, dataset)


def example():
    labels = np.zeros((4, SIZE, SIZE), np.int32)
    labels[1, :4, :4] = 1  # One standard deviation out.
    labels[2, :4, :8] = 1  # Two.
    labels[3, :12, :12] = 1  # Nine: beyond the plane.
    return {"key": "a", "image": np.zeros((SIZE, SIZE, 1)), "labels": labels}


@pytest.fixture(scope="module")
def plane():
    return latent_plane.plane(SquareModel(), settings(), example(), (0, 1))


def test_samples_lie_at_their_place(plane):
    places = latent_plane.grid_positions()
    assert places[[0, 9, -1]].tolist() == [-4.5, 0.0, 4.5]
    assert plane.samples.shape == (19, 19, SIZE, SIZE)
    for row in (3, 9, 15):
        for col in (4, 9, 14):
            # The first latent dimension goes along a row of the plane.
            height = max(0, np.rint(4 + 2 * places[col]))
            width = max(0, np.rint(4 + 2 * places[row]))
            assert plane.samples[row, col].sum() == height * width


def test_dimensions_out_of_the_plane_stay_at_the_mean():
    model = SquareModel()
    shown = latent_plane.plane(model, settings(), example(), (0, 2))
    z = np.concatenate(model.decoded)
    assert z.shape == (361, 3)
    assert (z[:, 1] == np.float32(MEAN[1])).all()
    np.testing.assert_allclose(
        z[[0, -1], 0], MEAN[0] + STDDEV[0] * np.array([-4.5, 4.5])
    )
    # All samples are as wide as the mean's.
    assert not shown.samples[..., 4:].any()


def test_decoding_is_cut_into_parts(monkeypatch):
    monkeypatch.setattr(latent_plane, "_DECODE_BYTES", 100 * SIZE * SIZE * 2 * 4)
    model = SquareModel()
    latent_plane.plane(model, settings(), example(), (0, 1))
    assert [len(z) for z in model.decoded] == [100, 100, 100, 61]


def test_graders_are_where_the_posterior_puts_them(plane):
    np.testing.assert_allclose(plane.positions[:, 0], [0, 1, 2, 9])
    np.testing.assert_allclose(plane.off_plane, [0, 1, 2, 9])
    axis = latent_plane.draw(plane).axes[0]
    texts = {t.get_text(): t for t in axis.texts if t.get_gid() == "grader"}
    assert set(texts) == {"1", "2", "3", "(4)"}
    assert texts["1"].get_position() == (0, 0)
    assert texts["3"].get_position() == pytest.approx((2, 2))
    edge = axis.get_xlim()[1]
    assert 4 < max(texts["(4)"].get_position()) < edge == pytest.approx(4.75)
    alphas = [texts[name].get_alpha() for name in ("1", "2", "(4)")]
    assert alphas == [1.0, 0.8, 0.6]


def test_circles_and_mosaic(plane):
    figure = latent_plane.draw(plane)
    axis = figure.axes[0]
    circles = [p for p in axis.patches if isinstance(p, Circle)]
    assert [c.get_radius() for c in circles] == [1, 2, 3, 4]
    assert {c.get_center() for c in circles} == {(0, 0)}
    mosaic = axis.images[0].get_array()
    # The picture at the lower left is the sample at low values of both dimensions.
    cell = mosaic.shape[0] // 19
    assert (mosaic[-cell:, :cell] < 0.5).all()
    assert (mosaic[:cell, -cell:] > 0.5).any()
    assert len(figure.axes) == 1 + 1 + 4  # Plane, image, graders.
    assert "$z_{0}$" in axis.get_xlabel() and "$z_{1}$" in axis.get_ylabel()


def test_graders_at_one_place_share_a_text():
    same = example()
    same["labels"][2] = same["labels"][1]
    shown = latent_plane.plane(SquareModel(), settings(), same, (0, 1))
    axis = latent_plane.draw(shown).axes[0]
    texts = {t.get_text() for t in axis.texts if t.get_gid() == "grader"}
    assert texts == {"1", "2,3", "(4)"}
    assert latent_plane._ranges([5, 0, 2, 1, 9, 8]) == "0–2,5,8,9"
    assert latent_plane._ranges([0, 2, 4, 6, 8]) == "0,2,4,6,\n8"


def test_window_is_a_square_around_all_masks(plane):
    samples = np.zeros((19, 19, 40, 60), np.uint8)
    samples[0, 0, 10:20, 50:54] = 1
    shown = plane._replace(
        image=np.zeros((40, 60, 1)),
        samples=samples,
        graders=np.zeros((1, 40, 60), np.uint8),
    )
    rows, cols = latent_plane._window(shown, binary=True)
    assert rows.stop - rows.start == cols.stop - cols.start == 13
    assert rows.start <= 10 and rows.stop >= 20
    assert cols.start <= 50 and cols.stop >= 54
    empty = shown._replace(samples=np.zeros_like(samples))
    assert latent_plane._window(empty, binary=True) == (slice(0, 40), slice(0, 60))


def test_street_scenes_have_modes_for_graders():
    scene = np.zeros((1, SIZE, SIZE), np.int32)
    scene[:, :4] = 13  # Car and road: four modes.
    described = settings(DataConfig(task="switched"), num_classes=24)
    shown = latent_plane.plane(
        SquareModel(), described, {**example(), "labels": scene}, (0, 1)
    )
    assert [name.split(":")[0] for name in shown.grader_names] == [
        "mode 0",
        "mode 4",
        "mode 16",
        "mode 20",
    ]
    assert np.unique(shown.graders[3]).tolist() == [21, 23]


def write_assets(path, signatures=("decode", "posterior", "prior"), latent_dim=3):
    (path / "assets").mkdir(parents=True)
    (path / "saved_model.pb").touch()
    metadata = {
        "model": "some",
        "signatures": list(signatures),
        "max_samples": None,
        "is_stochastic": True,
        "size_divisor": 2,
        "parameters": 0,
    }
    dataset = {
        "name": "some",
        "fingerprint": "0",
        "class_names": ["background", "lesion"],
        "intensity": "hu",
        "preparation": {},
    }
    config = Config(model=ModelConfig(latent_dim=latent_dim)).to_json()
    config["training"]["of_another_version"] = 1
    contents = {"metadata": metadata, "dataset": dataset, "config": config}
    for name, content in contents.items():
        (path / f"assets/{name}.json").write_text(json.dumps(content))
    return path


def planes(path, dims=(0, 1)):
    return list(latent_plane.planes(saved_model=path, data_dir="x", dims=dims))


def test_models_without_a_latent_plane_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
        planes(tmp_path / "nowhere")
    with pytest.raises(UnavailableError, match="'some' has no latent space"):
        planes(write_assets(tmp_path / "a", signatures=["mean"]))
    with pytest.raises(UnavailableError, match="latent_dim is 1"):
        planes(write_assets(tmp_path / "b", latent_dim=1))
    path = write_assets(tmp_path / "c")
    for dims in ((0, 3), (1, 1)):
        with pytest.raises(ValueError, match="dims are .* from 0 to 2"):
            planes(path, dims)
