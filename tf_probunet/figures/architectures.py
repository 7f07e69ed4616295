"""Draws the models for the documentation, with fewer scales than they really have.

Blue: feature maps; red: feature maps with dropout; green: latents; orange: the prior
net; purple: the posterior net, which only training needs.
"""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tf_probunet import files
from tf_probunet.figures import style

Point = tuple[float, float]

_UNIT = 0.62  # inches
_SCALES = ((1.5, 0.16), (0.9, 0.24), (0.5, 0.36))  # height and width of the blocks
_UNET_WIDTH = 3.3
_NET_WIDTH = 1.6
_DROPPED = style.VERMILION
_PAPER = "#F4F4F4"


class Canvas:
    """An empty drawing; y points upwards from the middle."""

    def __init__(self, width: float, height: float) -> None:
        size = (width * _UNIT, height * _UNIT)
        self.figure = style.new_figure(*size, facecolor="white")
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(-height / 2, height / 2)
        self.axes.set_axis_off()

    def text(self, x: float, y: float, text: str, **settings) -> None:
        """Writes text centred at a point."""
        self.axes.text(x, y, text, ha="center", va="center", **settings)

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Draws a box whose left side is at `x` and whose middle is at height `y`."""
        corner = (x, y - height / 2)
        self.axes.add_patch(
            Rectangle(
                corner, width, height, facecolor=colour, edgecolor="black", lw=0.6
            )
        )

    def labelled(self, x: float, y: float, text: str, width: float = 0.9) -> Point:
        """Draws a light box with text, and returns the middle of its right side."""
        self.box(x, y, width, 0.62, _PAPER)
        self.text(x + width / 2, y, text, fontsize=7)
        return x + width, y

    def arrow(self, start: Point, end: Point, dashed: bool = False) -> None:
        """Draws an arrow, dashed for what only training needs."""
        properties = {
            "arrowstyle": "-|>",
            "lw": 0.8,
            "shrinkA": 1,
            "shrinkB": 1,
            "linestyle": "--" if dashed else "-",
            "color": "black",
        }
        self.axes.annotate("", end, start, arrowprops=properties)

    def latents(self, x: float, y: float, text: str = "z") -> Point:
        """Draws a latent vector, and returns the middle of its right side."""
        for i in range(3):
            self.box(x, y + 0.24 * (i - 1), 0.24, 0.24, style.GREEN)
        self.text(x + 0.12, y - 0.56, text, style="italic")
        return x + 0.24, y

    def encoder(self, x: float, y: float, colour: str, title: str) -> Point:
        """Draws an encoder that ends with a Gaussian."""
        for i, (height, width) in enumerate(_SCALES):
            self.box(x + 0.42 * i, y, width, 0.8 * height, colour)
        self.text(x + 0.6, y + 0.85, title, fontsize=7)
        self.text(x + _NET_WIDTH - 0.05, y, "$\\mu$, $\\sigma$")
        return x + _NET_WIDTH + 0.2, y

    def unet(self, x: float, y: float, dropped: int = 0, latent: bool = False) -> Point:
        """Draws the U-Net core.

        Args:
            x: its left side.
            y: its middle.
            dropped: the number of innermost blocks of the encoder that have dropout; in
                the decoder it is one fewer.
            latent: whether a latent is drawn next to the input and the first block.

        Returns:
            The middle of its right side.
        """
        levels = [y + 0.25, y - 0.2, y - 0.55]
        innermost = len(_SCALES) - 1
        lefts, rights = [], []
        for scale, (height, width) in enumerate(_SCALES):
            level, left = levels[scale], x + 0.55 * scale
            colour = _DROPPED if scale > innermost - dropped else style.BLUE
            self.box(left, level, width, height, colour)
            lefts.append((left + width, level - 0.25 * height))
            if scale == innermost:
                rights.append(lefts[-1])
                continue
            right = x + _UNET_WIDTH - 0.55 * scale - width
            self.box(right, level, width, height, colour)
            rights.append((right, level - 0.25 * height))
            above = level + 0.3 * height
            self.arrow((left + width, above), (right, above))
        for scale in range(innermost):
            (from_x, from_y), (_, to_y) = lefts[scale], lefts[scale + 1]
            self.arrow((from_x, from_y), (x + 0.55 * (scale + 1), to_y))
            (to_x, to_y), (from_x, from_y) = rights[scale], rights[scale + 1]
            wide = _SCALES[scale + 1][1] if scale + 1 < innermost else 0
            self.arrow((from_x + wide, from_y), (to_x, to_y))
        if latent:
            self.box(x - 0.16, levels[0], 0.16, _SCALES[0][0], style.GREEN)
        return x + _UNET_WIDTH, y + 0.25

    def f_comb(self, x: float, y: float, latent: bool, colour: str = "") -> Point:
        """Draws three 1x1 convolutions, with a latent before them if there is one."""
        height = _SCALES[0][0]
        if latent:
            self.box(x, y, 0.12, height, style.GREEN)
        for i in range(3):
            left = x + 0.14 + 0.18 * i
            self.box(left, y, 0.12, height, colour or style.SKY_BLUE)
        self.text(x + 0.34, y - 0.95, "1x1", fontsize=7)
        return x + 0.66, y


def _unet(canvas: Canvas, y: float = 0.0, dropped: int = 0, output: str = "S") -> None:
    image = canvas.labelled(0.2, y + 0.25, "image X")
    canvas.arrow(image, (1.5, y + 0.25))
    end = canvas.unet(1.5, y, dropped)
    canvas.arrow(end, (5.3, end[1]))
    end = canvas.f_comb(5.2, end[1], latent=False)
    canvas.arrow(end, (6.4, end[1]))
    canvas.labelled(6.4, end[1], output)


def draw_unet() -> Figure:
    """Draws the deterministic U-Net."""
    canvas = Canvas(7.6, 2.6)
    _unet(canvas)
    return canvas.figure


def draw_dropout_unet() -> Figure:
    """Draws the Dropout U-Net: another mask, another sample."""
    canvas = Canvas(7.6, 2.9)
    _unet(canvas, dropped=2, output="$S_i$")
    canvas.text(3.1, -1.2, "dropout p = 0.5, redrawn for each sample", fontsize=7)
    return canvas.figure


def draw_unet_ensemble() -> Figure:
    """Draws the U-Net Ensemble: each member is a sample."""
    canvas = Canvas(7.6, 6.6)
    for y, output in ((2.1, "$S_1$"), (0.1, "$S_2$"), (-2.3, "$S_n$")):
        _unet(canvas, y, output=output)
    canvas.text(3.1, -1.15, "$\\vdots$")
    return canvas.figure


def draw_m_heads() -> Figure:
    """Draws M-Heads: the heads share all but the last layer."""
    canvas = Canvas(8.4, 3.4)
    image = canvas.labelled(0.2, 0.25, "image X")
    canvas.arrow(image, (1.5, 0.25))
    end = canvas.unet(1.5, 0.0)
    canvas.arrow(end, (5.2, end[1]))
    for i in range(2):
        canvas.box(5.2 + 0.18 * i, end[1], 0.12, _SCALES[0][0], style.SKY_BLUE)
    start = (5.5, end[1])
    for y, output in ((1.3, "$S_1$"), (0.45, "$S_2$"), (-0.95, "$S_M$")):
        canvas.arrow(start, (6.4, y))
        canvas.box(6.4, y, 0.12, 0.6, style.SKY_BLUE)
        canvas.arrow((6.52, y), (7.2, y))
        canvas.labelled(7.2, y, output)
    canvas.text(6.46, -0.25, "$\\vdots$")
    canvas.text(6.46, -1.45, "M heads", fontsize=7)
    return canvas.figure


def _late(
    canvas: Canvas,
    y: float,
    *,
    fixed_prior: bool = False,
    blind: bool = False,
    training: bool = False,
) -> None:
    """Draws the Probabilistic U-Net, latents at the end, in sampling or training."""
    image = canvas.labelled(0.2, y, "image X")
    canvas.arrow(image, (1.9, y))
    end = canvas.unet(1.9, y - 0.25)
    canvas.arrow(end, (5.9, y))
    done = canvas.f_comb(5.9, y, latent=True)
    canvas.arrow(done, (7.2, y))
    canvas.labelled(7.2, y, "S" if training else "$S_i$")
    level = y - 2.3
    if fixed_prior:
        source = canvas.labelled(3.0, level, "N(0, I)")
    else:
        canvas.arrow((0.65, y - 0.31), (1.9, level))
        source = canvas.encoder(1.9, level, style.ORANGE, "prior net")
    if training:
        prior_level, level = level, level - 2.0
        labels = canvas.labelled(0.2, level, "labels Y")
        canvas.arrow(labels, (1.9, level), dashed=True)
        if not blind:
            canvas.arrow((0.45, y - 0.31), (1.9, level + 0.3), dashed=True)
        source = canvas.encoder(1.9, level, style.PURPLE, "posterior net")
        canvas.arrow((3.45, level + 0.25), (3.45, prior_level - 0.32), dashed=True)
        canvas.text(3.75, (level + prior_level) / 2, "KL", fontsize=7)
    z = canvas.latents(4.9, level)
    canvas.arrow(source, (4.9, level), dashed=training)
    canvas.arrow(z, (5.96, y - 0.75))


def draw_prob_unet() -> Figure:
    """Draws the Probabilistic U-Net, sampling above and training below."""
    canvas = Canvas(8.6, 11.6)
    canvas.text(4.3, 5.5, "sampling")
    _late(canvas, 4.2)
    canvas.text(4.3, 0.8, "training")
    _late(canvas, -0.5, training=True)
    return canvas.figure


def draw_mixture_prior() -> Figure:
    """Draws the Probabilistic U-Net with a mixture prior, as it samples."""
    canvas = Canvas(9.4, 5.4)
    y, level = 1.3, -1.0
    image = canvas.labelled(0.2, y, "image X")
    canvas.arrow(image, (2.7, y))
    end = canvas.unet(2.7, y - 0.25)
    canvas.arrow(end, (6.7, y))
    done = canvas.f_comb(6.7, y, latent=True)
    canvas.arrow(done, (8.0, y))
    canvas.labelled(8.0, y, "$S_i$")
    canvas.arrow((0.65, y - 0.31), (1.2, level))
    for i, (height, width) in enumerate(_SCALES):
        canvas.box(1.2 + 0.42 * i, level, width, 0.8 * height, style.ORANGE)
    canvas.text(1.8, level + 0.85, "prior net", fontsize=7)
    for k, name in enumerate(("1", "2", "K")):
        row = level + (0.75, 0.0, -1.1)[k]
        canvas.arrow((2.5, level), (3.0, row))
        text = f"$\\pi_{name}$, $\\mu_{name}$, $\\sigma_{name}$"
        source = canvas.labelled(3.0, row, text, width=1.6)
        canvas.arrow(source, (5.7, level))
    canvas.text(3.8, level - 0.52, "$\\vdots$")
    z = canvas.latents(5.7, level)
    canvas.arrow(z, (6.76, y - 0.75))
    return canvas.figure


def draw_ablations() -> Figure:
    """Draws the three ablations, as they are trained."""
    canvas = Canvas(8.9, 18.6)
    canvas.text(4.3, 9.0, "fixed prior")
    _late(canvas, 7.7, fixed_prior=True, training=True)
    canvas.text(4.3, 2.1, "fixed prior, posterior without the image")
    _late(canvas, 0.8, fixed_prior=True, blind=True, training=True)
    canvas.text(4.3, -4.8, "latents at the start")
    _early(canvas, -6.1, "prior net (X)", blind=False)
    return canvas.figure


def _early(canvas: Canvas, y: float, prior: str, *, blind: bool) -> None:
    """Draws a model whose latents enter at the U-Net's input."""
    image = canvas.labelled(0.2, y, "image X")
    canvas.arrow(image, (2.84, y))
    end = canvas.unet(3.0, y - 0.25, latent=True)
    canvas.arrow(end, (6.9, y))
    done = canvas.f_comb(6.78, y, latent=False)
    canvas.arrow(done, (7.9, y))
    canvas.labelled(7.9, y, "S")
    level = y - 2.5
    labels = canvas.labelled(0.2, level, "labels Y")
    canvas.arrow(labels, (1.9, level), dashed=True)
    if not blind:
        canvas.arrow((0.65, y - 0.31), (1.9, level + 0.2), dashed=True)
    source = canvas.encoder(1.9, level, style.PURPLE, "posterior net")
    z = canvas.latents(4.4, level)
    canvas.arrow(source, (4.4, level), dashed=True)
    canvas.arrow((z[0] - 0.12, level + 0.36), (2.92, y - 0.75))
    canvas.labelled(6.2, level, prior, width=1.6)
    canvas.arrow((6.2, level), z)
    canvas.text(5.45, level + 0.25, "KL; sampling", fontsize=6.5)


