"""Scores a SavedModel, or another model's samples, and writes tables of the results.

    python run/evaluate.py --saved_model=runs/saved_model --data_dir=runs/phantom
    --out_dir=runs/results

If an evaluation is interrupted, the same command continues it. docs/evaluation.md
explains the scores, and how to score the samples of your own model.
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("saved_model", None, "a SavedModel of run/export.py")
flags.DEFINE_string("samples_dir", None, "instead: the samples of any model, as files")
flags.DEFINE_string("data_dir", None, "a prepared data set")
flags.DEFINE_string("out_dir", None, "where to write the results")
flags.DEFINE_string("split", "test", "which split to score")
flags.DEFINE_list(
    "num_samples", ["1", "4", "8", "16"], "numbers of samples, with commas between"
)
flags.DEFINE_string(
    "validation_split",
    "val",
    "the split on which the threshold for ambiguous images is chosen; '' for none",
)
flags.DEFINE_integer("batch_size", 8, "images at once; no number depends on it")
flags.DEFINE_integer("seed", 0, "seed of the samples")
flags.DEFINE_enum(
    "statistic", "v", ["v", "u"], "v: pairs i = j count (the paper); u: they do not"
)
flags.DEFINE_enum(
    "both_empty",
    "zero",
    ["zero", "drop"],
    "distance of two empty masks: zero (the paper), or drop such pairs",
)
flags.DEFINE_integer("save_samples", 16, "images to keep with samples, for figures")
flags.DEFINE_integer("limit", 0, "score the first so many images only; 0 for all")
flags.DEFINE_bool("overwrite", False, "replace the results in --out_dir")
flags.DEFINE_enum("task", None, ["plain", "switched"], "of --samples_dir only")
flags.DEFINE_integer(
    "eval_size", None, "--samples_dir only: size of the central crop; 0 for all"
)
PLAIN_FLAGS = (
    "saved_model samples_dir data_dir out_dir split validation_split batch_size seed "
    "statistic both_empty save_samples limit overwrite task eval_size"
).split()
REQUIRED = ["data_dir", "out_dir"]


def counts() -> tuple[int, ...]:
    texts = cli.FLAGS["num_samples"].value
    if not all(text.strip().isdecimal() for text in texts):
        raise ValueError(
            f"num_samples is {','.join(texts)!r}, expected numbers such as 1,4,8,16"
        )
    return tuple(map(int, texts))


def main() -> None:
    num_samples = counts()
    from tf_probunet.evaluation import evaluate

    values = {name: cli.FLAGS[name].value for name in PLAIN_FLAGS}
    config = evaluate.EvaluationConfig(num_samples=num_samples, **values)
    print(evaluate.table(evaluate.evaluate(config)))
    print(f"results: {config.out_dir}")
