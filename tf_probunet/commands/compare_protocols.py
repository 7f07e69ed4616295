"""Scores the same samples by every protocol, for the table in docs/evaluation.md.

python run/compare_protocols.py --saved_model=data/pretrained/lidc_cpu
--data_dir=runs/lidc --out_dir=runs/protocols
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_string("saved_model", None, "a SavedModel of run/export.py")
flags.DEFINE_string("data_dir", None, "a prepared data set")
flags.DEFINE_string("out_dir", None, "where to write the results of each protocol")
flags.DEFINE_string("split", "val", "the split to score")
flags.DEFINE_integer("limit", 0, "score at most this many images; 0 for all", 0)
flags.DEFINE_integer("seed", 0, "seed of the samples")
REQUIRED = ["saved_model", "data_dir", "out_dir"]


def main() -> None:
    values = cli.FLAGS
    from tf_probunet import files
    from tf_probunet.evaluation import protocol_table, tables

    results = protocol_table.score_all(
        values.saved_model,
        values.data_dir,
        values.out_dir,
        split=values.split,
        limit=values.limit,
        seed=values.seed,
    )
    rows = protocol_table.table(results)
    path = f"{values.out_dir}/protocols.md"
    files.write_text(path, tables.markdown(rows) + "\n")
    print(tables.aligned(rows))
    print(f"table: {path}")
