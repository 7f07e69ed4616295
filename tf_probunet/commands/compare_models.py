r"""Trains all models and ablations alike and prints one table.

    python run/compare_models.py --jobs=2
    python run/compare_models.py --train_minutes=30 --seeds=3 --models=ssn,mixture
    python run/compare_models.py --data_dir=runs/lidc --split=val --steps=1600 \
        --settings=lidc_cpu.flags --many_samples=100 --size=64 --out_dir=runs/compared

The data are phantom images unless --data_dir is given. With --train_minutes all models
get the same computing instead of the same steps: the speed of each is measured first,
one after the other. With --seeds every model is trained several times. Ctrl-C saves the
current training. The same command then continues and skips everything that is finished.
"""

import functools

from absl import flags

from tf_probunet.commands import cli, compared
from tf_probunet.commands.pieces import Pieces

flags.DEFINE_string("out_dir", "runs/compare", "directory for everything")
flags.DEFINE_string("data_dir", None, "a prepared data set; by default phantom images")
flags.DEFINE_string("split", "test", "split to score")
flags.DEFINE_integer("limit", 0, "score only the first N images; 0 for all")
flags.DEFINE_string("settings", "phantom.flags", "flag file of the trainings")
flags.DEFINE_integer("steps", 450, "training steps of each model", lower_bound=1)
flags.DEFINE_integer("kl_warmup_steps", 225, "of models with latents", lower_bound=0)
flags.DEFINE_float(
    "train_minutes",
    0,
    "train each model for as many steps as it makes in these minutes, half of them as "
    "warm-up; 0 for --steps and --kl_warmup_steps. An ensemble shares them",
    lower_bound=0,
)
flags.DEFINE_integer("seeds", 1, "trainings of each model", lower_bound=1)
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
flags.DEFINE_list("models", [], "compare prob_unet with only these, such as m_heads_8")
KEPT = (
    "data_dir split limit settings steps kl_warmup_steps num_members member_steps "
    "num_train num_val num_test size many_samples train_minutes seeds"
).split()
NEWER = ("train_minutes", "seeds")


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
    pieces = Pieces(values.out_dir, kept, values.jobs)
    models = compared.chosen(values["models"].value)
    data = f"--data_dir={values.data_dir or compared.phantom(pieces, kept)}"
    words = [f"--flagfile={values.settings}", data]
    runs = [run for model in models for run in model.with_seeds(values.seeds)]
    trained = {}
    for model in models:
        steps = values.steps, values.kl_warmup_steps
        if values.train_minutes:
            speed = compared.seconds_per_step(pieces, model, words)
            steps = compared.budget(60 * values.train_minutes, speed)
        count = steps[0]
        members = [values.member_steps or count] * values.num_members
        if values.train_minutes:
            members = [max(1, count // values.num_members)] * values.num_members
        own = [run for run in runs if run.model == model.key]
        all_words = [*words, f"--kl_warmup_steps={steps[1]}"]
        trained.update(compared.tasks(pieces, own, all_words, count, members))
    seconds = compared.run_all(pieces, trained)
    tasks = [functools.partial(score, pieces, run, data) for run in runs]
    scored = dict(zip((run.key for run in runs), pieces.side_by_side(tasks)))
    entries = []
    for model in models:
        results, many, chosen = scored[model.key]
        seeds = [run.key for run in runs if run.model == model.key]
        entries.append(
            model_table.Entry(
                results,
                seconds[model.key],
                # Timed last, when nothing else is running.
                *compared.time_samples(pieces, model, values.size),
                many,
                chosen,
                compared.multiply_adds(pieces, model, values.size),
                [scored[key][0] for key in seeds],
            )
        )
    rows = model_table.table(entries, reference=models[0].title)
    print(f"\n{model_table.to_text(rows)}")
    path = pieces.path / "table.md"
    files.write_text(path, model_table.to_markdown(rows))
    minutes = sum(entry.training_seconds for entry in entries) / 60
    print(f"{minutes:.0f} minutes of training; table in Markdown: {path}")
