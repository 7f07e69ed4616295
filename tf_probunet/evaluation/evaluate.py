"""Scores a SavedModel, or another model's sample files, on a prepared data set."""

from __future__ import annotations

import dataclasses
import pathlib
import platform
from collections.abc import Callable, Iterator
from typing import Any, Union

import numpy as np
import scipy
import tensorflow as tf

from tf_probunet import __version__, files, locks, resume
from tf_probunet.artifacts import results_dir
from tf_probunet.config import DataConfig
from tf_probunet.dataset import input_pipeline, lesion_keys, records, task
from tf_probunet.evaluation import lesions, scoring, sources, tables
from tf_probunet.evaluation import summary as summary_lib
from tf_probunet.evaluation.config import EvaluationConfig
from tf_probunet.evaluation.metrics import checks
from tf_probunet.evaluation.parts import Parts
from tf_probunet.evaluation.protocols import PROTOCOLS
from tf_probunet.hashing import salted_hash
from tf_probunet.progress import Progress

# Increased when the per-image arrays change, so that older parts are not used.
_ARRAYS_VERSION = 3
_SAVED = "saved_"  # The prefix of the arrays that go to samples.npz.
# Mean probabilities are rounded to steps of 1/256, which float16 holds exactly. Finer
# steps would not compress: 24 classes of 50 street scenes took 600 MB.
_MEAN_STEPS = 256

Source = Union[sources.SavedModel, sources.SampleFiles]
table = tables.text_table


def evaluate(config: EvaluationConfig) -> dict[str, Any]:
    """Scores a model on a data set, and writes the results.

    Images are read, sampled and scored in batches, and the scores are kept in part
    files. After an interruption the same call continues with the remaining images and
    gives the same results.

    Args:
        config: the settings.

    Returns:
        The content of `results.json`; `table` returns it as text.

    Raises:
        FileNotFoundError: the model, the samples or the data do not exist.
        ValueError: they do not fit each other or are damaged; or `out_dir` already
            holds results, or another command is writing to it.
    """
    with locks.inside(config.out_dir):
        return _evaluate(config)


def _evaluate(config: EvaluationConfig) -> dict[str, Any]:
    out_dir = pathlib.Path(config.out_dir)
    results_dir.refuse_existing(out_dir, config.overwrite)
    files.remove_temporaries(out_dir)
    evaluation = _Evaluation(config)
    if config.by == "lesion":
        results, arrays = evaluation.lesion_results()
        _write(out_dir, results, arrays)
        resume.remove_parts(out_dir)
        return results
    arrays = evaluation.score_split()
    validation = evaluation.score_validation()
    results = evaluation.results(arrays, validation)
    _write(out_dir, results, arrays)
    resume.remove_parts(out_dir)
    return results


