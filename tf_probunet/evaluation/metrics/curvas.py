"""The three scores of the CURVAS challenge (Riera-Marin et al. 2025), for one image.

The challenge scores one map of probabilities per case. Here it is the mean of the
samples.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from tf_probunet.evaluation.metrics import calibration, checks
from tf_probunet.evaluation.metrics.mean_maps import dice, mean_maps

# The challenge's code integrates over the graders' mean volume +- 3 deviations.
CODE_DEVIATIONS = 3.0


def consensus_dice(samples: np.ndarray, graders: np.ndarray) -> float:
    """Dice of the predicted mask where the graders agree.

    The prediction marks the pixels of more than half of the samples. Pixels on which
    the graders disagree are left out.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.

    Returns:
        The score, in [0, 1]; NaN if there is no pixel that all graders mark.

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([2, 32, 32], int)
        >>> graders[:, 8:20, 8:20] = 1
        >>> graders[1, 20:24] = 1  # The graders disagree on these rows.
        >>> pu.consensus_dice(graders[1:], graders)
        1.0
    """
    predicted, observed = mean_maps(samples, graders)
    consensus = (observed == 0) | (observed == 1)
    if not (observed == 1).any():
        return float("nan")
    return dice(predicted[consensus] > 0.5, observed[consensus] == 1)


def multirater_ece(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    num_classes: int = 2,
    num_bins: int = 50,
) -> np.ndarray:
    """Expected calibration error of the most probable class, against each grader.

    A pixel's confidence is the largest share of the samples that agree on a class, and
    it is right if the grader chose that class. All pixels count, also those of the
    background. Among equal shares, the lower class is the prediction.

    Args:
        samples: [S, H, W] foreground probabilities, of which hard masks are a special
            case; with more than two classes, label maps.
        graders: [M, H, W] binary; with more than two classes, label maps.
        num_classes: labels are 0 to num_classes - 1.
        num_bins: bins of equal width; a bin holds its lower edge, the last one both.

    Returns:
        [M] float64, in [0, 1]; 0 is best. The challenge reports the mean.

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([4, 32, 32], int)
        >>> graders[:2, 8:24, 8:24] = 1  # A quarter of the pixels.
        >>> pu.multirater_ece(graders[:1], graders)
        array([0.  , 0.  , 0.25, 0.25])
    """
    if num_classes == 2:
        samples, graders = checks.one_image(samples, graders)
        foreground = samples.mean(axis=0)
        shares = np.stack([1 - foreground, foreground])  # [K, H, W]
    else:
        samples = checks.label_maps(samples, "samples", num_classes=num_classes)
        graders = checks.label_maps(graders, "graders", num_classes=num_classes)
        checks.same_pixels(samples, graders, ("samples", "graders"))
        checks.three_axes(samples)
        classes = range(num_classes)
        shares = np.stack([(samples == label).mean(axis=0) for label in classes])
    predicted, confidence = shares.argmax(axis=0), shares.max(axis=0).ravel()
    return np.array(
        [
            calibration.binned(
                confidence, (predicted == grader).ravel(), 1, num_bins
            ).expected_calibration_error()
            for grader in graders
        ]
    )


def curvas_crps(
    samples: np.ndarray,
    graders: np.ndarray,
    *,
    deviations: float = math.inf,
    pixel_size: float = 1.0,
) -> float:
    """Continuous ranked probability score of the volume.

    The predicted volume is the sum of the probabilities. It is compared with the normal
    distribution F whose mean and standard deviation (with 1/M) are those of the
    graders' volumes: the integral of (F(y) - [y >= predicted])^2 over y.

    Args:
        samples: [S, H, W] foreground probabilities; hard masks are a special case.
        graders: [M, H, W] binary.
        deviations: the integral goes this many standard deviations to both sides of the
            mean. The definition has no limit; the challenge's code has 3, so that no
            prediction costs more than 2.44 standard deviations.
        pixel_size: volume (or area) of a pixel.

    Returns:
        The score in units of `pixel_size`; 0 is best. If all graders have one volume,
        it is the absolute difference from it, or NaN with a limit.

    Raises:
        ValueError: on other values or on shapes that do not fit.

    Example:
        >>> graders = np.zeros([2, 8, 8], int)
        >>> graders[0, :2], graders[1, :4] = 1, 1  # 16 and 32 pixels: 24 +- 8.
        >>> round(pu.curvas_crps(graders, graders), 3)  # 8 (sqrt(2) - 1) / sqrt(pi)
        1.87
    """
    samples, graders = checks.one_image(samples, graders)
    if not (deviations > 0 and pixel_size > 0 and math.isfinite(pixel_size)):
        raise ValueError(
            f"deviations is {deviations} and pixel_size {pixel_size}; expected "
            "positive numbers"
        )
    predicted = samples.mean(axis=0).sum() * pixel_size
    volumes = graders.sum(axis=(1, 2)) * pixel_size
    mean, deviation = volumes.mean(), volumes.std()
    if deviation == 0:
        off = abs(predicted - mean)
        return float(off) if math.isinf(deviations) else float("nan")
    place = np.clip((predicted - mean) / deviation, -deviations, deviations)
    parts = _normal_square(place) + _normal_square(-place)
    return float(deviation * (parts - 2 * _normal_square(-deviations)))


def _normal_square(end: float) -> float:
    """The integral of Phi^2, the squared normal distribution function, up to `end`."""
    if math.isinf(end):
        return 0.0
    below = special.ndtr(end)
    density = math.exp(-(end**2) / 2) / math.sqrt(2 * math.pi)
    tail = special.ndtr(math.sqrt(2) * end) / math.sqrt(math.pi)
    return end * below**2 + 2 * density * below - tail
