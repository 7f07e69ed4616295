"""Parameters and multiply-adds: by hand, and counted in the models themselves."""

import dataclasses
import math
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from helpers import tiny
from helpers.goldens import GOLDENS, Golden

from tf_probunet import models
from tf_probunet.config import ModelConfig
from tf_probunet.models import cost
from tf_probunet.models.prob_unet import ProbUNet

ROOT = pathlib.Path(__file__).parents[2]
TINY = tiny.network(base_channels=2, latent_dim=None)
HEIGHT, WIDTH = 8, 16


def test_unet_by_hand():
    unet = cost.cost(dataclasses.replace(TINY, name="unet"), 4, 4)
    # Blocks 1 -> 2 at 16 pixels, 2 -> 4 at 4, (4 + 2) -> 2 at 16; three 1x1 of 2 -> 2.
    convolutions = 16 * 9 * 1 * 2 + 4 * 9 * 2 * 4 + 16 * 9 * 6 * 2
    assert unet.multiply_adds(1) == convolutions + 3 * 16 * 2 * 2 == 2496
    assert unet.multiply_adds(16) == 2496
    weights, biases = 9 * (1 * 2 + 2 * 4 + 6 * 2) + 3 * 2 * 2, 2 + 4 + 2 + 3 * 2
    assert unet.parameters == unet.sampling_parameters == weights + biases == 224


def test_prob_unet_by_hand():
    found = cost.cost(dataclasses.replace(TINY, latent_dim=3), 4, 4)
    # The prior: 1 -> 2 at 16 pixels, 2 -> 4 at 4, then 4 -> 6 on the pooled map.
    prior = 16 * 9 * 2 + 4 * 9 * 8 + 4 * 6
    # Of f_comb's three layers the first runs once, but for the latent's 3 x 2 weights.
    each = 3 * 2 + 2 * 16 * 2 * 2
    trunk = 2496 - 2 * 16 * 2 * 2
    assert found.multiply_adds(1) == trunk + prior + each
    assert found.multiply_adds(16) == trunk + prior + 16 * each
    encoder = 9 * (1 * 2 + 2 * 4) + 2 + 4
    wider_encoder = encoder + 9 * 2 * 2  # It sees two classes more.
    last = 4 * 6 + 6
    assert found.sampling_parameters == 224 + 3 * 2 + encoder + last
    assert found.parameters == found.sampling_parameters + wider_encoder + last
    # Pooled by 2, the prior's convolutions run at 4 pixels and 1.
    pooled = dataclasses.replace(TINY, latent_dim=3, latent_pooling=2)
    saved = (16 - 4) * 9 * 2 + (4 - 1) * 9 * 8
    cheaper = cost.cost(pooled, 4, 4)
    assert cheaper.multiply_adds(1) == found.multiply_adds(1) - saved
    assert cheaper.parameters == found.parameters
    # Seven more runs of the U-Net; its head is f_comb, which runs as often as before.
    averaged = dataclasses.replace(TINY, latent_dim=3, average_symmetries=True)
    dearer = cost.cost(averaged, 4, 4)
    unet = 2496 - 3 * 16 * 2 * 2
    assert dearer.multiply_adds(16) == found.multiply_adds(16) + 7 * unet
    assert dearer.parameters == found.parameters


def test_samples_that_share_nothing_cost_as_much_as_the_first():
    for name in ("dropout_unet", "image2image_vae"):
        found = cost.cost(dataclasses.replace(TINY, name=name), 8, 8)
        assert found.multiply_adds(16) == 16 * found.multiply_adds(1)


def _count(function, *inputs):
    """The multiply-adds of a graph's convolutions and products."""
    graph = tf.function(function).get_concrete_function(*inputs).graph
    total = 0
    for operation in graph.get_operations():
        shapes = [tensor.shape.as_list() for tensor in operation.inputs]
        if operation.type == "Conv2D":
            height, width, channels, _ = shapes[1]
            outputs = operation.outputs[0].shape.num_elements()
            total += height * width * channels * outputs
        elif operation.type == "Einsum":
            terms = operation.get_attr("equation").decode().split("->")[0].split(",")
            sizes = {n: s for t, shape in zip(terms, shapes) for n, s in zip(t, shape)}
            total += math.prod(sizes.values())
    return total


def _one_sample(model, image):
    """What a model computes for one sample, without the loop over samples."""
    if isinstance(model, ProbUNet):
        z = model.prior(image).mean()[:, None]
        return model.decode(model.features(image), z)
    if model.config.name == "dropout_unet":
        return model.logits(image, tf.zeros([1, 2], tf.int32))
    if model.config.name == "hpu_net":
        return model.decode(model.shared(image), lambda i, mean, log_stddev: mean)[0]
    if model.config.name == "mixture":
        shared = model.shared(image)
        z = tf.zeros([1, 1, model.config.num_latents])
        return model.decode(shared.features, z), shared.weights
    if model.config.name == "ssn":
        common = tf.zeros([1, 1, model.config.covariance_rank])
        return model.draw(model.shared(image), common, tf.zeros([1, 2], tf.int32))
    return model.logits(image)


WIDE = Golden("wide", "prob_unet", "ProbUNet", {"latent_dim": 2, "comb_channels": 5})
POOLED = Golden("pooled", "prob_unet", "ProbUNet", {"input_pooling": 2})


@pytest.mark.parametrize(
    "golden", [*GOLDENS, WIDE, POOLED], ids=lambda golden: golden.name
)
def test_counts_are_the_models_own(golden):
    changes = {"num_scales": 3, "convs_per_block": 2, "num_classes": 5}
    config = dataclasses.replace(golden.config(), image_channels=3, **changes)
    model = models.build(config)
    members = golden.num_members
    found = cost.cost(config, HEIGHT, WIDTH, members)
    sizes = [math.prod(v.shape) for v in model.trainable_variables]
    assert found.parameters == sum(sizes) * max(members, 1)
    image = tf.zeros([1, HEIGHT, WIDTH, 3])
    assert found.multiply_adds(1) == _count(lambda x: _one_sample(model, x), image)


def test_the_table_in_the_docs_is_what_the_command_prints():
    printed = subprocess.run(
        [sys.executable, "run/model_table.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout
    assert printed.count("\n") == 2 + len(list(cost.rows()))
    assert printed in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_all_models_share_the_core_and_are_comparable():
    rows = {
        title: cost.cost(ModelConfig(name=variant.model, **variant.settings), 128, 128)
        for title, variant in cost.rows()
    }
    unet = rows["U-Net"]
    for title, row in rows.items():
        # Sampling needs the U-Net's parameters, and the prior's where there is one.
        single = row.sampling_parameters / row.copies
        assert 1.0 <= single / unet.parameters < 1.7, title
    assert rows["Probabilistic U-Net"].multiply_adds(16) < 1.5 * unet.multiply_adds(1)
