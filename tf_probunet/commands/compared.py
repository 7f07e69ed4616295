"""Trains, exports, scores and times the models that are compared with each other."""

from __future__ import annotations

import dataclasses
import functools
import glob
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from tf_probunet.artifacts import results_dir
from tf_probunet.artifacts.saved_model_dir import SavedModelDir
from tf_probunet.commands.pieces import Pieces
from tf_probunet.models import registry

# The steps of a run that measures the speed of a model.
_SPEED_STEPS = 12

# What a model can be trained on, with the ending of its title.
OBJECTIVES = {
    "own": "",
    "both": " + energy distance",
    "energy": ", energy distance alone",
}


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model that is trained and scored.

    Attributes:
        key: the start of its file names.
        title: the title of its row in the table.
        flags: its own flags of `run/train.py`.
        is_ensemble: whether it consists of several runs.
        first_seed: of its training, or of the first member of an ensemble.
        first_key: the key of the same model with the first seed; None for this one.
    """

    key: str
    title: str
    flags: tuple[str, ...]
    is_ensemble: bool = False
    first_seed: int = 0
    first_key: str | None = None

    @property
    def model(self) -> str:
        """The key of the same model with the first seed."""
        return self.first_key or self.key

    def with_seeds(self, count: int) -> list[Candidate]:
        """Returns this model and `count` - 1 more of other seeds."""
        # Members of ensembles have consecutive seeds, so that others are far apart.
        others = [
            dataclasses.replace(
                self,
                key=f"{self.key}_seed{number}",
                first_seed=100 * number,
                first_key=self.key,
            )
            for number in range(1, count)
        ]
        return [self, *others]


def candidates() -> list[Candidate]:
    """Returns all models, followed by the ablations, trained on their own losses."""
    variants = {k: v for k, v in registry.VARIANTS.items() if v.is_compared}
    return [
        Candidate(
            key,
            f"ablation: {variant.title}" if variant.is_ablation else variant.title,
            variant.flags(),
            variant.is_ensemble,
        )
        for key, variant in sorted(variants.items(), key=lambda kv: kv[1].is_ablation)
    ]


def with_objective(model: Candidate, objective: str) -> Candidate | None:
    """Returns a model that is trained on one of `OBJECTIVES`.

    Returns:
        The model; None for an ensemble and another objective than its own loss, because
        each member has a single segmentation.
    """
    if objective == "own":
        return model
    if model.is_ensemble:
        return None
    name = model.flags[0].partition("=")[2]
    flags = [f"--energy_weight={registry.entry(name).energy_weight:g}"]
    if objective == "energy":
        flags.append("--elbo_weight=0")
    return dataclasses.replace(
        model,
        key=f"{model.key}_{objective}",
        title=model.title + OBJECTIVES[objective],
        flags=(*model.flags, *flags),
    )


def chosen(
    keys: Sequence[str], objectives: Sequence[str] = ("own",)
) -> list[Candidate]:
    """Returns the candidates with these keys, and always the first candidate.

    Args:
        keys: keys of candidates, such as `ssn` for all its objectives or `ssn_both`
            for one; empty for all of them.
        objectives: names of `OBJECTIVES`. The first candidate is always trained on its
            own loss, whatever they are.

    Raises:
        ValueError: a key or an objective is unknown.
    """
    for objective in objectives:
        if objective not in OBJECTIVES:
            raise ValueError(
                f"objectives has {objective!r}, expected some of "
                f"{', '.join(OBJECTIVES)}"
            )
    known = candidates()
    names = [candidate.key for candidate in known]
    possible = {
        row.key: (model, objective, row)
        for model in known
        for objective in OBJECTIVES
        for row in [with_objective(model, objective)]
        if row is not None
    }
    for key in keys:
        if key not in names and key not in possible:
            raise ValueError(f"models has {key!r}, expected some of {', '.join(names)}")
    return [
        row
        for key, (model, objective, row) in possible.items()
        if row == known[0]
        or (key in keys and objective != "own")
        or (objective in objectives and (not keys or model.key in keys))
    ]


def phantom(pieces: Pieces, counts: Mapping[str, object]) -> pathlib.Path:
    """Prepares phantom images and returns their directory.

    Args:
        pieces: the pieces of the comparison.
        counts: any of `num_train`, `num_val` and `num_test`; other names are ignored.
    """
    path = pieces.path / "phantom"
    names = [n for n in ("num_train", "num_val", "num_test") if n in counts]
    words = [f"--out_dir={path}", *(f"--{name}={counts[name]}" for name in names)]
    # phantom.flags was tuned on phantoms of other seeds.
    pieces.run("prepare", "prepare_phantom", *words, "--seed=1")
    return path


def training(
    pieces: Pieces, model: Candidate, words: Sequence[str], member: int | None = None
) -> Callable[[], float]:
    """Returns a function that trains a model and returns its seconds.

    Args:
        pieces: the pieces of the comparison.
        model: the model.
        words: flags of `run/train.py` that all models share.
        member: which member of an ensemble to train; None for another model.
    """
    name = model.key if member is None else f"{model.key}_{member:02d}"
    seed = model.first_seed + (member or 0)
    own = [f"--run_dir={pieces.path / name}", f"--seed={seed}", *model.flags]
    # The model's own flags come last, so that they win over those of the flag file.
    return functools.partial(pieces.run, f"train_{name}", "train", *words, *own)


def seconds_per_step(pieces: Pieces, model: Candidate, words: Sequence[str]) -> float:
    """Measures the processor time of a training step, in a short run of its own.

    Args:
        pieces: the pieces of the comparison.
        model: the model.
        words: flags of `run/train.py` that all models share.
    """
    name = f"speed_{model.model}"  # All seeds take the same time.
    path = pieces.path / name

    def measure() -> dict:
        # The fastest part: others were disturbed, or built the graph.
        return {"seconds": min(_processor_seconds(path).values())}

    steps = [f"--steps={_SPEED_STEPS}", f"--validate_every={_SPEED_STEPS}"]
    logged = [f"--log_every={_SPEED_STEPS // 3}", "--validation_images=1"]
    command = ["train", *words, *steps, *logged, f"--run_dir={path}", *model.flags]
    pieces.run(name, *command)
    return pieces.remember(f"seconds_{model.model}", measure)["seconds"]


def processor_seconds(
    pieces: Pieces, model: Candidate, num_members: int
) -> float | None:
    """Returns the processor time of all steps of a finished training.

    Args:
        pieces: the pieces of the comparison.
        model: the model.
        num_members: how many runs an ensemble consists of.

    Returns:
        The seconds of all threads and members, without those of building the graph and
        of validation; None if an older version has trained it, which did not log them.
    """
    names = [model.key]
    if model.is_ensemble:
        names = [f"{model.key}_{member:02d}" for member in range(num_members)]

    def measure() -> dict:
        from tf_probunet.training.run_dir import RunDir

        total = 0.0
        for path in (pieces.path / name for name in names):
            seconds = _processor_seconds(path)
            if not seconds:
                return {"seconds": None}
            steps = RunDir(path).config().training.steps
            total += steps * statistics.median(seconds.values())
        return {"seconds": total}

    return pieces.remember(f"processor_{model.key}", measure)["seconds"]


def _processor_seconds(run_dir: pathlib.Path) -> dict[int, float]:
    """Returns the processor time of a step, by the steps at which it was logged."""
    from tf_probunet.training import callbacks, logs

    return logs.read_scalars(run_dir).get(callbacks.PROCESSOR_SECONDS, {})


def budget(seconds: float, seconds_per_step: float) -> tuple[int, int]:
    """Returns the steps that fit into a time, and the half of them for the warm-up."""
    steps = max(1, round(seconds / seconds_per_step))
    return steps, steps // 2


def train(
    pieces: Pieces,
    models: Sequence[Candidate],
    words: Sequence[str],
    steps: int,
    member_steps: Sequence[int],
) -> dict[str, float]:
    """Trains models side by side; each member of an ensemble is a training.

    The arguments are those of `tasks`, and the result is that of `run_all`.
    """
    return run_all(pieces, tasks(pieces, models, words, steps, member_steps))


def tasks(
    pieces: Pieces,
    models: Sequence[Candidate],
    words: Sequence[str],
    steps: int,
    member_steps: Sequence[int],
) -> dict[str, list[Callable[[], float]]]:
    """Returns functions that train models, each member of an ensemble on its own.

    Args:
        pieces: the pieces of the comparison.
        models: the models.
        words: flags of `run/train.py` that all models share.
        steps: training steps of each model that is not an ensemble.
        member_steps: training steps of each member of an ensemble.

    Returns:
        The trainings of each model, by its key.
    """

    def schedule(count: int) -> list[str]:
        # One validation, at the end: the last checkpoint is the one that counts.
        own = [f"--steps={count}", f"--validate_every={count}"]
        return [*words, *own, f"--log_every={max(1, count // 10)}"]

    return {
        model.key: [
            training(pieces, model, schedule(count), member)
            for member, count in enumerate(member_steps)
        ]
        if model.is_ensemble
        else [training(pieces, model, schedule(steps))]
        for model in models
    }


def run_all(
    pieces: Pieces, trainings: Mapping[str, Sequence[Callable[[], float]]]
) -> dict[str, float]:
    """Trains models side by side.

    Args:
        pieces: the pieces of the comparison.
        trainings: as `tasks` returns them.

    Returns:
        The training time of each model in seconds, by its key. That of an ensemble is
        the sum over its members.
    """
    keys = [key for key, own in trainings.items() for _ in own]
    flat = [one for own in trainings.values() for one in own]
    seconds = dict.fromkeys(keys, 0.0)
    for key, taken in zip(keys, pieces.side_by_side(flat)):
        seconds[key] += taken
    return seconds


def export(pieces: Pieces, model: Candidate) -> None:
    """Exports a trained model."""
    target = [f"--out_dir={saved_model(pieces, model)}", "--overwrite"]
    pieces.run(f"export_{model.key}", "export", trained(pieces, model), *target)


def trained(pieces: Pieces, model: Candidate) -> str:
    """Returns the flag of `run/export.py` that names a trained model."""
    path = pieces.path / model.key
    if model.is_ensemble:
        return f"--members={glob.escape(str(path))}_[0-9][0-9]"
    return f"--run_dir={path}"


def score(
    pieces: Pieces,
    model: Candidate,
    words: Sequence[str],
    many_samples: int | None = None,
) -> results_dir.Results | None:
    """Scores a model with up to 16 samples, or with exactly `many_samples`.

    Args:
        pieces: the pieces of the comparison.
        model: an exported model.
        words: flags of `run/evaluate.py`: the data and the split.
        many_samples: number of samples; 0 to skip this score.

    Returns:
        The results; None if there is nothing to do, or if the model does not have so
        many samples.
    """
    kind = "" if many_samples is None else "_many"
    saved = saved_model(pieces, model)
    command = ["evaluate", f"--saved_model={saved}", *words]
    if many_samples is not None:
        described = SavedModelDir(saved).describe()
        most = described.metadata["max_samples"] or many_samples
        if not many_samples or most < many_samples:
            return None
        command += [f"--num_samples={many_samples}", "--validation_split="]
    path = pieces.path / f"{model.key}{kind}_results"
    target = [f"--out_dir={path}", "--overwrite"]
    pieces.run(f"evaluate{kind}_{model.key}", *command, *target)
    return results_dir.read(path, model.title)


def score_chosen(
    pieces: Pieces, model: Candidate, words: Sequence[str]
) -> results_dir.Results | None:
    """Scores 16 weighted samples of a model that has them, or 16 stratified ones.

    Returns:
        The results; None if the model has neither.
    """
    saved = saved_model(pieces, model)
    has = SavedModelDir(saved).describe().signatures
    ways = [way for way in ("weighted", "stratified") if way in has]
    if not ways:
        return None
    path = pieces.path / f"{model.key}_chosen_results"
    command = ["evaluate", f"--saved_model={saved}", *words, f"--sampling={ways[0]}"]
    command += ["--num_samples=16", "--validation_split=", f"--out_dir={path}"]
    pieces.run(f"evaluate_chosen_{model.key}", *command, "--overwrite")
    return results_dir.read(path, model.title)


def multiply_adds(pieces: Pieces, model: Candidate, size: int) -> int:
    """Returns the multiply-adds of 16 samples of an image, or of all if fewer exist.

    Args:
        pieces: the pieces of the comparison.
        model: an exported model.
        size: height and width of the image.
    """

    def count() -> dict:
        from tf_probunet.models import cost

        described = SavedModelDir(saved_model(pieces, model)).describe()
        most = described.metadata["max_samples"] or 16
        members = most if model.is_ensemble else 0
        found = cost.cost(described.network, size, size, members)
        return {"multiply_adds": found.multiply_adds(min(16, most))}

    return pieces.remember(f"cost_{model.key}_{size}", count)["multiply_adds"]


def saved_model(pieces: Pieces, model: Candidate) -> pathlib.Path:
    """Returns the directory that a model is exported to."""
    return pieces.path / f"{model.key}_saved_model"


def time_samples(pieces: Pieces, model: Candidate, size: int) -> tuple[float, int]:
    """Times 16 samples of one image, or all samples if there are fewer.

    Returns:
        The seconds of the fastest call, and the number of samples. A second run returns
        the numbers of the first.
    """
    path = saved_model(pieces, model)
    name = f"time_{model.key}_{size}"
    times = pieces.remember(name, lambda: _time_samples(path, size, 20))
    return times["seconds"], times["samples"]


def _time_samples(path: pathlib.Path, size: int, repeats: int) -> dict:
    import tensorflow as tf

    from tf_probunet.artifacts import saved_model

    model = saved_model.load(path)
    count = min(16, model.metadata["max_samples"] or 16)
    image = tf.zeros([1, size, size, model.network.image_channels])
    seconds = []
    for _ in range(repeats + 2):  # The first calls build the graph.
        start = time.perf_counter()
        model.functions.sample(image, count, 0)["labels"].numpy()
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds[2:]), "samples": count}
