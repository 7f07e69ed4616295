import itertools

import numpy as np
import pytest
from helpers.masks import EMPTY, draw
from scipy import optimize

from tf_probunet.evaluation.metrics.staple import staple


def test_one_step_by_hand():
    # After the first guess p = q = 0.99999 two votes of three decide. So the estimated
    # mask is cells 0 and 1, which grader 0 marks both, grader 1 both and grader 2 one.
    graders = np.stack([draw(0, 1), draw(0, 1, 2), draw(0, 3)])
    found = staple(graders, prior=0.5, max_steps=1)
    np.testing.assert_allclose(found.sensitivity, [1, 1, 1 / 2], atol=1e-4)
    np.testing.assert_allclose(found.specificity, [1, 5 / 6, 5 / 6], atol=1e-4)
    expected = draw(0, 1).astype(float)
    np.testing.assert_allclose(found.probability, expected, atol=1e-4)


def test_a_closed_form():
    # Graders who agree on everything are always right, whatever the prior.
    graders = np.stack([draw(0, 1, 5)] * 3)
    found = staple(graders, prior=0.2)
    np.testing.assert_allclose(found.probability, draw(0, 1, 5), atol=1e-9)
    np.testing.assert_allclose([*found[1:]], np.ones((2, 3)), atol=1e-9)


def _log_likelihood(parameters, graders, prior):
    sensitivity, specificity = np.reshape(parameters, (2, -1, 1))
    votes = graders.reshape(len(graders), -1)
    foreground = np.where(votes, sensitivity, 1 - sensitivity).prod(0)
    background = np.where(votes, 1 - specificity, specificity).prod(0)
    return np.log(prior * foreground + (1 - prior) * background).sum()


def _simulated(seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.random((40, 50)) < 0.3
    sensitivity, specificity = [0.95, 0.8, 0.6, 0.9], [0.9, 0.97, 0.8, 0.95]
    draws = generator.random((4, 40, 50))
    marked = [
        np.where(truth, u < p, u > q)
        for u, p, q in zip(draws, sensitivity, specificity)
    ]
    return truth, np.stack(marked).astype(int), sensitivity, specificity


def test_maximises_the_likelihood():
    _, graders, *_ = _simulated()
    prior = graders.mean()
    found = staple(graders)
    best = optimize.minimize(
        lambda parameters: -_log_likelihood(parameters, graders, prior),
        np.full(8, 0.8),
        bounds=[(0.01, 0.99)] * 8,
    )
    np.testing.assert_allclose([*found[1:]], best.x.reshape(2, 4), atol=1e-3)


def test_finds_the_truth_and_the_graders():
    truth, graders, sensitivity, specificity = _simulated()
    found = staple(graders, prior=0.3)
    np.testing.assert_allclose(found.sensitivity, sensitivity, atol=0.04)
    np.testing.assert_allclose(found.specificity, specificity, atol=0.04)
    majority = graders.sum(axis=0) > 2
    errors = [(mask != truth).sum() for mask in (found.probability > 0.5, majority)]
    assert errors[0] < errors[1]


def test_the_probability_is_that_of_bayes():
    graders = np.stack([draw(0, 1), draw(0, 2), draw(0, 1, 3), draw(1, 0)])
    found = staple(graders, prior=0.25)
    for cell in range(8):
        votes = graders.reshape(4, -1)[:, cell]
        terms = [
            prior * np.prod(np.where(votes, marks, 1 - marks))
            for prior, marks in (
                (0.25, found.sensitivity),
                (0.75, 1 - found.specificity),
            )
        ]
        bayes = terms[0] / sum(terms)
        assert found.probability.flat[cell] == pytest.approx(bayes, abs=1e-6)


def test_empty_and_full_masks():
    empty = staple(np.stack([EMPTY] * 3))
    assert not empty.probability.any() and (empty.specificity == 1).all()
    assert np.isnan(empty.sensitivity).all()
    full = staple(np.stack([1 - EMPTY] * 3))
    assert full.probability.all() and np.isnan(full.specificity).all()


def test_many_graders_do_not_underflow():
    graders = np.stack([draw(0, 1), draw(0, 2)] * 16)
    assert np.isfinite(staple(graders).probability).all()


def test_the_order_of_graders_does_not_matter():
    graders = np.stack([draw(0, 1), draw(0, 2), draw(0, 1, 3)])
    expected = staple(graders).probability
    for order in itertools.permutations(range(3)):
        found = staple(graders[list(order)]).probability
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="prior is 1.5; expected a probability"):
        staple(np.stack([EMPTY]), prior=1.5)
    with pytest.raises(ValueError, match="graders have shape"):
        staple(EMPTY[None, None])
