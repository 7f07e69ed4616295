"""Puts several results of run/evaluate.py into one table.

    python run/compare.py runs/prob_unet/results runs/unet/results --out=compare.md

Differences and p-values (Wilcoxon's signed-rank test, paired by image) are against the
first, or against --reference. Results of other data or protocol are refused.
"""

import _cli
from absl import flags

flags.DEFINE_list("results", [], "directories of results, besides the arguments")
flags.DEFINE_list("names", [], "names for them in the table; default: the models'")
flags.DEFINE_string("reference", None, "name of the one to compare with")
flags.DEFINE_string("out", None, "write the table as Markdown to this file too")


def main(arguments: list[str]) -> None:
    from tf_probunet import files
    from tf_probunet.evaluation import compare

    paths = [*arguments, *_cli.FLAGS["results"].value]
    results = compare.read_all(paths, _cli.FLAGS["names"].value)
    rows = compare.compare(results, _cli.FLAGS["reference"].value)
    print(compare.text_table(rows))
    if _cli.FLAGS["out"].value:
        files.write_text(_cli.FLAGS["out"].value, compare.markdown_table(rows))
        print(f"Markdown: {_cli.FLAGS['out'].value}")


if __name__ == "__main__":
    _cli.start(main, arguments=True)
