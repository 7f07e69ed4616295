r"""Trains all models and ablations alike and prints one table.

    python run/compare_models.py --jobs=2
    python run/compare_models.py --train_minutes=30 --models=ssn,mixture --seeds=3
    python run/compare_models.py --train_minutes=30 --objectives=own,both --seeds=3 \
        --leading=3
    python run/compare_models.py --data_dir=runs/lidc --split=val --steps=1600 \
        --settings=lidc_cpu.flags --many_samples=100 --size=64 --out_dir=runs/compared

The data are phantom images unless --data_dir is given. With --train_minutes all models
get the same processor time instead of the same steps: the speed of each is measured
first, one after the other. With --objectives each model is trained on several losses,
and with --seeds several times. Ctrl-C saves the current training. The same command then
continues and skips everything that is finished. The same directory takes more models,
objectives and seeds.
"""

from __future__ import annotations

import functools
import shlex
import statistics
from collections.abc import Sequence

from absl import flags

from tf_probunet.artifacts.results_dir import Results
from tf_probunet.commands import cli, compared
from tf_probunet.commands.pieces import Pieces

flags.DEFINE_string("out_dir", "runs/compare", "directory for everything")
flags.DEFINE_string("data_dir", None, "a prepared data set; by default phantom images")
flags.DEFINE_string("split", "test", "split to score")
flags.DEFINE_integer("limit", 0, "score only the first N images; 0 for all")
flags.DEFINE_string("settings", "phantom.flags", "flag file of the trainings")
flags.DEFINE_string("common", "", "flags of run/train.py for all trainings, in quotes")
flags.DEFINE_integer("steps", 450, "training steps of each model", lower_bound=1)
flags.DEFINE_integer(
    "kl_warmup_steps",
    225,
    "of models with latents, and of the energy distance beside a model's own loss",
    lower_bound=0,
)
flags.DEFINE_float(
    "train_minutes",
    0,
    "train each model for as many steps as it makes in these minutes of processor "
    "time, half of them as warm-up; 0 for --steps and --kl_warmup_steps. An ensemble "
    "shares them",
    lower_bound=0,
)
flags.DEFINE_list(
    "objectives",
    ["own"],
    "what models are trained on: own for their own loss, energy for the energy "
    "distance, both for the sum. Each is a row",
)
flags.DEFINE_integer("seeds", 1, "trainings of each row", lower_bound=1)
flags.DEFINE_integer(
    "leading",
    0,
    "train only so many rows, the best ones with the first seed, with the other seeds; "
    "0 for all",
    lower_bound=0,
)
flags.DEFINE_integer("num_members", 16, "members of the ensemble", lower_bound=1)
flags.DEFINE_integer(
    "member_steps", 0, "steps of each member; 0 for --steps", lower_bound=0
)
flags.DEFINE_integer("num_train", 2000, "phantom images to train on", lower_bound=1)
flags.DEFINE_integer("num_val", 250, "phantom images to validate on", lower_bound=1)
flags.DEFINE_integer("num_test", 250, "phantom images to score", lower_bound=1)
flags.DEFINE_integer("size", 48, "height and width of the timed image", lower_bound=1)
flags.DEFINE_integer("many_samples", 0, "a column for more than 16 samples; 0 for none")
flags.DEFINE_integer("jobs", 1, "runs at a time; they share the cores", lower_bound=1)
flags.DEFINE_list(
    "models", [], "compare prob_unet with only these, such as m_heads_8 or ssn_both"
)
KEPT = (
    "data_dir split limit settings steps kl_warmup_steps num_members member_steps "
    "num_train num_val num_test many_samples train_minutes common"
).split()
NEWER = ("train_minutes", "common")


def score(pieces: Pieces, model: compared.Candidate, data: str) -> tuple:
    """Exports and scores a model.

    Returns:
        The results with up to 16 samples, those with --many_samples or None, and those
        of stratified or weighted samples or None.
    """
    values = cli.FLAGS
    compared.export(pieces, model)
    words = [data, *(f"--{name}={values[name].value}" for name in ("split", "limit"))]
    return (
        compared.score(pieces, model, words),
        compared.score(pieces, model, words, values.many_samples),
        compared.score_chosen(pieces, model, words),
    )


def main() -> None:
    from tf_probunet import files
    from tf_probunet.evaluation import model_table

    values = cli.FLAGS
    kept = {name: values[name].value for name in KEPT}
    for name in NEWER:  # Directories of earlier versions lack these settings.
        if values[name].value == values[name].default:
            del kept[name]
    models = compared.chosen(values["models"].value, values.objectives)
    pieces = Pieces(values.out_dir, kept, values.jobs)
    data = f"--data_dir={values.data_dir or compared.phantom(pieces, kept)}"
    scored = train_and_score(pieces, models, data)
    repeated = models
    if values.leading:
        # Models with fewer samples come last: their distances are others.
        order = [(-max(found[0].counts), _distance(found[0])) for found in scored]
        best = sorted(range(len(models)), key=order.__getitem__)[: values.leading]
        repeated = [models[place] for place in sorted(best)]
    runs = [run for model in repeated for run in model.with_seeds(values.seeds)[1:]]
    again = dict(zip(runs, train_and_score(pieces, runs, data)))
    entries = []
    for model, first in zip(models, scored):
        found = [first, *(again[run] for run in runs if run.model == model.key)]
        results, many, chosen, seconds = zip(*found)
        entries.append(
            model_table.Entry(
                results,
                statistics.fmean(seconds),
                # Timed last, when nothing else is running.
                *compared.time_samples(pieces, model, values.size),
                [one for one in many if one is not None],
                [one for one in chosen if one is not None],
                compared.multiply_adds(pieces, model, values.size),
            )
        )
    rows = model_table.table(entries, reference=models[0].title)
    print(f"\n{model_table.to_text(rows)}")
    path = pieces.path / "table.md"
    files.write_text(path, model_table.to_markdown(rows))
    minutes = sum(entry.training_seconds * len(entry.results) for entry in entries) / 60
    print(f"{minutes:.0f} minutes of training; table in Markdown: {path}")


def train_and_score(
    pieces: Pieces, runs: Sequence[compared.Candidate], data: str
) -> list[tuple]:
    """Trains, exports and scores models.

    Returns:
        For each of them what `score` returns, and the processor time of the training.
    """
    values = cli.FLAGS
    words = [f"--flagfile={values.settings}", data, *shlex.split(values.common)]
    trained = {}
    for run in runs:
        steps, warm_up = values.steps, values.kl_warmup_steps
        if values.train_minutes:
            speed = compared.seconds_per_step(pieces, run, words)
            steps, warm_up = compared.budget(60 * values.train_minutes, speed)
        member_steps = values.member_steps or steps
        if values.train_minutes:
            member_steps = max(1, steps // values.num_members)
        members = [member_steps] * values.num_members
        names = ("kl_warmup_steps", "energy_warmup_steps")
        all_words = [*words, *(f"--{name}={warm_up}" for name in names)]
        trained.update(compared.tasks(pieces, [run], all_words, steps, members))
    seconds = compared.run_all(pieces, trained)
    tasks = [functools.partial(score, pieces, run, data) for run in runs]
    scored = pieces.side_by_side(tasks)
    times = [compared.processor_seconds(pieces, r, values.num_members) for r in runs]
    return [
        (*found, seconds[run.key] if time is None else time)
        for run, found, time in zip(runs, scored, times)
    ]


def _distance(results: Results) -> float:
    """Returns the energy distance for the largest number of samples."""
    return results.required_interval("ged", max(results.counts))["mean"]
