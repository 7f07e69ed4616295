"""From shards to batches: shuffled, augmented, and seeded by position.

The stream of training examples is endless and the same in every run. Epoch e is the
training set in an order drawn from (seed, e). The example at position i of the stream
draws its grader and its augmentation from (seed, i). A run can therefore start at any
step, and workers can share the stream without communicating.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_probunet import seeds
from tf_probunet.config import Config, DataConfig
from tf_probunet.dataset import augmentation, records, task
from tf_probunet.dataset.cityscapes_labels import SWITCHES

# Limits of a block of examples that are shuffled together: their number, and bytes.
_BLOCK_EXAMPLES = 4096
_BLOCK_BYTES = 256 * 2**20
_READ_BUFFER = 8 * 2**20


def training_batches(
    info: records.DatasetInfo,
    config: Config,
    *,
    start_step: int = 0,
    num_workers: int = 1,
    worker: int = 0,
    num_replicas: int = 1,
    with_keys: bool = False,
) -> tf.data.Dataset:
    """Returns the endless training batches, starting at a step.

    Args:
        info: the prepared data.
        config: of the run; `training.batch_size` is that of all workers together.
        start_step: the first step.
        num_workers: how many machines share the stream. Each gets a part of every
            batch.
        worker: the index of this machine.
        num_replicas: replicas of all machines together. They take batches of this data
            set in turn, so that the replicas of a step share `training.batch_size`.
        with_keys: add the examples' keys to the batches.

    Returns:
        Batches of `image` [B, h, w, C] float32 in 0..1 and `labels` [B, h, w] int32,
        or [B, G, h, w] with more than one grader per image; and `key` [B] if asked for.
        If an image can have fewer than G graders, empty maps follow its own, and
        `grader_mask` [B, G] bool says which of the maps are a grader's.

    Raises:
        ValueError: the batch can't be shared equally, the crop does not fit, or a
            shard is damaged.
    """
    batch_size = config.training.batch_size
    num_parts = max(num_workers, num_replicas)
    if batch_size % num_parts:
        raise ValueError(
            f"batch_size is {batch_size}, expected a multiple of the {num_parts} "
            f"replicas"
        )
    # The graph knows no sizes if they vary.
    augmentation.crop_shape(info.spec.smallest_size, config.data.crop_size)
    seed = seeds.root(config.training.seed)
    stream = _stream(info, seed, first=start_step * batch_size)
    stream = stream.shard(num_workers, worker)

    def example(place: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        return _training_example(
            serialized, seeds.fold_in(seed, place), info.spec, config, with_keys
        )

    return (
        stream.map(example, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .batch(batch_size // num_parts, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def evaluation_examples(
    info: records.DatasetInfo,
    split: str,
    config: DataConfig,
    *,
    size: int | None = None,
) -> tf.data.Dataset:
    """Returns the examples of a split in their stored order, unaugmented.

    Args:
        info: the prepared data.
        split: the split.
        config: how examples become inputs.
        size: size of the central crop; 0 for the whole image, None for `eval_size`.

    Returns:
        Examples of `key`, `group`, `image` [h, w, C] float32 in 0..1, `spacing_mm` [2]
        (NaN where unknown) and `labels` [G, h, w] int32, and `modes` [M, h, w] and
        `mode_probs` [M] where the data set knows them.
    """
    spec = info.spec
    size = config.eval_size if size is None else size

    def example(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = records.parse(serialized, spec)
        image = normalise(records.decode_image(parsed["image"], spec), spec, config)
        result = {
            "key": parsed["key"],
            "group": parsed["group"],
            "image": central_crop(image[None], size)[0],
            "spacing_mm": parsed["spacing_mm"],
        }
        for name in ("labels", "modes"):
            if name in parsed:
                maps = records.decode_all_labels(parsed[name], spec)
                maps = tf.ensure_shape(maps, [None, *image.shape[:2]])
                result[name] = central_crop(maps[..., None], size)[..., 0]
        if "modes" in parsed:
            result["mode_probs"] = parsed["mode_probs"]
        return result

    paths = info.shard_paths(split)
    return tf.data.TFRecordDataset(paths, buffer_size=_READ_BUFFER).map(
        example, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def validation_batches(
    info: records.DatasetInfo, config: Config, num_images: int, batch_size: int
) -> tf.data.Dataset:
    """Returns batches for the validation loss: each image with one grader in turn.

    Of whole images, as much is taken as the network takes without a border.
    """
    divisor = config.model.size_divisor
    whole = not config.data.eval_size
    spec = info.spec

    def one_grader(i: tf.Tensor, example: dict[str, tf.Tensor]):
        count = tf.shape(example["labels"], tf.int64)[0]
        labels = example["labels"][i % count]
        if config.data.task == "switched":
            labels = switch_classes(labels, seeds.fold_in(seeds.root(0), i))
        image = example["image"]
        if whole:
            image = _fitting_part(image, divisor)
            labels = _fitting_part(labels, divisor)
        return {"image": image, "labels": labels}

    examples = evaluation_examples(info, "val", config.data).take(num_images)
    one_by_one = whole and spec.min_size is not None
    return examples.enumerate().map(one_grader).batch(1 if one_by_one else batch_size)


def batched(
    examples: tf.data.Dataset,
    spec: records.DatasetSpec,
    batch_size: int,
    *,
    size: Any,
) -> tf.data.Dataset:
    """Batches examples of `evaluation_examples`. Whole images that differ come singly.

    If the number of graders varies, `labels` are padded with empty maps, and
    `grader_mask` [B, G] says which are a grader's. `grader_stacks` undoes this.

    Args:
        examples: the examples.
        spec: of their data set.
        batch_size: the largest number of examples in a batch.
        size: what `evaluation_examples` was given.
    """

    def padded(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {**example, **_padded(example["labels"], spec.num_graders)}

    if spec.min_graders is not None:
        examples = examples.map(padded)
    return examples.batch(1 if spec.min_size is not None and not size else batch_size)


def grader_stacks(batch: dict[str, tf.Tensor]) -> list[np.ndarray]:
    """Returns the label maps [G, H, W] of each image, without those that pad."""
    labels = [*np.asarray(batch["labels"])]
    if "grader_mask" in batch:
        masks = np.asarray(batch["grader_mask"])
        labels = [maps[mask] for maps, mask in zip(labels, masks)]
    return labels


def num_classes(info: records.DatasetInfo, config: DataConfig) -> int:
    """Returns how many classes a model has to tell apart."""
    return len(task.class_names(info.spec.class_names, config.task))


def normalise(
    image: tf.Tensor, spec: records.DatasetSpec, config: DataConfig
) -> tf.Tensor:
    """Maps stored values to 0..1: by the window for Hounsfield units, else by 255.

    `imaging.windows` does the same in NumPy; a test compares the two.
    """
    if spec.intensity == "hu":
        width = config.window_high - config.window_low
        return tf.clip_by_value((image - config.window_low) / width, 0.0, 1.0)
    return image / 255.0


def central_crop(images: tf.Tensor, size: int) -> tf.Tensor:
    """Crops [N, H, W, C] to the central [N, size, size, C]; 0 leaves it as it is."""
    if not size:
        return images
    shape: Any = tuple(images.shape[1:3])
    height, width = augmentation.crop_shape(shape, size)
    if None in shape:
        shape = tf.unstack(tf.shape(images)[1:3])
    row, col = (shape[0] - height) // 2, (shape[1] - width) // 2
    cropped = images[:, row : row + height, col : col + width]
    if isinstance(cropped, tf.Tensor):
        cropped = tf.ensure_shape(cropped, [None, height, width, images.shape[-1]])
    return cropped


def pad_to(maps: np.ndarray, shape: tuple[int, int], value: float = 0) -> np.ndarray:
    """Puts [..., h, w] into the middle of [..., H, W]: undoes `central_crop`."""
    (height, width), (inner_height, inner_width) = shape, maps.shape[-2:]
    row, col = (height - inner_height) // 2, (width - inner_width) // 2
    padded = np.full([*maps.shape[:-2], height, width], value, maps.dtype)
    padded[..., row : row + inner_height, col : col + inner_width] = maps
    return padded


def central_part(maps: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Cuts the middle [..., h, w] out of [..., H, W]: undoes `mirror_pad`."""
    (height, width), (outer_height, outer_width) = shape, maps.shape[-2:]
    row, col = (outer_height - height) // 2, (outer_width - width) // 2
    return maps[..., row : row + height, col : col + width]


