"""Compares independent, stratified and weighted samples of one model."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tf_probunet import __version__, files, locks, resume
from tf_probunet.artifacts import pretrained, saved_model
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.dataset import input_pipeline, records, task
from tf_probunet.evaluation import sources, summary, tables
from tf_probunet.evaluation.metrics import ged
from tf_probunet.evaluation.metrics.distances import Blocks, distance_blocks
from tf_probunet.evaluation.metrics.representatives import from_distances
from tf_probunet.evaluation.parts import Parts
from tf_probunet.evaluation.scoring import Arrays
from tf_probunet.evaluation.study_config import StudyConfig
from tf_probunet.predict import sampling
from tf_probunet.progress import Progress

RESULTS_NAME = "sampling.json"
TABLE_NAME = "sampling.md"
WAYS = ("independent", "stratified", "weighted")


def run(config: StudyConfig) -> dict[str, Any]:
    """Scores all ways, and writes `sampling.json` and `sampling.md`.

    If it is interrupted, the same call continues.

    Args:
        config: the settings.

    Returns:
        The content of `sampling.json`.

    Raises:
        FileNotFoundError: the model or the data do not exist.
        ValueError: they do not fit, or `out_dir` already holds results.
    """
    out_dir = pathlib.Path(config.out_dir)
    with locks.inside(out_dir):
        if (out_dir / RESULTS_NAME).exists() and not config.overwrite:
            raise ValueError(
                f"{out_dir / RESULTS_NAME}: exists already; --overwrite replaces it"
            )
        path = config.saved_model or pretrained.model_path()
        model, info = saved_model.load(path), records.read_info(config.data_dir)
        _check(model, info)
        results = summarise(_arrays(model, info, config), config)
        results["model"] = {
            "path": str(path),
            "name": model.metadata["model"],
            "fingerprint": SavedModelDir(path).fingerprint(),
        }
        results["data"].update(name=info.spec.name, fingerprint=info.fingerprint)
        files.write_text(out_dir / TABLE_NAME, markdown(results))
        files.write_json(out_dir / RESULTS_NAME, results)
        resume.remove_parts(out_dir)
    return results


def score_image(
    model: saved_model.LoadedModel,
    key: str,
    image: np.ndarray,
    graders: np.ndarray,
    config: StudyConfig,
    modes: np.ndarray | None = None,
) -> Arrays:
    """Scores all ways on one image.

    The U-Net runs once: all latents are decoded together.

    Args:
        model: with a prior and a decoder.
        key: of the image.
        image: [H, W, C] float32 in 0..1, the scored frame.
        graders: [M, H, W] binary.
        config: the settings.
        modes: [K, H, W], everything that a grader may draw, if it is known.

    Returns:
        For each way, the energy distance to the graders (`independent` [C]), that to
        the pool (`independent_apart` [C]) and the error of the share of samples that
        mark anything (`independent_presence` [C]). `explained` [K] of the hypotheses.
        `limit` and `diversity` of the pool. `floor` [C + 1], the last one for chosen
        samples. With modes, `mode_shares` [K] of the independent samples, and
        `mode_bias` [C, K], the shares of the stratified samples minus these.
    """
    counts, most = config.num_samples, config.num_samples[-1]
    sets = [("independent", most), *(("stratified", n) for n in counts)]
    sets.append(("stratified", config.pool))
    labels = _decode(model, key, image, sets, config.seed)
    blocks = distance_blocks(labels, graders)
    shown = np.asarray(labels.any(axis=(1, 2)))
    bounds = np.cumsum([0, *(n for _, n in sets)])
    places = [np.arange(*ends) for ends in zip(bounds[:-1], bounds[1:])]
    independent, *stratified, pool = places
    chosen = [
        from_distances(blocks.samples[np.ix_(pool, pool)], k) for k in config.hypotheses
    ]
    ways: dict[str, list[tuple[np.ndarray, Any]]] = {
        "independent": [(independent[:n], None) for n in counts],
        "stratified": [(place, None) for place in stratified],
        "weighted": [(pool[one.indices], one.weights) for one in chosen],
    }
    found: dict[str, Any] = {}
    for way, members in ways.items():
        scores = [_score(blocks, shown, pool, *member) for member in members]
        names = (way, f"{way}_apart", f"{way}_presence")
        found.update(zip(names, np.transpose(scores)))
    if modes is not None:
        # A sample is of the mode that is nearest to it.
        nearest = distance_blocks(labels, modes).cross.argmin(axis=1)
        shares = [
            np.bincount(nearest[place], minlength=len(modes)) / len(place)
            for place in (independent, *stratified)
        ]
        found["mode_shares"] = shares[0]
        found["mode_bias"] = np.array(shares[1:]) - shares[0]
    terms = ged.block_terms(_part(blocks, pool, blocks.cross[pool], blocks.graders))
    return {
        **found,
        "explained": np.array([one.explained for one in chosen]),
        "limit": terms.energy_distance,
        "diversity": terms.samples,
        "floor": ged.grader_floor(graders, [*counts, math.inf]),
    }


def summarise(arrays: Arrays, config: StudyConfig) -> dict[str, Any]:
    """Returns means with intervals by patient, and root mean square errors.

    Args:
        arrays: of all images: those of `score_image`, `keys` and `groups`.
        config: the settings.
    """
    counts = {"independent": config.num_samples, "stratified": config.num_samples}
    counts["weighted"] = config.hypotheses
    resampled = summary.resampled(arrays["groups"])
    groups = arrays[summary.UNITS[resampled]]
    columns = {name: arrays[name] for name in (*WAYS, "limit", "diversity", "floor")}
    columns.update({f"{way}_apart": arrays[f"{way}_apart"] for way in WAYS})
    columns["explained"] = arrays["explained"]
    found = summary.intervals(columns, groups)
    diversity = found["diversity"]["mean"]
    ways: dict[str, Any] = {}
    for way, numbers in counts.items():
        errors = np.sqrt(np.square(arrays[f"{way}_presence"]).mean(axis=0))
        ways[way] = {
            str(n): {
                "ged": score,
                "apart": apart,
                "presence_error": error,
                # n independent samples are diversity / n away from the model.
                "as_good_as": diversity / max(apart["mean"], 1e-9),
            }
            for n, score, apart, error in zip(
                numbers, found[way], found[f"{way}_apart"], errors
            )
        }
    for n, value in zip(config.hypotheses, found["explained"]):
        ways["weighted"][str(n)]["explained"] = value
    *floors, chosen = found["floor"]
    modes = {}
    if "mode_bias" in arrays:
        bias = {
            str(n): arrays["mode_bias"][:, place]
            for place, n in enumerate(config.num_samples)
        }
        modes = {
            "mode_shares": arrays["mode_shares"].mean(axis=0),
            "mode_bias": summary.intervals(bias, groups),
        }
    return summary.plain(
        {
            "ways": ways,
            **modes,
            "limit": found["limit"],
            "diversity": found["diversity"],
            "floor": dict(zip(config.num_samples, floors)),
            "chosen_floor": chosen,
            "pool": config.pool,
            "data": {
                "split": config.split,
                "images": len(arrays["keys"]),
                "groups": len(set(arrays["groups"])),
                "resampled": resampled,
            },
            "seed": config.seed,
            "version": __version__,
        }
    )


def markdown(results: dict[str, Any]) -> str:
    """Returns the table of `sampling.json` as Markdown."""
    ways, pool = results["ways"], results["pool"]
    head = ["samples", "independent", "stratified", "as good as", "floor"]
    rows = [[*head, "presence, independent", "presence, stratified"]]
    for n, one in ways["independent"].items():
        other = ways["stratified"][n]
        rows.append(
            [
                n,
                tables.with_bounds(one["ged"]),
                tables.with_bounds(other["ged"]),
                f"{other['as_good_as']:.1f}",
                tables.number(results["floor"][n]["mean"]),
                f"{one['presence_error']:.3f}",
                f"{other['presence_error']:.3f}",
            ]
        )
    head = [f"weighted hypotheses of {pool} samples", "energy distance", "as good as"]
    few = [[*head, "explained", "presence"]]
    for n, one in ways["weighted"].items():
        few.append(
            [
                n,
                tables.with_bounds(one["ged"]),
                f"{one['as_good_as']:.1f}",
                f"{one['explained']['mean']:.1%}",
                f"{one['presence_error']:.3f}",
            ]
        )
    blocks = [tables.markdown(rows), tables.markdown(few)]
    if "mode_bias" in results:
        shares = [f"{share:.1%}" for share in results["mode_shares"]]
        bias = [["share of each mode", *map(str, range(len(shares)))]]
        bias.append([f"{list(ways['independent'])[-1]} independent samples", *shares])
        for n, found in results["mode_bias"].items():
            cells = [
                f"{100 * mode['mean']:+.1f} [{100 * mode['low']:.1f}, "
                f"{100 * mode['high']:.1f}]"
                for mode in found
            ]
            bias.append([f"{n} stratified, difference in percentage points", *cells])
        blocks.append(tables.markdown(bias))
    data = results["data"]
    ends = (
        f"All {pool} samples: {tables.with_bounds(results['limit'])}. Floor of chosen "
        f"samples: {tables.number(results['chosen_floor']['mean'])}. "
        f"{data['images']} images, groups: {data['groups']}; 95% intervals by "
        f"{data['resampled'].rstrip('s')}. 'As good as': so many independent samples "
        f"are as close to all {pool} samples of the model. 'Presence': root mean "
        f"square error of the share of samples that mark anything, against all {pool}."
    )
    return "\n\n".join([*blocks, ends]) + "\n"


def _score(
    blocks: Blocks,
    shown: np.ndarray,
    pool: np.ndarray,
    place: np.ndarray,
    weights: np.ndarray | None,
) -> tuple[float, float, float]:
    """Returns the distances to the graders and to the pool, and the presence error."""
    pairs = blocks.samples[np.ix_(pool, pool)]
    apart = blocks.samples[np.ix_(place, pool)]
    towards = [
        ged.block_terms(_part(blocks, place, *others), sample_weights=weights)
        for others in ((blocks.cross[place], blocks.graders), (apart, pairs))
    ]
    share = np.average(shown[place], weights=weights)
    graders, model = (float(terms.energy_distance) for terms in towards)
    return graders, model, share - shown[pool].mean()


def _part(
    blocks: Blocks, place: np.ndarray, cross: np.ndarray, others: np.ndarray
) -> Blocks:
    return Blocks(cross, blocks.samples[np.ix_(place, place)], others)


def _decode(
    model: saved_model.LoadedModel,
    key: str,
    image: np.ndarray,
    sets: list[tuple[str, int]],
    seed: int,
) -> np.ndarray:
    """Returns the label maps [S, H, W] of all sets, one after the other."""
    seen = input_pipeline.central_crop(image[None], model.data.eval_size)
    inner = seen.shape[1:3]
    seen = input_pipeline.mirror_pad(seen, model.size_divisor)
    number = sources.image_seed(seed, key)
    z = sampling.draw_latent_sets(model, seen[0], sets=sets, seed=number, about=key)
    labels = model.call("decode", seen, z[None], about=key)["labels"][0]
    maps = input_pipeline.central_part(labels, inner).astype(np.uint8)
    return input_pipeline.pad_to(maps, image.shape[:2])


def _check(model: saved_model.LoadedModel, info: records.DatasetInfo) -> None:
    sampling.check_sampling(model, "stratified")
    for function in ("prior", "decode"):
        if not model.has(function):
            raise ValueError(f"{model.path}: lacks {function}, expected it")
    kind = task.kind(info.spec, model.data.task)
    if kind != "binary" or info.spec.num_graders < 2:
        raise ValueError(
            f"{info.data_dir}: has {info.spec.num_graders} graders and the classes "
            f"{', '.join(info.spec.class_names)}; expected at least two graders of a "
            "background and one class"
        )


def _arrays(
    model: saved_model.LoadedModel, info: records.DatasetInfo, config: StudyConfig
) -> Arrays:
    total = info.count(config.split)
    total = min(config.limit or total, total)
    settings = {
        **dataclasses.asdict(config),
        "version": __version__,
        "model": SavedModelDir(model.path).fingerprint(),
        "data": info.description,
    }
    for name in ("out_dir", "data_dir", "saved_model", "overwrite"):
        del settings[name]
    parts = Parts(resume.parts_dir(config.out_dir, settings))
    progress = Progress(total, config.split, done=parts.done, unit="images")
    try:
        for example in _examples(model, info, config.split, parts.done, total):
            key = example["key"].decode()
            row = score_image(
                model,
                key,
                example["image"],
                example["labels"],
                config,
                example.get("modes"),
            )
            row = {name: np.asarray(value)[None] for name, value in row.items()}
            row["keys"] = np.array([key])
            row["groups"] = np.array([example["group"].decode()])
            parts.add(row)
            progress.update(parts.done)
    finally:
        parts.flush()
        progress.close()
    return parts.table()


def _examples(
    model: saved_model.LoadedModel,
    info: records.DatasetInfo,
    split: str,
    start: int,
    stop: int,
) -> Iterator[dict[str, Any]]:
    examples = input_pipeline.evaluation_examples(
        info, split, model.data, size=model.data.frame_size
    )
    with records.named_errors(info, split):
        yield from examples.take(stop).skip(start).prefetch(1).as_numpy_iterator()