def draw_image2image_vae() -> Figure:
    """Draws the Image2Image VAE, as it is trained."""
    canvas = Canvas(8.9, 4.8)
    _early(canvas, 1.3, "N(0, I)", blind=True)
    return canvas.figure


def draw_ssn() -> Figure:
    """Draws the Stochastic Segmentation Network: samples are drawn of the logits."""
    canvas = Canvas(10.2, 4.4)
    y = 0.6
    image = canvas.labelled(0.2, y, "image X")
    canvas.arrow(image, (1.5, y))
    end = canvas.unet(1.5, y - 0.25)
    for level, text in ((y + 0.5, "mean $\\mu$"), (y - 0.85, "$D$, $P$")):
        for i in range(3):
            canvas.box(5.4 + 0.18 * i, level, 0.12, 0.9, style.SKY_BLUE)
        canvas.arrow(end, (5.4, level))
        source = canvas.labelled(6.3, level, text)
        canvas.arrow((5.9, level), (6.3, level))
        canvas.arrow(source, (8.0, y - 0.1))
    canvas.text(5.6, y - 1.6, "1x1", fontsize=7)
    noise = canvas.latents(7.2, y - 2.0, "$\\epsilon$")
    canvas.arrow(noise, (8.1, y - 0.4))
    drawn = canvas.labelled(8.0, y - 0.1, "$S_i$")
    canvas.text(drawn[0] - 0.4, y + 0.75, "$N(\\mu, D + P P^T)$", fontsize=7)
    return canvas.figure