class _Evaluation:
    """One evaluation: the data, the source of samples and the rules."""

    def __init__(self, config: EvaluationConfig) -> None:
        self._config = config
        self._info = records.read_info(config.data_dir)
        self._info.count(config.split)  # Fails early if there is no such split.
        self._source = _open_source(config, self._info)
        task.check(self._info.spec, self._source.data.task, config.data_dir)
        self._notes = self._source.check(self._info)
        self._rules = self._make_rules()
        self._data = self._source.data
        self._smoothed: dict[str, np.ndarray] = {}
        self._check_offset()

    def score_split(self) -> scoring.Arrays:
        """Returns the per-image values of the split."""
        return self._stream(self._config.split, self._score, "scores")

    def lesion_results(self) -> tuple[dict[str, Any], scoring.Arrays]:
        """Scores whole lesions.

        Returns:
            The content of `results.json`, and the arrays of the lesions.

        Raises:
            ValueError: the data have no lesions with slices, or several classes.
        """
        info, config = self._info, self._config
        if self._rules.kind != "binary":
            raise ValueError(
                f"{config.data_dir}: by is 'lesion', expected data of a background and "
                f"one class, found the classes {', '.join(info.spec.class_names)}"
            )
        if info.spec.is_mixed:
            raise ValueError(
                f"{config.data_dir}: by is 'lesion', expected images of one size with "
                "the same number of graders"
            )
        if self._rules.sampling == "weighted":
            raise ValueError(
                f"{config.samples_dir}: by is 'lesion', expected samples without "
                "weights: those of a slice do not hold for the lesion"
            )
        self._smoothed = self._smooth_priors()
        slices = self._stream(config.split, self._score_slices, "slices")
        scored = lesions.score(self._rules, slices, self._source.ways)
        arrays = next(iter(scored.values()))
        results = self._described(
            lesions.summarise(self._rules, scored), slices, unit="lesions"
        )
        results["protocol"]["by"] = "lesion"
        results["protocol"]["smooth_slices"] = config.smooth_slices
        results["data"]["lesions"] = len(arrays["keys"])
        # The values of the other ways, so that others can compare them too.
        arrays = dict(arrays)
        for way, columns in list(scored.items())[1:]:
            arrays.update(
                {f"{way}_{n}": v for n, v in columns.items() if n in lesions.COMPARED}
            )
        return results, arrays

    def score_validation(self) -> scoring.Arrays | None:
        """Returns the presence counts that the ambiguity threshold is chosen on."""
        split = self._config.validation_split
        if self._rules.kind != "binary" or self._info.spec.num_graders < 2 or not split:
            return None
        reason = self._no_validation(split)
        if reason:
            self._notes.append(f"no threshold for ambiguity: {reason}")
            return None
        return self._stream(split, self._score_presence, "presence")

    def results(
        self, arrays: scoring.Arrays, validation: scoring.Arrays | None
    ) -> dict[str, Any]:
        """Returns the content of `results.json`."""
        summary = summary_lib.summarise(
            arrays,
            self._rules,
            num_graders=self._info.spec.num_graders,
            validation=validation,
            cross_fit=self._config.validation_split == self._config.split,
            class_names=self._info.spec.class_names,
        )
        undecided = results_dir.lookup(summary, "mode_calibration.undecided") or 0.0
        if undecided >= summary_lib.MANY_UNDECIDED:
            self._notes.append(
                f"{undecided:.0%} of the samples fit several modes, because they lack "
                "a class of the image; they are shared among these modes by "
                "probability, and the mode frequencies look better than the model is"
            )
        return self._described(summary, arrays)

    def _described(
        self, summary: dict[str, Any], arrays: scoring.Arrays, unit: str = "images"
    ) -> dict[str, Any]:
        """Adds the data, the model and the protocol to a summary."""
        info, config = self._info, self._config
        resampled = summary_lib.resampled(arrays["groups"])
        if resampled == "images":
            self._notes.append(
                f"there are {len(set(arrays['groups']))} groups, fewer than "
                f"{summary_lib.MIN_GROUPS}: the intervals resample {unit}, and say "
                "nothing about other groups"
            )
        return {
            **summary,
            "notes": self._notes,
            "protocol": self._protocol(resampled),
            "data": {
                "name": info.spec.name,
                "path": str(config.data_dir),
                "fingerprint": info.fingerprint,
                "split": config.split,
                "images": len(arrays["keys"]),
                "groups": len(set(arrays["groups"])),
                "graders": info.spec.num_graders,
                **(
                    {"fewest_graders": info.spec.fewest_graders}
                    if self._rules.graders_vary
                    else {}
                ),
                **_known_split(info.spec),
            },
            "model": self._source.description,
            "versions": {
                "tf_probunet": __version__,
                "tensorflow": tf.__version__,
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "python": platform.python_version(),
            },
            "command": config.command(),
        }

    def _make_rules(self) -> scoring.Rules:
        config, spec = self._config, self._info.spec
        asked = config.num_samples
        assert asked and config.statistic and config.both_empty, "the config fills them"
        protocol = PROTOCOLS[config.protocol] if config.protocol else None
        limit = self._source.max_samples
        counts = tuple(n for n in asked if limit is None or n <= limit)
        if not counts:
            raise ValueError(
                f"num_samples is {asked}, expected at most {limit}, the "
                "number of different samples that the model has"
            )
        if counts != asked:
            left_out = [n for n in asked if n not in counts]
            self._notes.append(
                f"the model has {limit} different samples, so the energy distance for "
                f"{', '.join(map(str, left_out))} is left out"
            )
        return scoring.Rules(
            kind=task.kind(spec, self._source.data.task),
            counts=counts,
            statistic=config.statistic,
            both_empty=config.both_empty,
            num_classes=spec.num_classes,
            ignore_label=spec.ignore_label,
            graders_vary=spec.min_graders is not None,
            sampling=self._source.sampling,
            matched=protocol.matching_samples if protocol else None,
            scores=protocol.scores if protocol else (),
        )

    def _check_offset(self) -> None:
        """Refuses an offset at which the model would see across the frame's border."""
        offset, data = self._config.offset_px, self._data
        margin = (data.frame_size - data.eval_size) // 2
        if offset > margin:
            raise ValueError(
                f"offset_px is {offset}, expected at most {margin}: the model sees "
                f"{data.eval_size} of the {data.frame_size} pixels that are scored"
            )

    def _protocol(self, resampled: str) -> dict[str, Any]:
        rules, spec = self._rules, self._info.spec
        size, offset = self._data.frame_size, self._config.offset_px
        return {
            "metric": "squared generalised energy distance with d = 1 - IoU",
            "task": self._data.task,
            "labels": rules.kind,
            "classes": list(spec.class_names),
            "ignore_label": rules.ignore_label,
            "image_size": [size, size] if size else list(spec.image_shape[:2]),
            **(
                {"smallest_image_size": list(spec.min_size)}
                if spec.min_size is not None and not size
                else {}
            ),
            "num_samples": list(rules.counts),
            "sampling": rules.sampling,
            "statistic": rules.statistic,
            "both_empty": rules.both_empty,
            "floor": self._floor_kind(),
            "matching_samples": rules.matched,
            **self._source_protocol(),
            "pixels": "hard labels of the samples, the largest number of them",
            "limit": self._config.limit,
            **({"offset_px": offset} if offset else {}),
            "validation_split": self._config.validation_split,
            "intervals": {
                "confidence": summary_lib.CONFIDENCE,
                "resamples": summary_lib.NUM_RESAMPLES,
                "seed": summary_lib.BOOTSTRAP_SEED,
                "resampled": resampled,
            },
        }

    def _source_protocol(self) -> dict[str, Any]:
        """Returns the name, the source and the matching rule of the protocol."""
        name = self._config.protocol
        if name is None:
            return {}
        protocol = PROTOCOLS[name]
        return {
            "name": name,
            "source": protocol.source,
            "matching": protocol.matching,
        }

    def _floor_kind(self) -> str:
        """Returns what the floor is computed from."""
        if self._rules.kind == "switched":
            return "switched modes"
        return "known modes" if self._info.spec.num_modes else "graders"

    def _no_validation(self, split: str) -> str | None:
        """Returns why no threshold can be chosen on a split; None if one can."""
        if split == self._config.split:
            return (
                f"{split!r} is the split that is scored; the accuracy is that of "
                "thresholds chosen on one half of the groups for the other"
            )
        if split not in self._info.splits:
            return f"{self._info.data_dir} has no split {split!r}"
        if self._info.most_graders(split) < 2:
            return f"no image of the split {split!r} has several graders"
        source = self._source
        if isinstance(source, sources.SampleFiles):
            if not source.has(sources.split_keys(self._info, split)):
                return f"there are no samples of the split {split!r}"
        return None

    def _score(self, batch: dict[str, Any], place: int) -> scoring.Arrays:
        saved = max(0, min(self._config.save_samples - place, len(batch["keys"])))
        drawn = self._source.draw(
            batch["keys"],
            batch["image"],
            self._rules.counts[-1],
            with_mean=saved > 0,
            fewer=self._rules.counts[:-1],
        )
        arrays = scoring.score(
            self._rules,
            drawn.labels,
            batch["labels"],
            keys=batch["keys"],
            modes=batch.get("modes"),
            mode_probs=batch.get("mode_probs"),
            sets=drawn.sets,
            weights=drawn.weights,
        )
        if saved:
            kept = {
                "keys": np.array(batch["keys"][:saved]),
                "images": batch["image"][:saved],
                "graders": batch["labels"][:saved],
                "samples": drawn.labels[:saved],
            }
            if drawn.mean is not None:
                steps = np.rint(_MEAN_STEPS * drawn.mean[:saved])
                kept["mean"] = (steps / _MEAN_STEPS).astype(np.float16)
            if self._info.spec.is_mixed:
                kept = results_dir.padded_samples(
                    kept, self._largest_size(), self._info.spec.num_graders
                )
            arrays.update({_SAVED + name: array for name, array in kept.items()})
        return arrays

    def _largest_size(self) -> tuple[int, int]:
        size = self._data.frame_size
        height, width, _ = self._info.spec.image_shape
        return (size, size) if size else (height, width)

    def _score_presence(self, batch: dict[str, Any], place: int) -> scoring.Arrays:
        del place
        count = self._rules.counts[-1]
        drawn = self._source.draw(batch["keys"], batch["image"], count)
        arrays = scoring.presence(drawn.labels, batch["labels"], drawn.weights)
        if self._rules.graders_vary:
            arrays["num_graders"] = np.full(
                len(batch["keys"]), batch["labels"].shape[1]
            )
        return arrays

    def _smooth_priors(self) -> dict[str, np.ndarray]:
        """Returns the smoothed means of the priors by key; none without smoothing."""
        config, sigma = self._config, self._config.smooth_slices
        source = self._source
        if not sigma or not isinstance(source, sources.SavedModel):
            return {}
        if "smoothed" not in source.ways:
            return {}
        total = self._count(config.split)
        means: dict[str, np.ndarray] = {}
        for batch in self._batches(config.split, 0, total):
            means.update(source.prior_means(batch["keys"], batch["image"]))
        return lesions.smoothed(means, list(means), sigma)

    def _score_slices(self, batch: dict[str, Any], place: int) -> scoring.Arrays:
        del place
        counts = []
        for key, image, graders in zip(batch["keys"], batch["image"], batch["labels"]):
            drawn = self._source.draw_ways(
                key,
                image,
                self._rules.counts[-1],
                lesion=lesion_keys.parse(key).lesion,
                smoothed=self._smoothed.get(key),
            )
            with checks.naming(key):
                counts.append(lesions.slice_counts(drawn, graders))
        return {"intersections": np.stack(counts), "pixel_mm": batch["spacing_mm"]}

    def _count(self, split: str) -> int:
        """Returns the number of images that are scored."""
        total = self._info.count(split)
        return min(self._config.limit or total, total)

    def _stream(
        self,
        split: str,
        score: Callable[[dict[str, Any], int], scoring.Arrays],
        what: str,
    ) -> scoring.Arrays:
        """Scores a split in batches, starting where an earlier call stopped."""
        total = self._count(split)
        parts = Parts(self._parts_dir(split, what))
        progress = Progress(total, split, done=parts.done, unit="images")
        if parts.done:
            progress.write(f"{split}: continuing after {parts.done} images")
        try:
            for batch in self._batches(split, parts.done, total):
                arrays = score(batch, parts.done)
                arrays["keys"] = np.array(batch["keys"])
                arrays["groups"] = np.array(batch["groups"])
                parts.add(arrays)
                progress.update(parts.done)
        finally:
            parts.flush()
            progress.close()
        return parts.table()

    def _batches(self, split: str, start: int, stop: int) -> Iterator[dict[str, Any]]:
        examples = input_pipeline.evaluation_examples(
            self._info, split, self._data, size=self._data.frame_size
        )
        # Images that differ are scored one by one.
        number = 1 if self._info.spec.is_mixed else self._config.batch_size
        examples = examples.take(stop).skip(start).batch(number)
        with records.named_errors(self._info, split):
            for batch in examples.prefetch(1).as_numpy_iterator():
                batch["keys"] = [key.decode() for key in batch.pop("key")]
                batch["groups"] = [group.decode() for group in batch.pop("group")]
                for name in {"labels", "modes"} & set(batch):
                    batch[name] = batch[name].astype(np.uint8)
                if self._config.offset_px:
                    _move(batch, self._config.offset_px)
                yield batch

    def _parts_dir(self, split: str, what: str) -> pathlib.Path:
        """Returns the directory of the part files of a split."""
        settings = {
            "version": __version__,
            "arrays": _ARRAYS_VERSION,
            "what": what,
            "split": split,
            "data": self._info.description,
            "input": dataclasses.asdict(self._data),
            "model": self._source.description["fingerprint"],
            "seed": self._config.seed,
            "rules": dataclasses.asdict(self._rules),
            "save_samples": self._config.save_samples,
            "smooth_slices": self._config.smooth_slices,
            "limit": self._config.limit,
            "offset_px": self._config.offset_px,
        }
        return resume.parts_dir(self._config.out_dir, settings)


