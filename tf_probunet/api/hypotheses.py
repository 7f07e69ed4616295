"""A few weighted segmentations that stand for all that a model draws."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, repr=False)
class Hypotheses:
    """The most representative segmentations of one image, the most probable first.

    Attributes:
        image: [H, W, C] float32 in 0..1, with the model's values.
        labels: [K, H, W] uint8, a label map for each hypothesis.
        weights: [K] their probabilities, which sum to 1.
        explained: the share of the samples' diversity that the hypotheses stand for,
            from 0 to 1.
        num_samples: how many samples they were chosen from.
    """

    image: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    explained: float
    num_samples: int

    def __len__(self) -> int:
        return len(self.labels)

    def plot(self) -> Figure:
        """Draws the image and the hypotheses with their probabilities.

        Returns:
            A matplotlib figure. `figure.savefig("hypotheses.png")` writes it.
        """
        from tf_probunet.api.drawing import plot_samples

        figure = plot_samples(self.image, self.labels)
        for axis, weight in zip(figure.axes[1:], self.weights):
            axis.text(
                0.04, 0.96, f"{weight:.0%}", color="white", fontsize=7, weight="bold",
                va="top", transform=axis.transAxes,
            )  # fmt: skip
        return figure

    def _repr_png_(self) -> bytes:
        """Draws the hypotheses where a notebook shows them."""
        from tf_probunet.figures import style

        return style.to_png(self.plot())

    def __repr__(self) -> str:
        marked = np.count_nonzero(self.labels.reshape(len(self), -1), axis=1)
        parts = [
            f"{weight:.0%} ({pixels} pixels)"
            for weight, pixels in zip(self.weights, marked)
        ]
        return (
            f"Hypotheses({', '.join(parts)}; {self.explained:.0%} of the diversity of "
            f"{self.num_samples} samples)"
        )
