"""Tests of tf_probunet.dataset.input_pipeline."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers import datasets

from tf_probunet import seeds
from tf_probunet.config import (
    AugmentationConfig,
    Config,
    DataConfig,
    ModelConfig,
    TrainingConfig,
)
from tf_probunet.dataset import input_pipeline, records
from tf_probunet.dataset.cityscapes_labels import SWITCHES

_NUM_TRAIN, _NUM_VAL, _BATCH = 10, 6, 5


def _config(**changes) -> Config:
    """Whole images, unaugmented: pixels still tell example and grader."""
    sections = {
        "model": ModelConfig(num_scales=1),
        "data": DataConfig(crop_size=0, eval_size=0),
        "augmentation": AugmentationConfig.off(),
        "training": TrainingConfig(batch_size=_BATCH, seed=4),
    }
    return Config(**{**sections, **changes})


_AUGMENTED = _config(
    data=DataConfig(crop_size=6, eval_size=0),
    augmentation=AugmentationConfig(elastic_std_px=0.5, gamma=0.5, flip=True),
)


@pytest.fixture(scope="module")
def info(tmp_path_factory) -> records.DatasetInfo:
    """Image i is full of i, grader g says g everywhere; three training shards."""
    train = [datasets.example(i) for i in range(_NUM_TRAIN)]
    val = [datasets.example(100 + i) for i in range(_NUM_VAL)]
    return datasets.write(
        tmp_path_factory.mktemp("data"),
        {"train": train, "val": val},
        examples_per_shard=4,
    )


def _batches(info, config, number: int, **kwargs) -> list[dict[str, np.ndarray]]:
    dataset = input_pipeline.training_batches(info, config, **kwargs)
    return list(dataset.take(number).as_numpy_iterator())


def _examples(batch) -> list[int]:
    return np.round(batch["image"][:, 0, 0, 0] * 255).astype(int).tolist()


def _assert_equal(first: list[dict], second: list[dict]) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second):
        assert set(one) == set(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_images_and_labels_belong_together(info):
    for batch in _batches(info, _config(), 4, with_keys=True):
        assert batch["image"].dtype == np.float32
        assert batch["labels"].dtype == np.int32
        for image, labels, key in zip(batch["image"], batch["labels"], batch["key"]):
            index = int(key.decode().split("-")[1])
            np.testing.assert_allclose(image, np.full((8, 8, 1), index / 255))
            assert labels.shape == (8, 8)
            assert labels.min() == labels.max()


def test_every_epoch_has_every_example_once_in_another_order(info):
    batches = _batches(info, _config(), 12)
    epochs = [
        _examples(batches[i]) + _examples(batches[i + 1])
        for i in range(0, len(batches), 2)
    ]
    for epoch in epochs:
        assert sorted(epoch) == list(range(_NUM_TRAIN))
    assert len({tuple(epoch) for epoch in epochs}) == len(epochs)


def test_batches_go_over_the_end_of_an_epoch(info):
    training = TrainingConfig(batch_size=4, seed=4)
    batches = _batches(info, _config(training=training), 5)
    places = [example for batch in batches for example in _examples(batch)]
    assert sorted(places[:10]) == sorted(places[10:]) == list(range(_NUM_TRAIN))


def test_any_example_can_be_the_first(info):
    first = [_examples(batch)[0] for batch in _batches(info, _config(), 200)[::2]]
    assert set(first) == set(range(_NUM_TRAIN))
    # 100 epochs: 10 times each, with a standard deviation of 3.
    assert max(map(first.count, range(_NUM_TRAIN))) < 25


def test_blocks_smaller_than_the_data_still_give_every_example(info, monkeypatch):
    monkeypatch.setattr(input_pipeline, "_BLOCK_EXAMPLES", 3)
    batches = _batches(info, _config(), 4)
    epochs = [_examples(batches[i]) + _examples(batches[i + 1]) for i in (0, 2)]
    assert all(sorted(epoch) == list(range(_NUM_TRAIN)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_blocks_are_limited_in_memory(info, monkeypatch):
    assert input_pipeline._block_size(info) == 4096
    total = sum(shard["bytes"] for shard in info.splits["train"]["shards"])
    monkeypatch.setattr(input_pipeline, "_BLOCK_BYTES", total // 2)
    assert 5 <= input_pipeline._block_size(info) <= 6


@pytest.fixture(scope="module")
def augmented(info) -> list[dict[str, np.ndarray]]:
    return _batches(info, _AUGMENTED, 9, with_keys=True)


@pytest.mark.parametrize("start", [2, 7])  # where an epoch begins, and inside of one
def test_stream_from_a_step_is_the_stream_without_the_steps_before(
    info, augmented, start
):
    late = _batches(info, _AUGMENTED, 9 - start, start_step=start, with_keys=True)
    _assert_equal(augmented[start:], late)


def test_same_seed_same_stream_whatever_the_global_seed(info, augmented):
    tf.random.set_seed(99)
    _assert_equal(augmented[:3], _batches(info, _AUGMENTED, 3, with_keys=True))


def test_another_seed_gives_another_stream(info, augmented):
    other = dataclasses.replace(
        _AUGMENTED, training=TrainingConfig(batch_size=_BATCH, seed=5)
    )
    batches = _batches(info, other, 2, with_keys=True)
    first = [key for batch in augmented[:2] for key in batch["key"]]
    second = [key for batch in batches for key in batch["key"]]
    assert sorted(first) == sorted(second)
    assert first != second


def test_an_example_is_augmented_anew_in_each_epoch(augmented):
    images = [
        image.tobytes()
        for batch in augmented[:8]
        for key, image in zip(batch["key"], batch["image"])
        if key == b"key-009"
    ]
    assert len(images) == len(set(images)) == 4


def test_workers_share_the_batches_of_one(info):
    training = TrainingConfig(batch_size=4, seed=4)
    config = dataclasses.replace(_AUGMENTED, training=training)
    whole = _batches(info, config, 6, start_step=1)
    parts = [
        _batches(info, config, 6, start_step=1, num_workers=2, worker=worker)
        for worker in (0, 1)
    ]
    for batch, first, second in zip(whole, *parts):
        for name in ("image", "labels"):
            assert len(first[name]) == len(second[name]) == 2
            np.testing.assert_array_equal(batch[name][0::2], first[name])
            np.testing.assert_array_equal(batch[name][1::2], second[name])


def test_batch_that_can_not_be_shared_is_refused(info):
    with pytest.raises(
        ValueError, match="batch_size is 5, expected a multiple of the 2"
    ):
        input_pipeline.training_batches(info, _config(), num_workers=2)


def test_graders_are_drawn_equally_often_for_every_image(info):
    counts = np.zeros((_NUM_TRAIN, datasets.NUM_GRADERS), int)
    for batch in _batches(info, _config(), 400):
        for example, labels in zip(_examples(batch), batch["labels"]):
            counts[example, labels[0, 0]] += 1
    assert (counts.sum(axis=1) == 200).all()
    assert counts.min() > 0
    # 500 expected, with a standard deviation of sqrt(2000 * 3/16) = 19.
    assert np.abs(counts.sum(axis=0) - 500).max() < 95
    # 50 each, with a standard deviation of 6: chi-square with 30 degrees of freedom.
    assert ((counts - 50) ** 2 / 50).sum() < 75


@pytest.mark.parametrize("graders, expected", [(2, 2), (0, 4)])
def test_several_graders_per_image_are_different_ones(info, graders, expected):
    training = TrainingConfig(batch_size=_BATCH, seed=4, graders_per_image=graders)
    drawn = set()
    for batch in _batches(info, _config(training=training), 40):
        assert batch["labels"].shape == (_BATCH, expected, 8, 8)
        drawn |= {tuple(labels[:, 0, 0].tolist()) for labels in batch["labels"]}
    # Every ordered choice without repetition: 12 pairs, or 24 orders of all four.
    assert drawn == set(itertools.permutations(range(4), expected))


def test_crop_larger_than_the_image_is_refused(info):
    message = "a crop of 16x16 does not fit into images of 8x8"
    config = _config(data=DataConfig(crop_size=16, eval_size=0))
    with pytest.raises(ValueError, match=message):
        input_pipeline.training_batches(info, config)
    with pytest.raises(ValueError, match=message):
        input_pipeline.evaluation_examples(info, "val", DataConfig(eval_size=16))


def test_damaged_shard_is_found_before_training(tmp_path):
    info = datasets.write(tmp_path, {"train": [datasets.example(0)]})
    path = tmp_path / "train-00000-of-00001.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="train-00000-of-00001.tfrecord: truncated"):
        input_pipeline.training_batches(info, _config())


def test_window_maps_hounsfield_units_to_0_1():
    spec = datasets.spec(image_dtype="int16", intensity="hu")
    config = DataConfig(window_low=-1000, window_high=400)
    image = tf.constant([-2000.0, -1000.0, -300.0, 50.0, 400.0, 3000.0])
    mapped = input_pipeline.normalise(image, spec, config).numpy()
    np.testing.assert_allclose(mapped, [0, 0, 0.5, 0.75, 1, 1], atol=1e-7)


def test_bytes_are_divided_by_255_whatever_the_window():
    config = DataConfig(window_low=-10, window_high=10)
    image = tf.constant([0.0, 51.0, 255.0])
    mapped = input_pipeline.normalise(image, datasets.spec(), config).numpy()
    np.testing.assert_allclose(mapped, [0, 0.2, 1], atol=1e-7)


@pytest.mark.parametrize(
    "size, rows, cols", [(0, (0, 5), (0, 8)), (4, (0, 4), (2, 6)), (3, (1, 4), (2, 5))]
)
def test_central_crop(size, rows, cols):
    images = np.arange(2 * 5 * 8 * 3).reshape(2, 5, 8, 3)
    cropped = input_pipeline.central_crop(tf.constant(images), size).numpy()
    np.testing.assert_array_equal(cropped, images[:, slice(*rows), slice(*cols)])


@pytest.mark.parametrize("size", [0, 3, 4, 5])
def test_padding_undoes_the_crop(size):
    images = np.arange(1, 2 * 5 * 8 + 1).reshape(2, 5, 8)
    cropped = input_pipeline.central_crop(images[..., None], size)[..., 0]
    padded = input_pipeline.pad_to(cropped, (5, 8), value=-1)
    kept = padded >= 0
    assert kept.sum() == cropped.size
    np.testing.assert_array_equal(padded[kept], images[kept])


def test_evaluation_examples_are_the_stored_ones(phantom_dir):
    info = records.read_info(phantom_dir)
    config = DataConfig(eval_size=16, window_low=-900, window_high=100)
    examples = list(
        input_pipeline.evaluation_examples(info, "test", config).as_numpy_iterator()
    )
    stored = list(tf.data.TFRecordDataset(info.shard_paths("test")))
    assert len(examples) == len(stored) == 8
    for example, serialized in zip(examples, stored):
        parsed = records.parse(serialized, info.spec)
        assert example["key"] == parsed["key"].numpy()
        assert example["group"] == parsed["group"].numpy()
        image = records.decode_image(parsed["image"], info.spec).numpy()
        image = np.clip((image[8:24, 8:24] + 900) / 1000, 0, 1)
        np.testing.assert_allclose(example["image"], image, atol=1e-6)
        for name in ("labels", "modes"):
            maps = records.decode_all_labels(parsed[name], info.spec).numpy()
            np.testing.assert_array_equal(example[name], maps[:, 8:24, 8:24])
        assert example["mode_probs"].sum() == pytest.approx(1, abs=1e-6)


def test_validation_takes_the_graders_in_turn(info):
    batches = input_pipeline.validation_batches(info, _config(), 6, 4)
    first = list(batches.as_numpy_iterator())
    assert [len(batch["image"]) for batch in first] == [4, 2]
    graders = np.concatenate([batch["labels"][:, 0, 0] for batch in first])
    np.testing.assert_array_equal(graders, [0, 1, 2, 3, 0, 1])
    examples = [example for batch in first for example in _examples(batch)]
    assert sorted(examples) == list(range(100, 106))
    _assert_equal(first, list(batches.as_numpy_iterator()))


def test_validation_takes_so_many_images(info):
    batches = input_pipeline.validation_batches(info, _config(), 3, 2)
    assert [len(batch["image"]) for batch in batches] == [2, 1]


_STREET = [switch.class_id for switch in SWITCHES] + [255, 5, 18]


def _switched(number: int) -> np.ndarray:
    """Draws flips of a map with every switchable class, [number, 8] int32."""

    @tf.function
    def draw() -> tf.Tensor:
        return tf.map_fn(
            lambda i: input_pipeline.switch_classes(
                tf.constant(_STREET), seeds.fold_in(seeds.root(2), i)
            ),
            tf.range(number),
        )

    return draw().numpy()


def test_classes_are_switched_with_their_probabilities():
    number = 4000
    drawn = _switched(number)
    np.testing.assert_array_equal(
        drawn[:, 5:], np.broadcast_to(_STREET[5:], (number, 3))
    )
    new = np.array([switch.new_class_id for switch in SWITCHES])
    flipped = drawn[:, :5] == new
    assert (flipped | (drawn[:, :5] == _STREET[:5])).all()
    probs = np.array([float(switch.probability) for switch in SWITCHES])
    np.testing.assert_allclose(probs, np.array([8, 7, 6, 5, 4]) / 17)
    error = np.sqrt(probs * (1 - probs) / number)
    assert (np.abs(flipped.mean(axis=0) - probs) / error).max() < 4.5
    for one, other in itertools.combinations(range(5), 2):
        # Standard deviation of the correlation: 1 / sqrt(4000) = 0.016.
        assert abs(np.corrcoef(flipped[:, one], flipped[:, other])[0, 1]) < 0.075


def test_a_switch_holds_for_the_whole_map():
    labels = tf.constant(np.tile(_STREET, (6, 4)).astype(np.int32))
    drawn = input_pipeline.switch_classes(labels, seeds.root(7)).numpy()
    for column, value in enumerate(_STREET):
        assert len(set(drawn[labels.numpy() == value].tolist())) == 1, column


def test_switched_task_switches_in_training_and_validation(tmp_path):
    spec = datasets.spec(
        class_names=tuple(map(str, range(19))), num_graders=1, ignore_label=255
    )
    labels = np.tile(np.array(_STREET, np.uint8), (1, 8, 1))
    examples = [datasets.example(i, labels=labels) for i in range(4)]
    info = datasets.write(tmp_path, {"train": examples[:2], "val": examples[2:]}, spec)
    config = _config(data=DataConfig(task="switched", crop_size=0, eval_size=0))
    assert input_pipeline.num_classes(info, config.data) == 24
    assert input_pipeline.num_classes(info, DataConfig()) == 19
    rows = np.concatenate([b["labels"][:, 0] for b in _batches(info, config, 60)])
    assert set(rows[:, 0].tolist()) == {1, 19}
    assert (rows[:, 5] == 255).all()
    assert len({tuple(row) for row in rows.tolist()}) > 16
    validation = list(
        input_pipeline.validation_batches(info, config, 2, 2).as_numpy_iterator()
    )
    _assert_equal(
        validation,
        list(input_pipeline.validation_batches(info, config, 2, 2).as_numpy_iterator()),
    )
    assert set(validation[0]["labels"].ravel().tolist()) - set(_STREET)


# The graders and the size of the image with each index.
_MIXED = {0: (1, (8, 8)), 1: (3, (9, 12)), 2: (5, (16, 7)), 3: (2, (7, 8))}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> records.DatasetInfo:
    """Image i is full of i, grader g says g everywhere; all else differs."""
    examples = [datasets.mixed_example(i, *shape) for i, shape in _MIXED.items()]
    others = [
        dataclasses.replace(example, key=f"val-{example.key}", group=f"v{i}")
        for i, example in enumerate(examples)
    ]
    names = tuple("abcde")
    return datasets.write(
        tmp_path_factory.mktemp("mixed"),
        {"train": examples, "val": others},
        datasets.mixed_spec(class_names=names),
    )


@pytest.mark.parametrize("per_image", [0, 2])
def test_batches_are_padded_to_the_largest_number_of_graders(mixed, per_image):
    training = TrainingConfig(batch_size=4, seed=4, graders_per_image=per_image)
    data = DataConfig(crop_size=6, eval_size=0)
    drawn = {index: set() for index in _MIXED}
    for batch in _batches(mixed, _config(training=training, data=data), 40):
        assert batch["labels"].shape == (4, per_image or 5, 6, 6)
        for example, labels, mask in zip(
            _examples(batch), batch["labels"], batch["grader_mask"]
        ):
            count = min(_MIXED[example][0], per_image or 5)
            assert mask.tolist() == [True] * count + [False] * (len(mask) - count)
            assert (labels == labels[:, :1, :1]).all()
            assert not labels[count:].any()
            drawn[example].add(tuple(labels[:count, 0, 0].tolist()))
    for index, (num_graders, _) in _MIXED.items():
        count = min(num_graders, per_image or 5)
        possible = set(itertools.permutations(range(num_graders), count))
        # The many orders of five graders do not all come up in 40 draws.
        assert drawn[index] <= possible
        assert drawn[index] == possible or len(possible) >= 20


def test_one_grader_per_image_needs_no_mask(mixed):
    config = _config(data=DataConfig(crop_size=6, eval_size=0))
    drawn = {index: set() for index in _MIXED}
    for batch in _batches(mixed, config, 60):
        assert set(batch) == {"image", "labels"}
        for example, labels in zip(_examples(batch), batch["labels"]):
            drawn[example].add(int(labels[0, 0]))
    for index, (num_graders, _) in _MIXED.items():
        assert drawn[index] == set(range(num_graders))


def test_warped_crops_of_mixed_sizes_are_those_of_each_size(mixed, tmp_path):
    # The third image alone is a data set of one size: the graph knows it.
    example = datasets.mixed_example(2, *_MIXED[2])
    alone = datasets.write(
        tmp_path, {"train": [example]}, datasets.mixed_spec(class_names=tuple("abcde"))
    )
    assert alone.spec.min_size is None
    serialized = records.encode(
        example, datasets.mixed_spec(class_names=tuple("abcde"))
    )
    config = dataclasses.replace(
        _AUGMENTED, training=TrainingConfig(graders_per_image=0)
    )
    for seed in range(3):
        one, other = (
            input_pipeline._training_example(
                tf.constant(serialized), seeds.root(seed), spec, config, False
            )
            for spec in (mixed.spec, alone.spec)
        )
        np.testing.assert_allclose(one["image"], other["image"], rtol=1e-6)
        np.testing.assert_array_equal(one["labels"], other["labels"])


@pytest.mark.parametrize("augmentation", [AugmentationConfig.off(), None])
def test_crops_may_be_rectangles(info, augmentation):
    data = DataConfig(crop_size=(4, 6), eval_size=0)
    config = _config(data=data, augmentation=augmentation or _AUGMENTED.augmentation)
    (batch,) = _batches(info, config, 1)
    assert batch["image"].shape == (_BATCH, 4, 6, 1)
    assert batch["labels"].shape == (_BATCH, 4, 6)
    with pytest.raises(ValueError, match="a crop of 4x9 does not fit into .* 8x8"):
        wide = DataConfig(crop_size=(4, 9), eval_size=0)
        input_pipeline.training_batches(info, _config(data=wide))


def test_crop_that_does_not_fit_into_every_image_is_refused_at_once(mixed):
    config = _config(data=DataConfig(crop_size=8, eval_size=0))
    with pytest.raises(ValueError, match="8x8 does not fit into images of 7x7"):
        input_pipeline.training_batches(mixed, config)


def test_whole_images_of_mixed_sizes_come_singly_with_their_graders(mixed):
    examples = input_pipeline.evaluation_examples(mixed, "val", DataConfig(eval_size=0))
    sizes = {}
    for batch in input_pipeline.batched(examples, mixed.spec, 8, size=0):
        index = int(np.round(255 * batch["image"][0, 0, 0, 0]))
        (graders,) = input_pipeline.grader_stacks(batch)
        assert graders[:, 0, 0].tolist() == list(range(_MIXED[index][0]))
        sizes[index] = tuple(batch["image"].shape[1:3])
        assert graders.shape[1:] == sizes[index]
    assert sizes == {index: size for index, (_, size) in _MIXED.items()}


def test_validation_takes_one_of_the_graders_there_are(mixed):
    config = _config(model=ModelConfig(num_scales=3))
    found = list(input_pipeline.validation_batches(mixed, config, 4, 4))
    assert len(found) == 4
    for i, batch in enumerate(found):
        index = int(np.round(255 * batch["image"][0, 0, 0, 0]))
        num_graders, size = _MIXED[index]
        assert (batch["labels"].numpy() == i % num_graders).all()
        # The largest part whose sides are multiples of four.
        assert batch["labels"].shape[1:] == tuple(side // 4 * 4 for side in size)


def test_mirrored_border_by_hand():
    images = np.arange(1, 4)[None, :, None, None] * np.ones([1, 3, 4, 1])
    padded = input_pipeline.mirror_pad(images, 4)
    assert padded[0, :, 0, 0].tolist() == [1, 2, 3, 3]
    padded = input_pipeline.mirror_pad(images, 5)
    assert padded[0, :, 0, 0].tolist() == [1, 1, 2, 3, 3]
    assert padded.shape == (1, 5, 5, 1)
    inner = input_pipeline.central_part(padded[..., 0], (3, 4))
    np.testing.assert_array_equal(inner, images[..., 0])
