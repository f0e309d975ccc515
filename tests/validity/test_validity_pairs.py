"""Do the events that bounds rest on fail as seldom as they claim, at all weights at once?"""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from pacvote import count
from pacvote.bounds.base import Claim
from pacvote.bounds.evidence import Quantity
from pacvote.concentration import kl, ln_xi_paper, mixture_slopes, mixture_weights

LUCK = 1e-6  # probability with which a bound that holds may fail a test here


@dataclass(frozen=True)
class World:
    """Voters that err independently given the kind of row: all probabilities are known."""

    kinds: np.ndarray
    errs: np.ndarray

    @property
    def patterns(self):
        """Who errs, one row for each of the 2^n_voters patterns, and its probability."""
        m = self.errs.shape[1]
        patterns = np.array(list(itertools.product([0, 1], repeat=m)))
        given = np.where(patterns[:, None, :] == 1, self.errs, 1 - self.errs).prod(axis=2)
        return patterns, given @ self.kinds

    def draw(self, rng, n, share):
        kind = rng.choice(len(self.kinds), n, p=self.kinds)
        errors = rng.random((n, self.errs.shape[1])) < self.errs[kind]
        validated = rng.random(errors.shape) < share
        return count(errors.astype(int), np.zeros(n, int), validated)


def worlds():
    few = np.where(np.arange(8) < 2, 0.03, 0.45)
    return {
        "independent": World(np.ones(1), np.full((1, 8), 0.25)),
        "correlated": World(np.array([0.8, 0.2]), np.array([[0.02] * 8, [0.9] * 8])),
        "few good": World(np.ones(1), few[None]),
        "all alike": World(np.array([0.7, 0.3]), np.array([[0.0] * 8, [1.0] * 8])),
        "weak": World(np.ones(1), np.full((1, 8), 0.5)),
    }


def exact_risk(patterns, probability, weights):
    """P(Z >= 1/2), where a sum of floats a hair below 1/2 counts as 1/2."""
    return float(probability @ (patterns @ weights >= 0.5 - 1e-12))


def allowed(delta, repetitions):
    """Failures that a bound at delta exceeds with probability LUCK at most."""
    return int(binom.isf(LUCK, repetitions, delta))


def test_the_check_would_find_a_bound_that_fails():
    """The plug-in value at the minimised weights has no guarantee, and is caught."""
    world, rng, failed = worlds()["weak"], np.random.default_rng(0), 0
    patterns, probability = world.patterns
    for _ in range(100):
        counts = world.draw(rng, 60, 1.0)
        best = np.eye(8)[int(np.argmin(counts.errors / counts.rows))]
        plug_in = float(np.min(counts.errors / counts.rows))
        failed += plug_in < exact_risk(patterns, probability, best)
    assert failed > allowed(0.2, 100)


# ---------------------------------------------------------------- all weights at once


def kl_price(n, delta):
    """What KL has to pay beyond itself in PAC-Bayes-kl."""
    claim = Claim(Quantity.GIBBS, "upper", "kl_paper", n, delta)
    return claim.complexity(0.0)


def event_failures(kind, world, delta, n, repetitions, seed):
    """How often a claim fails at *some* weights: sup_rho (n E kl - KL) = ln E_pi e^(n kl).

    The claims of pairs range over products of weights; at the supremum over all laws on pairs
    they must hold too, as the proof gives that much.
    """
    rng = np.random.default_rng(seed)
    risks = world.kinds @ world.errs
    slopes = mixture_slopes(n, delta)
    tilts = -np.log1p(np.expm1(-slopes)[:, None] * risks)
    budget = float(-np.log(float(delta)))
    failed = 0
    for _ in range(repetitions):
        counts = world.draw(rng, n, 1.0)
        hats = counts.errors / counts.rows
        if kind == "kl":
            exponents = np.array([n * kl(q, p) for q, p in zip(hats, risks, strict=True)])
            sup = np.logaddexp.reduce(exponents) - np.log(len(risks))
            failed += sup > kl_price(n, delta)
        else:
            exponents = n * (tilts - slopes[:, None] * hats)
            logs = exponents + np.log(mixture_weights(slopes))[:, None]
            failed += np.logaddexp.reduce(logs, axis=None) - np.log(len(risks)) > budget
    return failed


@pytest.mark.parametrize("kind", ["kl", "mixture"])
@pytest.mark.parametrize("name", worlds())
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 5)])
@pytest.mark.parametrize("n", [10, 300])
def test_the_event_holds_for_all_weights_at_once(kind, name, delta, n):
    failed = event_failures(kind, worlds()[name], delta, n, 100, seed=n)
    assert failed <= allowed(float(delta), 100)


def test_the_price_of_kl_is_the_papers():
    assert kl_price(100, Fraction(1, 20)) == pytest.approx(ln_xi_paper(100) + np.log(20), rel=1e-12)
