"""Each signature against the model, in numbers, and what they refuse."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_dirs

from tf_probunet import seeds
from tf_probunet.export.signatures import Signatures, image_seeds, segmentations

IMAGE = run_dirs.images(2, 8, 6, 1)
LABELS = np.random.default_rng(1).integers(0, 2, (2, 8, 6), np.int32)
Z = np.random.default_rng(2).normal(size=(2, 3, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return run_dirs.tiny_model()


@pytest.fixture(scope="module")
def functions(model):
    return Signatures(model).functions()


def _per_image(*numbers):
    return tf.stack([seeds.fold_in(seeds.root(n), 0) for n in numbers])


def test_sample_is_the_models_sample(model, functions):
    logits = model.sample(IMAGE, 5, _per_image(4, 9)).numpy()
    outputs = functions["sample"](IMAGE, 5, [4, 9])
    exponents = np.exp(logits.astype(np.float64))
    expected = exponents / exponents.sum(-1, keepdims=True)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    np.testing.assert_array_equal(outputs["labels"], logits.argmax(-1))
    assert np.ptp(logits.argmax(-1), axis=1).any(), "the samples are all alike"


@pytest.mark.parametrize(
    "settings",
    [{}, {"injection": "start"}, {"fixed_prior": True}, {"name": "image2image_vae"}],
)
@pytest.mark.parametrize("num_samples", [3, 17])
def test_stratified_samples_decode_stratified_latents(settings, num_samples):
    model = run_dirs.tiny_model(**settings)
    functions = Signatures(model).functions()
    z = functions["stratified_latents"](IMAGE, num_samples, [4, 9])["z"]
    prior, features = model.prior(IMAGE), model.features(IMAGE)
    drawn = model.stratified_latents(features, prior, num_samples, _per_image(4, 9))
    np.testing.assert_allclose(z, drawn, atol=1e-5)
    expected = functions["decode"](IMAGE, z)
    outputs = functions["stratified"](IMAGE, num_samples, [4, 9])
    for name in ("labels", "probabilities"):
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)
    alone = functions["stratified"](IMAGE[1:], num_samples, 9)
    np.testing.assert_allclose(
        alone["probabilities"], outputs["probabilities"][1:], atol=1e-5
    )


def test_prior_and_posterior_are_the_models(model, functions):
    for outputs, expected in (
        (functions["prior"](IMAGE), model.prior(IMAGE)),
        (
            functions["posterior"](image=IMAGE, labels=LABELS),
            model.posterior(image=IMAGE, labels=LABELS),
        ),
    ):
        np.testing.assert_allclose(outputs["mean"], expected.mean(), atol=1e-5)
        np.testing.assert_allclose(outputs["stddev"], expected.stddev(), rtol=1e-4)


def test_decode_runs_f_comb_on_given_latents(model, functions):
    logits = model.f_comb(model.unet(IMAGE), Z)
    outputs = functions["decode"](IMAGE, Z)
    np.testing.assert_allclose(
        outputs["probabilities"], tf.nn.softmax(logits), atol=1e-5
    )
    np.testing.assert_array_equal(outputs["labels"], tf.argmax(logits, -1))


def test_features_are_the_unets_where_latents_enter_at_the_end(model, functions):
    features = functions["features"](IMAGE)["features"]
    np.testing.assert_allclose(features, model.unet(IMAGE), atol=1e-5)
    early = run_dirs.tiny_model(injection="start")
    assert "features" not in Signatures(early).functions()


def test_samples_are_decoded_latents_of_the_prior(functions):
    prior = functions["prior"](IMAGE)
    noise = seeds.normal(_per_image(4, 9), [3, 2])
    z = prior["mean"][:, None] + prior["stddev"][:, None] * noise
    decoded = functions["decode"](IMAGE, z)["probabilities"]
    sampled = functions["sample"](IMAGE, 3, [4, 9])["probabilities"]
    np.testing.assert_allclose(decoded, sampled, atol=1e-5)


def test_mean_and_entropy_are_those_of_the_same_samples(functions):
    samples = functions["sample"](IMAGE, 6, 3)["probabilities"].numpy()
    outputs = functions["mean"](IMAGE, 6, 3)
    mean = samples.mean(1)
    np.testing.assert_allclose(outputs["mean"], mean, atol=1e-5)
    entropy = -(mean * np.log(mean)).sum(-1)
    np.testing.assert_allclose(outputs["entropy"], entropy, atol=1e-5)


def test_labels_of_mean_are_the_segmentation_at_the_priors_mean(functions):
    z = functions["prior"](IMAGE)["mean"][:, None]
    expected = functions["decode"](IMAGE, z)["labels"][:, 0]
    for seed in (0, 1):
        labels = functions["mean"](IMAGE, 2, seed)["labels"]
        np.testing.assert_array_equal(labels, expected)


def test_log_likelihood_is_the_models(model, functions):
    outputs = functions["log_likelihood"](IMAGE, LABELS, 7, [4, 9])
    expected = model.log_likelihood(
        image=IMAGE, labels=LABELS, num_samples=7, seed=_per_image(4, 9)
    )
    np.testing.assert_allclose(outputs["log_likelihood"], expected, rtol=1e-5)
    assert np.all(outputs["log_likelihood"].numpy() < 0)


def test_a_seed_per_image_makes_samples_independent_of_the_batch(functions):
    together = functions["sample"](IMAGE, 3, [4, 9])["probabilities"]
    for i, seed in enumerate((4, 9)):
        alone = functions["sample"](IMAGE[i : i + 1], 3, seed)["probabilities"]
        np.testing.assert_allclose(together[i], alone[0], atol=1e-5)


def test_more_samples_begin_with_those_of_fewer(functions):
    many = functions["sample"](IMAGE, 7, 4)["probabilities"]
    few = functions["sample"](IMAGE, 3, 4)["probabilities"]
    np.testing.assert_allclose(many[:, :3], few, atol=1e-5)


def test_one_seed_gives_equal_images_different_samples(functions):
    twice = np.concatenate([IMAGE[:1], IMAGE[:1]])
    samples = functions["sample"](twice, 3, 4)["probabilities"].numpy()
    assert np.abs(samples[0] - samples[1]).max() > 1e-3


def test_seeds_are_all_different():
    traced = tf.function(image_seeds)
    numbers = tf.concat([traced(tf.constant(n), 50) for n in range(-2, 3)], 0)
    assert len(np.unique(numbers.numpy(), axis=0)) == 250


@pytest.mark.parametrize("shape", [(1, 2, 2, 1), (5, 4, 12, 1), (3, 16, 2, 1)])
def test_any_batch_and_any_even_size(model, functions, shape):
    image = run_dirs.images(*shape)
    per_image = list(range(shape[0]))
    outputs = functions["sample"](image, 2, per_image)
    expected = tf.nn.softmax(model.sample(image, 2, _per_image(*per_image)))
    assert outputs["labels"].shape == (shape[0], 2, *shape[1:3])
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)


def test_two_classes_are_a_sigmoid_and_ties_go_to_the_first():
    logits = np.array([[0.0, 0.0], [200.0, -200.0], [-3.0, 1.5]], np.float32)
    outputs = segmentations(tf.constant(logits))
    np.testing.assert_array_equal(outputs["labels"], logits.argmax(-1))
    np.testing.assert_allclose(
        outputs["probabilities"], tf.nn.softmax(logits), atol=1e-6
    )


NAN_IMAGE = np.where(IMAGE == IMAGE.max(), np.nan, IMAGE)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("sample", (run_dirs.images(1, 7, 4, 1), 1), "image is 7 x 4, expected a"),
        (
            "sample",
            (run_dirs.images(1, 7, 4, 1), 1),
            "multiples of 2; the nearest",
        ),
        ("sample", (run_dirs.images(1, 7, 4, 1), 1), "are 6 x 4 and 8 x 4]"),
        ("sample", (run_dirs.images(1, 4, 1, 1), 1), "are 4 x 2 and 4 x 2]"),
        ("prior", (run_dirs.images(1, 0, 4, 1),), "image is 0 x 4"),
        ("prior", (IMAGE[:0],), "there is no image in the batch"),
        ("mean", (NAN_IMAGE,), "image has values that are not finite"),
        ("decode", (IMAGE * np.inf, Z), "image has values that are not finite"),
        ("sample", (IMAGE, 0), "num_samples is 0, expected at least 1"),
        ("mean", (IMAGE, -1), "num_samples is -1"),
        ("log_likelihood", (IMAGE, LABELS, 0), "num_samples is 0"),
        ("stratified", (IMAGE, 0), "num_samples is 0, expected at least 1"),
        ("stratified_latents", (IMAGE, 0), "num_samples is 0, expected at least 1"),
        ("sample", (IMAGE, 2, [1, 2, 3]), "3 seeds for 2 images"),
        ("posterior", (IMAGE, LABELS[:, :, :4]), "shape [2 8 4], expected [2 8 6]"),
        ("posterior", (IMAGE, LABELS + 1), "labels have values other than 0 to 1"),
        ("log_likelihood", (IMAGE, LABELS - 1), "labels have values other than 0"),
        ("sample", (IMAGE - 0.5,), "image has values from -0."),
        ("prior", (IMAGE * 255,), "expected 0 to 1: prepared as in training"),
        ("decode", (IMAGE, Z[:1]), "z has the shape [1 3 2] for 2 images"),
        ("decode", (IMAGE, Z[:, :0]), "z has the shape [2 0 2] for 2 images"),
        ("decode", (IMAGE, Z * np.nan), "z has values that are not finite"),
    ],
)
def test_bad_inputs_are_named(functions, name, arguments, message):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        functions[name](*arguments)
    assert message in str(error.value)


def test_ignored_labels_are_labels():
    model = run_dirs.tiny_model(num_classes=3, ignore_label=255)
    functions = Signatures(model).functions()
    labels = np.where(LABELS == 1, 255, LABELS)
    outputs = functions["posterior"](IMAGE, labels)
    expected = model.posterior(image=IMAGE, labels=labels).mean()
    np.testing.assert_allclose(outputs["mean"], expected, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="than 0 to 2 or 255"):
        functions["posterior"](IMAGE, labels + 3)
    # More than two classes take the general path to labels and probabilities.
    logits = model.f_comb(model.unet(IMAGE), Z)
    decoded = functions["decode"](IMAGE, Z)
    np.testing.assert_allclose(
        decoded["probabilities"], tf.nn.softmax(logits), atol=1e-5
    )
    np.testing.assert_array_equal(decoded["labels"], tf.argmax(logits, -1))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"name": "unet"}, 1),
        ({"name": "m_heads", "num_heads": 3}, 3),
        ({"name": "m_heads", "num_heads": 20}, 16),
    ],
)
def test_models_without_latents_sample_and_average_only(settings, expected):
    signatures = Signatures(run_dirs.tiny_model(**settings))
    functions = signatures.functions()
    assert sorted(functions) == ["mean", "sample"]
    assert signatures.default_samples == expected
    samples = functions["sample"](IMAGE)
    assert samples["labels"].shape == (2, expected, 8, 6)
    outputs = functions["mean"](IMAGE)
    mean = samples["probabilities"].numpy().mean(1)
    np.testing.assert_allclose(outputs["mean"], mean, atol=1e-5)
    np.testing.assert_array_equal(outputs["labels"], mean.argmax(-1))


def test_more_samples_than_heads_are_refused():
    functions = Signatures(run_dirs.tiny_model(name="m_heads", num_heads=3)).functions()
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 3"):
        functions["sample"](IMAGE, 4)


@pytest.fixture(scope="module")
def framed(model):
    """Functions of frames, of which the network sees the middle 4 x 4."""
    return Signatures(model, sees=4, values="divide by 255").functions()


# Of 9 x 6 pixels the network sees rows 2 to 5 and columns 1 to 4.
FRAME = run_dirs.images(2, 9, 6, 1, seed=3)
SEEN = FRAME[:, 2:6, 1:5]
FRAME_LABELS = np.random.default_rng(4).integers(0, 2, (2, 9, 6), np.int32)
AROUND = ((2, 3), (1, 1))


@pytest.mark.parametrize(
    "name, others",
    [
        ("sample", (3, [4, 9])),
        ("stratified", (3, [4, 9])),
        ("mean", (3, 5)),
        ("decode", (Z,)),
    ],
)
def test_maps_of_a_frame_are_background_around_what_is_seen(
    framed, functions, name, others
):
    outputs, seen = framed[name](FRAME, *others), functions[name](SEEN, *others)
    assert sorted(outputs) == sorted(seen)
    for key, maps in seen.items():
        if key in ("labels", "entropy"):
            before = [(0, 0)] * (maps.shape.rank - 2)
            expected = np.pad(maps, [*before, *AROUND])
        else:
            before = [(0, 0)] * (maps.shape.rank - 3)
            expected = np.pad(maps, [*before, *AROUND, (0, 0)])
            outside = np.pad(np.zeros((4, 4)), AROUND, constant_values=1)
            expected[..., 0] += outside
        np.testing.assert_array_equal(outputs[key], expected, err_msg=key)


@pytest.mark.parametrize(
    "name, others",
    [
        ("prior", ()),
        ("stratified_latents", (3, [4, 9])),
        ("features", ()),
        ("posterior", (FRAME_LABELS,)),
        ("log_likelihood", (FRAME_LABELS, 3, 5)),
    ],
)
def test_other_outputs_are_those_of_what_is_seen(framed, functions, name, others):
    seen = [FRAME_LABELS[:, 2:6, 1:5] if x is FRAME_LABELS else x for x in others]
    expected = functions[name](SEEN, *seen)
    for key, value in framed[name](FRAME, *others).items():
        np.testing.assert_array_equal(value, expected[key])


def test_a_frame_of_what_is_seen_is_passed_through(framed, functions):
    outputs, expected = framed["sample"](SEEN, 3, 1), functions["sample"](SEEN, 3, 1)
    for key, value in expected.items():
        np.testing.assert_array_equal(outputs[key], value)


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("sample", (FRAME[:, :3],), "image is 3 x 6, expected at least 4 x 4, of whi"),
        ("prior", (FRAME[:, :, :3],), "image is 9 x 3, expected at least 4 x 4"),
        ("mean", (FRAME * 255,), "expected 0 to 1: divide by 255"),
        ("sample", (FRAME[:0],), "there is no image in the batch"),
        ("posterior", (FRAME, LABELS), "shape [2 8 6], expected [2 9 6]"),
        ("sample", (FRAME, 0), "num_samples is 0, expected at least 1"),
    ],
)
def test_bad_frames_are_named(framed, name, arguments, message):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        framed[name](*arguments)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["unet", "m_heads", "dropout_unet"])
def test_frames_of_models_without_latents(name):
    signatures = Signatures(run_dirs.tiny_model(name=name), sees=4)
    outputs = signatures.functions()["sample"](FRAME, 1, 0)
    expected = signatures.network()["sample"](SEEN, 1, 0)
    np.testing.assert_array_equal(
        outputs["labels"], np.pad(expected["labels"], [(0, 0), (0, 0), *AROUND])
    )


def test_a_mixture_prior_shows_its_components():
    model = run_dirs.tiny_model(prior_components=3)
    functions = Signatures(model).functions()
    prior, found = model.prior(IMAGE), functions["prior"](IMAGE)
    parts = prior.components_distribution
    weights = tf.nn.softmax(prior.mixture_distribution.logits)
    np.testing.assert_allclose(found["component_weights"], weights, atol=1e-5)
    np.testing.assert_allclose(found["component_means"], parts.mean(), atol=1e-5)
    np.testing.assert_allclose(found["component_stddevs"], parts.stddev(), rtol=1e-4)
    mean = np.einsum("bk,bkl->bl", weights, parts.mean())
    np.testing.assert_allclose(found["mean"], mean, atol=1e-5)
    # The one segmentation that stands for all is at the heaviest component's mean.
    heaviest = parts.mean().numpy()[range(2), np.argmax(weights, axis=1)]
    expected = functions["decode"](IMAGE, heaviest[:, None])["labels"][:, 0]
    np.testing.assert_array_equal(functions["mean"](IMAGE, 2, 0)["labels"], expected)


def test_weighted_samples_have_the_weights_of_the_model():
    model = run_dirs.tiny_model(name="mixture", num_experts=2)
    frames = np.pad(IMAGE[:, :6], [(0, 0), (2, 2), (2, 2), (0, 0)])
    logits, weights = model.weighted(IMAGE[:, :6], 3, _per_image(4, 9))
    outputs = Signatures(model, sees=6).functions()["weighted"](frames, 3, [4, 9])
    np.testing.assert_allclose(outputs["weights"], weights, atol=1e-5)
    found = outputs["probabilities"][:, :, 2:-2, 2:-2]
    np.testing.assert_allclose(found, tf.nn.softmax(logits), atol=1e-5)
    np.testing.assert_array_equal(outputs["labels"][:, :, :2], 0)