def draw_mixture() -> Figure:
    """Draws the mixture of stochastic experts: a gate, and latents of each expert."""
    canvas = Canvas(10.0, 6.2)
    y, level = 1.9, -0.8
    image = canvas.labelled(0.2, y, "image X")
    canvas.arrow(image, (1.5, y))
    end = canvas.unet(1.5, y - 0.25)
    canvas.arrow(end, (6.0, y))
    join = canvas.labelled(6.0, y, "$(f + r(z))\\,s(z)$", width=1.5)
    canvas.arrow(join, (7.9, y))
    done = canvas.f_comb(7.8, y, latent=False)
    canvas.arrow(done, (8.9, y))
    canvas.labelled(8.9, y, "$S_i$", width=0.8)
    gate = canvas.labelled(2.2, level, "gate", width=1.1)
    canvas.arrow((2.8, y - 1.05), (2.75, level + 0.31))
    for k, name in enumerate(("1", "2", "E")):
        row = level + (0.4, -0.6, -1.9)[k]
        canvas.arrow(gate, (4.2, row), dashed=False)
        text = f"$\\pi_{name}$: $N(m_{name}, s_{name}^2)$"
        source = canvas.labelled(4.2, row, text, width=1.7)
        canvas.arrow(source, (6.6, level - 0.7))
    canvas.text(5.05, level - 1.25, "$\\vdots$")
    z = canvas.latents(6.6, level - 0.7)
    canvas.arrow((z[0] - 0.12, level - 0.34), (6.75, y - 0.31))
    return canvas.figure


