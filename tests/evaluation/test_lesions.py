"""Lesions as volumes, against scores of stacked masks and samples drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import datasets
from helpers.evaluations import run
from helpers.threshold_model import probability, save_threshold_model

from tf_probunet.artifacts import results_dir
from tf_probunet.evaluation import lesions, sample_files, sources
from tf_probunet.evaluation.metrics import volumes
from tf_probunet.evaluation.metrics.ged import energy_distance
from tf_probunet.evaluation.metrics.matching import hungarian_iou
from tf_probunet.predict import latents

SIZE = datasets.SIZE
# Patient 0 has a lesion of three slices, which are 2.5 mm apart, and one of one slice.
_KEYS = ["p0_aaaaaa_n00_z0.00", "p0_aaaaaa_n00_z2.50", "p0_aaaaaa_n00_z5.00"]
_KEYS += ["p0_aaaaaa_n01_z0.00", "p1_bbbbbb_n00_z7.00", "p1_bbbbbb_n00_z6.00"]
_LESION = "p0_aaaaaa_n00"


@pytest.fixture(scope="module")
def slices():
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 255, SIZE * SIZE).reshape(SIZE, SIZE)
    examples = []
    for i, key in enumerate(_KEYS):
        image = np.roll(ramp, 5 * i).astype(np.uint8)
        labels = (image > rng.integers(60, 200, (2, 1, 1))).astype(np.uint8)
        examples.append(
            datasets.example(
                i,
                key=key,
                group=key[:2],
                image=image[..., None],
                labels=labels,
                spacing_mm=(0.5, 0.8),
            )
        )
    return examples


@pytest.fixture(scope="module")
def info(tmp_path_factory, slices):
    spec = datasets.spec(class_names=("none", "lesion"), num_graders=2)
    return datasets.write(tmp_path_factory.mktemp("lesions"), {"test": slices}, spec)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "threshold"
    return save_threshold_model(path, intensity="uint8", eval_size=SIZE)


@pytest.fixture(scope="module")
def results(tmp_path_factory, info, model):
    out = tmp_path_factory.mktemp("results")
    found = run(
        out, info.data_dir, saved_model=str(model), by="lesion", num_samples=(2, 5)
    )
    return out, found


def _volume(slices, noise_of):
    """Draws the samples of the first lesion from the closed form of the model."""
    stack = []
    for one in slices[:3]:
        image = one.image[..., 0] / 255
        z = image.mean() + 0.1 * noise_of(one.key)[:, 0]  # [S]
        stack.append([probability(image, level) > 0.5 for level in z])
    return np.array(stack).swapaxes(0, 1).reshape(5, 3 * SIZE, SIZE)


def _noise(name):
    return latents.draw_noise(5, 1, sources.image_seed(0, name))


def test_samples_share_their_noise_through_the_slices(slices, results):
    out, _ = results
    arrays = results_dir.read(out).per_image
    assert arrays["keys"].tolist() == [_LESION, "p0_aaaaaa_n01", "p1_bbbbbb_n00"]
    graders = np.concatenate([one.labels for one in slices[:3]], axis=1)  # [2, 24, 8]
    shared = _volume(slices, lambda key: _noise(_LESION))
    own = _volume(slices, _noise)
    assert (shared != own).any()
    assert arrays["ged"][0, 1] == pytest.approx(energy_distance(shared, graders))
    assert arrays["ged"][0, 0] == pytest.approx(energy_distance(shared[:2], graders))
    assert arrays["independent_ged"][0, 1] == pytest.approx(
        energy_distance(own, graders)
    )
    assert arrays["hungarian_iou"][0] == pytest.approx(hungarian_iou(shared, graders))
    majority = shared.mean(axis=0, keepdims=True) > 0.5
    assert arrays["majority_ged"][0, 1] == pytest.approx(
        energy_distance(majority, graders)
    )
    marked = [one.image[..., 0] / 255 > one.image.mean() / 255 for one in slices[:3]]
    assert arrays["prior_mean_hungarian_iou"][0] == pytest.approx(
        hungarian_iou(np.concatenate(marked)[None], graders)
    )


def test_volumes_are_in_mm3(slices, results):
    out, found = results
    arrays = results_dir.read(out).per_image
    np.testing.assert_allclose(arrays["voxel_mm3"], [1.0, 1.0, 0.4])
    shared = _volume(slices, lambda key: _noise(_LESION)).reshape(5, -1).sum(axis=1)
    graders = np.array([[one.labels[g].sum() for one in slices[:3]] for g in range(2)])
    np.testing.assert_allclose(arrays["sample_volumes"][0], shared)
    np.testing.assert_allclose(arrays["grader_volumes"][0], graders.sum(axis=1))
    expected = volumes.crps(shared, graders.sum(axis=1)).mean()
    assert arrays["volume_crps"][0] == pytest.approx(expected)
    assert found["volume_unit"] == "mm3"
    assert found["data"]["lesions"] == 3 and found["data"]["images"] == 6
    apart = found["ways"]["independent"]["difference"]["ged"]["mean"]
    means = [found["ways"][w]["ged"]["mean"] for w in ("independent", "shared")]
    assert apart == pytest.approx(means[0] - means[1])
    assert found["ged"]["5"] == found["ways"]["shared"]["ged"]


def test_smoothing_moves_the_priors_towards_their_neighbours():
    means = {key: np.array([float(i)]) for i, key in enumerate(_KEYS)}
    found = lesions.smoothed(means, _KEYS, sigma=1.0)
    near, far = np.exp(-0.5), np.exp(-2)
    total = 1 + near + far
    assert found[_KEYS[0]] == pytest.approx([(near + 2 * far) / total])
    assert found[_KEYS[1]] == pytest.approx([1.0])
    assert found[_KEYS[3]] == pytest.approx([3.0])  # It has no neighbour.
    assert found[_KEYS[4]] == pytest.approx([(4 + 5 * near) / (1 + near)])


def test_stratified_noise_is_shared_too(tmp_path, slices, info, model):
    settings = {"saved_model": str(model), "by": "lesion", "sampling": "stratified"}
    run(tmp_path / "out", info.data_dir, num_samples=(5,), **settings)
    arrays = results_dir.read(tmp_path / "out").per_image
    seed = sources.image_seed(0, _LESION)
    noise = latents.draw_noise(5, 1, seed, "stratified")
    shared = _volume(slices, lambda key: noise)
    graders = np.concatenate([one.labels for one in slices[:3]], axis=1)
    assert arrays["ged"][0, 0] == pytest.approx(energy_distance(shared, graders))
    with pytest.raises(ValueError, match="expected one number with by='lesion'"):
        run(tmp_path / "two", info.data_dir, num_samples=(2, 5), **settings)


def test_samples_of_another_program_are_stacked_by_number(tmp_path, info, slices):
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 2, (len(_KEYS), 4, SIZE, SIZE)).astype(np.uint8)
    for key, maps in zip(_KEYS, drawn):
        sample_files.write(tmp_path / "samples", key, maps)
    found = run(
        tmp_path / "out",
        info.data_dir,
        samples_dir=str(tmp_path / "samples"),
        by="lesion",
        num_samples=(4,),
    )
    assert list(found["ways"]) == ["stacked"]
    arrays = results_dir.read(tmp_path / "out").per_image
    graders = np.concatenate([one.labels for one in slices[:3]], axis=1)
    stacked = np.concatenate(list(drawn[:3]), axis=1)
    assert arrays["ged"][0, 0] == pytest.approx(energy_distance(stacked, graders))


def test_data_without_lesions_are_refused(tmp_path, model):
    spec = datasets.spec(class_names=("none", "lesion"))
    labels = np.ones((4, SIZE, SIZE), np.uint8)
    info = datasets.write(
        tmp_path, {"test": [datasets.example(1, labels=labels)]}, spec
    )
    with pytest.raises(ValueError, match="^key-001: names no slice of a lesion"):
        run(tmp_path / "out", info.data_dir, saved_model=str(model), by="lesion")
    with pytest.raises(ValueError, match="limit is 3, expected 0 with by='lesion'"):
        run(tmp_path / "out", tmp_path, saved_model="x", by="lesion", limit=3)
