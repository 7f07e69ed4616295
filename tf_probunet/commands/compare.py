"""Puts several results of run/evaluate.py into one table.

    python run/compare.py runs/prob_unet/results runs/unet/results --out=compare.md

Differences and p-values (Wilcoxon's signed-rank test, paired by image) are against the
first, or against --reference. Results of other data or protocol are refused.
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_list("results", [], "directories of results, besides the arguments")
flags.DEFINE_list("names", [], "names for them in the table; default: the models'")
flags.DEFINE_string("reference", None, "name of the one to compare with")
flags.DEFINE_string("out", None, "write the table as Markdown to this file too")
TAKES_ARGUMENTS = True


def main(arguments: list[str]) -> None:
    from tf_probunet import files
    from tf_probunet.evaluation import compare

    paths = [*arguments, *cli.FLAGS["results"].value]
    results = compare.read_all(paths, cli.FLAGS["names"].value)
    rows = compare.compare(results, cli.FLAGS["reference"].value)
    print(compare.text_table(rows))
    if cli.FLAGS["out"].value:
        files.write_text(cli.FLAGS["out"].value, compare.markdown_table(rows))
        print(f"Markdown: {cli.FLAGS['out'].value}")