def draw_hpu_net() -> Figure:
    """Draws the Hierarchical Probabilistic U-Net: latent maps between the scales."""
    canvas = Canvas(10.0, 6.4)
    y = 1.6
    image = canvas.labelled(0.2, y, "image X")
    canvas.arrow(image, (1.5, y))
    end = canvas.unet(1.5, y - 0.25)
    canvas.arrow(end, (5.3, y))
    done = canvas.f_comb(5.2, y, latent=False)
    canvas.arrow(done, (6.4, y))
    canvas.labelled(6.4, y, "$S_i$")
    level = y - 2.2
    for i, (x, name) in enumerate(((3.0, "z_1"), (3.9, "z_2"))):
        canvas.box(x, level + 0.2 * i, 0.42, 0.42, style.GREEN)
        canvas.text(x + 0.21, level + 0.2 * i - 0.42, f"${name}$")
    canvas.arrow((3.05, y - 1.05), (3.15, level + 0.21))
    canvas.arrow((3.42, level), (3.9, level + 0.2))
    canvas.arrow((4.2, y - 0.75), (4.15, level + 0.41))
    canvas.text(
        7.4,
        level + 0.1,
        "prior: latents of a scale,\ngiven the coarser ones",
        fontsize=7,
    )
    low = level - 1.9
    labels = canvas.labelled(0.2, low, "X, labels Y", width=1.2)
    canvas.arrow(labels, (1.9, low), dashed=True)
    for i, (height, width) in enumerate(_SCALES):
        canvas.box(1.9 + 0.42 * i, low, width, 0.8 * height, style.PURPLE)
    canvas.text(2.3, low - 0.85, "posterior net", fontsize=7)
    canvas.arrow((3.2, low + 0.2), (3.2, level - 0.62), dashed=True)
    canvas.arrow((3.2, low + 0.2), (4.1, level - 0.42), dashed=True)
    canvas.text(4.4, low + 0.35, "KL at each scale", fontsize=7)
    return canvas.figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "prob_unet": draw_prob_unet,
    "mixture_prior": draw_mixture_prior,
    "ablations": draw_ablations,
    "unet": draw_unet,
    "unet_ensemble": draw_unet_ensemble,
    "dropout_unet": draw_dropout_unet,
    "m_heads": draw_m_heads,
    "image2image_vae": draw_image2image_vae,
    "ssn": draw_ssn,
    "mixture": draw_mixture,
    "hpu_net": draw_hpu_net,
}


@style.styled()
def render(name: str) -> bytes:
    """Returns a picture as SVG; the same bytes every time."""
    buffer = io.BytesIO()
    PICTURES[name]().savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save_all(out_dir: files.Path) -> list[pathlib.Path]:
    """Writes all pictures as SVG and returns their paths."""
    paths = [pathlib.Path(out_dir, f"{name}.svg") for name in PICTURES]
    for path in paths:
        files.write_bytes(path, render(path.stem))
    return paths
