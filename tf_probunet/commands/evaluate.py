"""Scores a SavedModel, or another model's samples, and writes tables of the results.

    python run/evaluate.py --saved_model=runs/saved_model --data_dir=runs/phantom
    --out_dir=runs/results

If an evaluation is interrupted, the same command continues it. docs/evaluation.md
explains the scores, and how to score the samples of your own model.
"""

from tf_probunet.commands import cli
from tf_probunet.evaluation.config import EvaluationConfig

cli.define_config_flags(EvaluationConfig)
REQUIRED = ["data_dir", "out_dir"]


def main() -> None:
    config = cli.config_from_flags(EvaluationConfig)
    from tf_probunet.evaluation import evaluate

    print(evaluate.table(evaluate.evaluate(config)))
    print(f"results: {config.out_dir}")
