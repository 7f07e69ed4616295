r"""Draws the figures of the paper, and more, from results, as PNG and SVG.

python run/figures.py --results=runs/a/results,runs/b/results --names="U-Net,ours" \
    --out_dir=runs/figures
python run/figures.py --figure=latent_plane --saved_model=runs/saved_model \
    --data_dir=runs/records --out_dir=runs/figures
"""

from absl import flags

from tf_probunet.commands import cli

FIGURES = [
    "all",
    "energy_distance",
    "sample_grid",
    "sample_comparison",
    "mode_calibration",
    "mode_histograms",
    "latent_plane",
    "ambiguity",
    "uncertainty",
    "reliability",
]

flags.DEFINE_list("results", [], "result directories of run/evaluate.py, one per model")
flags.DEFINE_list(
    "names", [], "names of the models; by default those of the directories"
)
flags.DEFINE_enum(
    "figure", "all", FIGURES, "figure to draw; by default all that the input allows"
)
flags.DEFINE_string("out_dir", None, "directory to write to")
flags.DEFINE_list("keys", [], "keys of the images to show; by default the first ones")
flags.DEFINE_integer(
    "num_images", 0, "number of images to show; 0 for as many as fit", lower_bound=0
)
flags.DEFINE_integer(
    "num_samples", 8, "number of samples in the comparison", lower_bound=1
)
flags.DEFINE_enum(
    "layout",
    "columns",
    ["columns", "rows"],
    "direction of an image's samples in the grid",
)
flags.DEFINE_string("saved_model", None, "for the latent plane")
flags.DEFINE_string("data_dir", None, "for the latent plane: a prepared data set")
flags.DEFINE_string("split", "test", "for the latent plane: the split of its images")
flags.DEFINE_list("dims", ["0", "1"], "for the latent plane: its two dimensions")
REQUIRED = ["out_dir"]


def main() -> None:
    """Writes the figures and lists the files."""
    from tf_probunet.figures import make

    request = make.Request(
        results=make.read_results(cli.FLAGS.results, cli.FLAGS.names),
        saved_model=cli.FLAGS.saved_model,
        data_dir=cli.FLAGS.data_dir,
        split=cli.FLAGS.split,
        keys=cli.FLAGS.keys,
        num_images=cli.FLAGS.num_images,
        num_samples=cli.FLAGS.num_samples,
        layout=cli.FLAGS.layout,
        dims=make.two_numbers(cli.FLAGS.dims),
    )
    make.make(cli.FLAGS.figure, request, cli.FLAGS.out_dir)
