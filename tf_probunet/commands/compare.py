"""Compares several results of run/evaluate.py in one table.

    python run/compare.py runs/prob_unet/results runs/unet/results --out=compare.md

Differences and p-values (Wilcoxon's signed-rank test, paired by image) are relative to
the first results, or to --reference. All results must be of the same data and protocol.
"""

from absl import flags

from tf_probunet.commands import cli

flags.DEFINE_list("results", [], "directories of results, in addition to the arguments")
flags.DEFINE_list("names", [], "names in the table; by default those of the models")
flags.DEFINE_string("reference", None, "name of the results to compare with")
flags.DEFINE_string("out", None, "also write the table to this Markdown file")
TAKES_ARGUMENTS = True


def main(arguments: list[str]) -> None:
    from tf_probunet import files
    from tf_probunet.evaluation import compare

    paths = [*arguments, *cli.FLAGS["results"].value]
    results = compare.read_all(paths, cli.FLAGS["names"].value)
    rows = compare.compare(results, cli.FLAGS["reference"].value)
    print(compare.text_table(rows))
    notes = compare.notes(results)
    for note in notes:
        print(f"note: {note}")
    if cli.FLAGS["out"].value:
        text = "".join(f"\nNote: {note}.\n" for note in notes)
        files.write_text(cli.FLAGS["out"].value, compare.markdown_table(rows) + text)
        print(f"Markdown: {cli.FLAGS['out'].value}")