def _move(batch: dict[str, Any], distance: int) -> None:
    """Moves images and labels around the frame, in a direction drawn from the key.

    What leaves the frame on one side enters it on the other, so the overlap of any two
    masks stays as it is.
    """
    hashes = [salted_hash(key, "direction of the offset") for key in batch["keys"]]
    angles = 2.0 * np.pi * np.array(hashes, np.float64) / 2.0**64
    moves = np.rint(distance * np.stack([np.sin(angles), np.cos(angles)], axis=1))
    row_axes = {"image": 0, "labels": 1, "modes": 1}  # Of a single image.
    for name in row_axes.keys() & batch.keys():
        axes = (row_axes[name], row_axes[name] + 1)
        moved = [np.roll(x, m, axes) for x, m in zip(batch[name], moves.astype(int))]
        batch[name] = np.stack(moved)


def _known_split(spec: records.DatasetSpec) -> dict[str, Any]:
    """Returns what the data set says about a split with a name, if it has one."""
    known = spec.preparation.get("known_split")
    if not isinstance(known, dict) or not {"source", "rule"} <= set(known):
        return {}
    return {"known_split": known}


def _open_source(config: EvaluationConfig, info: records.DatasetInfo) -> Source:
    if config.saved_model:
        return sources.SavedModel(config.saved_model, config.seed, config.sampling)
    splits = {config.split, config.validation_split} & set(info.splits)
    data = DataConfig(task=config.task or "plain", eval_size=config.eval_size or 0)
    assert config.samples_dir is not None  # The configuration has one of the two.
    return sources.SampleFiles(config.samples_dir, info, splits=splits, data=data)


def _write(
    out_dir: pathlib.Path, results: dict[str, Any], arrays: scoring.Arrays
) -> None:
    """Sorts the arrays into their files, and writes the results."""
    saved = {k[len(_SAVED) :]: v for k, v in arrays.items() if k.startswith(_SAVED)}
    per_image = {k: v for k, v in arrays.items() if not k.startswith(_SAVED)}
    per_image["counts"] = np.array(results["protocol"]["num_samples"])
    if "pixel_counts" in per_image:
        per_image["pixel_counts"] = per_image["pixel_counts"].sum(axis=0)
    results_dir.write(
        out_dir,
        results,
        per_image=per_image,
        samples=saved,
        markdown=tables.markdown_table(results),
        csv=tables.csv_table(results),
    )