def mirror_pad(images: np.ndarray, divisor: int) -> np.ndarray:
    """Mirrors [N, H, W, C] at its border, so that the sides are multiples of a number.

    The border is as even as it can be. `run/predict.py --pad` does the same.
    """
    missing = [-side % divisor for side in images.shape[1:3]]
    if not any(missing):
        return images
    border = [(number // 2, number - number // 2) for number in missing]
    return np.pad(images, [(0, 0), *border, (0, 0)], mode="symmetric")


def mirrored(
    image: np.ndarray, labels: np.ndarray, divisor: int
) -> tuple[np.ndarray, np.ndarray]:
    """Does so with one image [H, W, C] and its label maps [G, H, W]."""
    image = mirror_pad(image[None], divisor)[0]
    return image, mirror_pad(labels[..., None], divisor)[..., 0]


def switch_classes(labels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Flips each of the five switchable Cityscapes classes with its probability.

    Args:
        labels: [...] int32, the 19 training classes and the ignore label.
        seed: int32[2]. A flip applies to the whole map.

    Returns:
        [...] int32 with 24 classes.
    """
    draws = tf.unstack(tf.random.stateless_uniform([len(SWITCHES)], seed))
    for switch, draw in zip(SWITCHES, draws):
        flipped = (labels == switch.class_id) & (draw < float(switch.probability))
        labels = tf.where(flipped, switch.new_class_id, labels)
    return labels


def _stream(info: records.DatasetInfo, seed: tf.Tensor, first: int) -> tf.data.Dataset:
    """Returns (position, serialised example), starting at position `first`."""
    paths = tf.constant(info.shard_paths("train"))
    count = info.count("train")
    block = _block_size(info)
    first_epoch = first // count

    def epoch_records(epoch: tf.Tensor) -> tf.data.Dataset:
        epoch_seed = seeds.fold_in(seeds.fold_in(seed, -1), epoch)
        shuffled = _shuffle(paths, epoch_seed)
        blocks = tf.data.TFRecordDataset(shuffled, buffer_size=_READ_BUFFER).batch(
            block
        )
        # Not Dataset.shuffle: its order also depends on TensorFlow's global seed.
        return (
            blocks.enumerate()
            .map(lambda i, examples: _shuffle(examples, seeds.fold_in(epoch_seed, i)))
            .unbatch()
        )

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    stream = epochs.flat_map(epoch_records).enumerate(start=first_epoch * count)
    return stream.skip(first - first_epoch * count)


def _shuffle(values: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(values, seed)


def _block_size(info: records.DatasetInfo) -> int:
    """Returns how many examples are shuffled at a time: all, if memory allows."""
    num_bytes = sum(shard["bytes"] for shard in info.splits["train"]["shards"])
    return min(_BLOCK_EXAMPLES, 1 + _BLOCK_BYTES * info.count("train") // num_bytes)


def _training_example(
    serialized: tf.Tensor,
    seed: tf.Tensor,
    spec: records.DatasetSpec,
    config: Config,
    with_keys: bool,
) -> dict[str, tf.Tensor]:
    label_seed, augmentation_seed = seeds.split(seed)
    parsed = records.parse(serialized, spec)
    image = normalise(records.decode_image(parsed["image"], spec), spec, config.data)
    labels = _drawn_labels(parsed["labels"], label_seed, spec, config)
    image, labels = augmentation.augment(
        image=image,
        labels=labels,
        seed=augmentation_seed,
        config=config.augmentation,
        crop_size=config.data.crop_size,
        crop_jitter_px=config.data.crop_jitter_px,
        outside_label=0 if spec.ignore_label is None else spec.ignore_label,
    )
    if config.training.graders_per_image == 1:
        example = {"image": image, "labels": labels[0]}
    else:
        most = config.training.graders_per_image or spec.num_graders
        example = {"image": image, **_padded(labels, min(most, spec.num_graders))}
    if with_keys:
        example["key"] = parsed["key"]
    return example


def _drawn_labels(
    pngs: tf.Tensor, seed: tf.Tensor, spec: records.DatasetSpec, config: Config
) -> tf.Tensor:
    """Draws distinct graders, or flips of the switched task: [G, H, W]."""
    count = config.training.graders_per_image
    if config.data.task == "switched":
        labels = records.decode_labels(pngs[0], spec)
        return tf.stack(
            [switch_classes(labels, s) for s in seeds.split(seed, max(count, 1))]
        )
    drawn = _shuffle(pngs, seed)[: count or spec.num_graders]
    if drawn.shape[0] is None and count != 1:
        return records.decode_all_labels(drawn, spec)
    drawn = [drawn[0]] if count == 1 else tf.unstack(drawn)
    return tf.stack([records.decode_labels(png, spec) for png in drawn])


def _padded(labels: tf.Tensor, most: int) -> dict[str, tf.Tensor]:
    """Returns `labels` [most, h, w] and, if the number varies, `grader_mask` [most]."""
    if labels.shape[0] is not None:
        return {"labels": labels}
    count = tf.shape(labels)[0]
    padded = tf.pad(labels, [[0, most - count], [0, 0], [0, 0]])
    padded = tf.ensure_shape(padded, [most, *labels.shape[1:]])
    return {"labels": padded, "grader_mask": tf.sequence_mask(count, most)}


def _fitting_part(array: tf.Tensor, divisor: int) -> tf.Tensor:
    """Cuts the largest middle part of [H, W, ...] with sides that fit the network."""
    if not any(side is None or side % divisor for side in array.shape[:2]):
        return array
    sides = tf.shape(array)[:2]
    fitting = sides // divisor * divisor
    row, col = tf.unstack((sides - fitting) // 2)
    height, width = tf.unstack(fitting)
    return array[row : row + height, col : col + width]
