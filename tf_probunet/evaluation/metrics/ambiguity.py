"""Detects ambiguous images by the number of samples that mark a lesion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from tf_probunet.evaluation.metrics import checks
from tf_probunet.evaluation.metrics.calibration import empty_share
from tf_probunet.hashing import salted_hash

DIRECTIONS = ("below", "from")


class Rule(NamedTuple):
    """Calls an image ambiguous if its count is below a threshold, or at least that.

    Attributes:
        threshold: 0 to S + 1, so that "always" and "never" are rules too.
        direction: "below" or "from".
    """

    threshold: int
    direction: str = "below"

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Whether each image is called ambiguous, [N] bool."""
        below = np.asarray(counts) < self.threshold
        return below if self.direction == "below" else ~below


class Detection(NamedTuple):
    """How well the counts detect ambiguous images.

    Attributes:
        rule: the best on validation.
        validation_accuracy: of that rule, on validation.
        accuracy: of that rule, on test.
        always_ambiguous: accuracy on test of calling every image ambiguous.
        auroc: on test, of few presences (many, for direction "from") as a score; NaN if
            all images are ambiguous or none is.
    """

    rule: Rule
    validation_accuracy: float
    accuracy: float
    always_ambiguous: float
    auroc: float


def presence_of_several(
    sample_presence: np.ndarray,
    grader_presence: np.ndarray,
    num_graders: int | np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts of samples, and whether graders disagree, of images with several graders.

    Args:
        sample_presence: [N], samples that mark a lesion.
        grader_presence: [N], graders who do.
        num_graders: M of all images, or [N] of each.

    Returns:
        The counts of samples and whether each image is ambiguous, without the images of
        a single grader, who can't disagree.
    """
    number = np.broadcast_to(num_graders, np.shape(grader_presence))
    several = number > 1
    ambiguous = (grader_presence > 0) & (grader_presence < number)
    return sample_presence[several], ambiguous[several]


def presence_counts(masks: np.ndarray) -> np.ndarray:
    """Number of masks with foreground.

    Args:
        masks: [S, H, W] or [N, S, H, W] binary.

    Returns:
        A scalar or [N], 0 to S.

    Raises:
        ValueError: on other values or shapes.
    """
    return checks.binary_masks(masks, "masks").any(axis=(-2, -1)).sum(axis=-1)


def presence_percent(masks: np.ndarray, sample_weights: np.ndarray) -> np.ndarray:
    """Weight of the masks with foreground, as a whole number of percent.

    The functions below take it as the count of 100 samples.

    Args:
        masks: [S, H, W] or [N, S, H, W] binary.
        sample_weights: [S] or [N, S] probabilities of the masks.

    Returns:
        A scalar or [N], 0 to 100.

    Raises:
        ValueError: on other values, shapes or weights.
    """
    present = 1.0 - empty_share(masks, sample_weights)
    return np.rint(100 * present).astype(np.int64)


def is_ambiguous(graders: np.ndarray) -> np.ndarray:
    """Whether graders disagree on the presence of a lesion; never with one grader.

    Args:
        graders: [M, H, W] or [N, M, H, W] binary.

    Returns:
        A scalar or [N] bool.

    Raises:
        ValueError: on other values or shapes.
    """
    present = presence_counts(graders)
    return (present > 0) & (present < np.shape(graders)[-3])


def histograms(
    counts: np.ndarray, ambiguous: np.ndarray, num_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Images per number of presences, ambiguous and unambiguous.

    Args:
        counts: [N] lesion presences among the samples.
        ambiguous: [N] bool.
        num_samples: S.

    Returns:
        Two [S + 1] arrays, for 0 to S presences.

    Raises:
        ValueError: if a count is not in 0 to S or the lengths differ.
    """
    counts, ambiguous = _checked(counts, ambiguous, num_samples)
    size = num_samples + 1
    return (
        np.bincount(counts[ambiguous], minlength=size),
        np.bincount(counts[~ambiguous], minlength=size),
    )


def best_rule(
    counts: np.ndarray,
    ambiguous: np.ndarray,
    num_samples: int,
    *,
    directions: tuple[str, ...] = DIRECTIONS,
) -> Rule:
    """The rule that is right most often.

    Among equally good rules, the first direction and then the lowest threshold win.

    Args:
        counts: [N] lesion presences among the samples.
        ambiguous: [N] bool.
        num_samples: S.
        directions: the allowed ones of "below" and "from".

    Returns:
        The rule.

    Raises:
        ValueError: on counts not in 0 to S, unequal lengths or an unknown direction.
    """
    for direction in directions:
        checks.option(direction, "direction", DIRECTIONS)
    hit, miss = histograms(counts, ambiguous, num_samples)
    # right[t]: images right with "below t", the ambiguous below and the others above.
    right = np.append(0, hit.cumsum()) + miss.sum() - np.append(0, miss.cumsum())
    scores = {"below": right, "from": hit.sum() + miss.sum() - right}
    best = max(directions, key=lambda direction: scores[direction].max())
    return Rule(int(scores[best].argmax()), best)


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Probability that a positive scores higher than a negative, ties counting half.

    Args:
        scores: [N].
        positive: [N] bool.

    Returns:
        The area; NaN if there are no positives or no negatives.

    Raises:
        ValueError: if a score is NaN or the lengths differ.
    """
    scores, positive = np.asarray(scores, np.float64), np.asarray(positive, bool)
    if scores.shape != positive.shape or np.isnan(scores).any():
        raise ValueError(
            f"scores {scores.shape} and positive {positive.shape}: expected the same "
            "shape and no NaN"
        )
    num_positive = int(positive.sum())
    num_negative = positive.size - num_positive
    if not num_positive or not num_negative:
        return float("nan")
    ranks = stats.rankdata(scores)[positive].sum()
    wins = ranks - num_positive * (num_positive + 1) / 2
    return float(wins / (num_positive * num_negative))


def detect(
    *,
    validation_counts: np.ndarray,
    validation_ambiguous: np.ndarray,
    test_counts: np.ndarray,
    test_ambiguous: np.ndarray,
    num_samples: int,
    directions: tuple[str, ...] = DIRECTIONS,
) -> Detection:
    """Chooses the rule on validation and scores it on test.

    Args:
        validation_counts: [V] lesion presences among the samples.
        validation_ambiguous: [V] bool.
        test_counts: [T].
        test_ambiguous: [T] bool.
        num_samples: S.
        directions: see `best_rule`.

    Returns:
        Threshold, accuracies and AUROC.

    Raises:
        ValueError: on counts not in 0 to S, unequal lengths or a split without image.
    """
    validation = _checked(validation_counts, validation_ambiguous, num_samples)
    test = _checked(test_counts, test_ambiguous, num_samples)
    rule = best_rule(*validation, num_samples, directions=directions)
    sign = -1 if rule.direction == "below" else 1
    return Detection(
        rule=rule,
        validation_accuracy=_accuracy(rule, *validation),
        accuracy=_accuracy(rule, *test),
        always_ambiguous=float(test[1].mean()),
        auroc=auroc(sign * test[0], test[1]),
    )


def cross_fitted_accuracy(
    counts: np.ndarray, ambiguous: np.ndarray, groups: np.ndarray, num_samples: int
) -> float:
    """Accuracy if there is no other split to choose the rule on.

    The groups (patients) are divided into two halves, which depend only on their names.
    The images of each half are classified by the rule that is best on the other half.

    Args:
        counts: [N] lesion presences among the samples.
        ambiguous: [N] bool.
        groups: [N] names.
        num_samples: S.

    Returns:
        The share of images that are classified correctly.

    Raises:
        ValueError: on counts not in 0 to S, unequal lengths or fewer than two groups.
    """
    counts, ambiguous = _checked(counts, ambiguous, num_samples)
    groups = np.asarray(groups)
    names = sorted({*groups.tolist()}, key=lambda name: salted_hash(name, "halves"))
    if groups.shape != counts.shape or len(names) < 2:
        raise ValueError(
            f"groups {groups.shape} with {len(names)} names: expected one for each of "
            f"{len(counts)} images, and at least two"
        )
    first = np.isin(groups, names[::2])
    right = np.empty(len(counts), bool)
    for half in (first, ~first):
        rule = best_rule(counts[~half], ambiguous[~half], num_samples)
        right[half] = rule(counts[half]) == ambiguous[half]
    return float(right.mean())


def _accuracy(rule: Rule, counts: np.ndarray, ambiguous: np.ndarray) -> float:
    return float((rule(counts) == ambiguous).mean())


def _checked(
    counts: np.ndarray, ambiguous: np.ndarray, num_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    counts, ambiguous = np.asarray(counts), np.asarray(ambiguous, bool)
    if counts.ndim != 1 or counts.shape != ambiguous.shape or not counts.size:
        raise ValueError(
            f"counts {counts.shape} and ambiguous {ambiguous.shape}: expected two "
            "lists of the same length, at least 1"
        )
    if counts.dtype.kind not in "iu" or counts.min() < 0 or counts.max() > num_samples:
        raise ValueError(
            f"counts are {counts.dtype} from {counts.min()} to {counts.max()}; "
            f"expected integers from 0 to {num_samples}"
        )
    return counts, ambiguous
