r"""Trains all models and ablations alike and prints one table.

    python run/compare_models.py --jobs=2
    python run/compare_models.py --data_dir=runs/lidc --split=val --steps=1600 \
        --settings=lidc_cpu.flags --many_samples=100 --size=64 --out_dir=runs/compared

The data are phantom images unless --data_dir is given. Ctrl-C saves the current
training. The same command then continues and skips everything that is finished.
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
    "num_train num_val num_test size many_samples"
).split()


def score(pieces: Pieces, model: compared.Candidate, data: str) -> tuple:
    """Exports and scores a model.

    Returns:
        The results with up to 16 samples, and those with --many_samples or None.
    """
    values = cli.FLAGS
    compared.export(pieces, model)
    words = [data, *(f"--{name}={values[name].value}" for name in ("split", "limit"))]
    results = compared.score(pieces, model, words)
    return results, compared.score(pieces, model, words, values.many_samples)


def main() -> None:
    from tf_probunet import files
    from tf_probunet.evaluation import model_table

    values = cli.FLAGS
    kept = {name: values[name].value for name in KEPT}
    pieces = Pieces(values.out_dir, kept, values.jobs)
    models = compared.chosen(values["models"].value)
    data = f"--data_dir={values.data_dir or compared.phantom(pieces, kept)}"
    words = [f"--flagfile={values.settings}", data]
    words.append(f"--kl_warmup_steps={values.kl_warmup_steps}")
    members = [values.member_steps or values.steps] * values.num_members
    trained = compared.train(pieces, models, words, values.steps, members)
    tasks = [functools.partial(score, pieces, model, data) for model in models]
    entries = []
    for model, (results, many) in zip(models, pieces.side_by_side(tasks)):
        # Timed last, when nothing else is running.
        times = trained[model.key], *compared.time_samples(pieces, model, values.size)
        entries.append(model_table.Entry(results, *times, many))
    rows = model_table.table(entries, reference=models[0].title)
    print(f"\n{model_table.to_text(rows)}")
    path = pieces.path / "table.md"
    files.write_text(path, model_table.to_markdown(rows))
    minutes = sum(entry.training_seconds for entry in entries) / 60
    print(f"{minutes:.0f} minutes of training; table in Markdown: {path}")
