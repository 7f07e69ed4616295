r"""Trains with changed settings and several seeds, and prints one table.

    python run/compare_settings.py --settings=lidc_cpu.flags --data_dir=runs/lidc \
        --common="--steps=1000 --kl_warmup_steps=250 --validate_every=1000" \
        --change=--beta=1 --change="--batch_size=16 --steps=500" \
        --out_dir=runs/lidc_settings

The score of a run is the lowest energy distance of its validations. The same command
continues after an interruption. It skips finished runs, so you can add seeds and
changes.
"""

import functools
import re
import shlex

from absl import flags

from tf_probunet.commands import cli
from tf_probunet.commands.pieces import Pieces

flags.DEFINE_string("settings", None, "flag file of the trainings")
flags.DEFINE_string("data_dir", None, "a prepared data set")
flags.DEFINE_string("common", "", "flags of run/train.py for all trainings, in quotes")
flags.DEFINE_multi_string("change", [], "flags of run/train.py to change, in quotes")
flags.DEFINE_list("seeds", ["0", "1", "2"], "seeds to train each change with")
flags.DEFINE_integer("jobs", 1, "runs at a time; they share the cores", lower_bound=1)
flags.DEFINE_string("out_dir", None, "directory for everything")
REQUIRED = ["settings", "data_dir", "out_dir", "seeds"]


def score(pieces: Pieces, change: str, seed: int) -> float:
    """Trains with a change and a seed, and returns the lowest validation distance."""
    from tf_probunet import files

    values = cli.FLAGS
    name = "_".join([*re.findall(r"[\w.-]+", change.replace("--", "")), f"seed_{seed}"])
    run_dir = pieces.path / name
    words = [
        "train",
        f"--flagfile={values.settings}",
        f"--data_dir={values.data_dir}",
    ]
    # The change comes last, so that it wins over the common flags.
    words += [*shlex.split(values.common), *shlex.split(change)]
    pieces.run(f"train_{name}", *words, f"--run_dir={run_dir}", f"--seed={seed}")
    best = files.read_json(run_dir / "best.json", "best validation")
    files.check_fields(best, {"ged": [int, float]}, run_dir / "best.json")
    return best["ged"]


def main() -> None:
    from tf_probunet import files
    from tf_probunet.evaluation import settings_table, tables

    values = cli.FLAGS
    seeds = list(dict.fromkeys(_seed(word) for word in values["seeds"].value))
    kept = {name: values[name].value for name in ("settings", "data_dir", "common")}
    pieces = Pieces(values.out_dir, kept, values.jobs)
    changes = list(dict.fromkeys(["", *values["change"].value]))
    tasks = [
        functools.partial(score, pieces, change, seed)
        for change in changes
        for seed in seeds
    ]
    found = iter(pieces.side_by_side(tasks))
    scores = {change or "none": [next(found) for _ in seeds] for change in changes}
    rows = settings_table.table(scores, seeds)
    print(f"\n{tables.aligned(rows)}")
    path = pieces.path / "table.md"
    files.write_text(path, tables.markdown(rows) + "\n")
    print(f"table in Markdown: {path}")


def _seed(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(f"seeds has {word!r}, expected numbers like 0,1,2")
    return int(word)
