"""Bad input is refused in one line that names the argument."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pacvote import concentration as c

NAN, SLOPES = math.nan, np.array([0.5, 2.0])
claims = {
    "pac_bayes_kl_upper": (c.pac_bayes_kl_upper, {"p_hat": 0.1, "complexity": 3.0, "n": 10}),
    "pac_bayes_kl_lower": (c.pac_bayes_kl_lower, {"p_hat": 0.1, "complexity": 3.0, "n": 10}),
    "mixture_upper": (
        c.mixture_upper,
        {"p_hat": 0.1, "complexity": 3.0, "n": 10, "slopes": SLOPES},
    ),
    "mixture_lower": (
        c.mixture_lower,
        {"p_hat": 0.1, "complexity": 3.0, "n": 10, "slopes": SLOPES},
    ),
    "lambda_upper": (c.lambda_upper, {"p_hat": 0.1, "complexity": 3.0, "n": 10, "lam": 1.0}),
    "lambda_lower": (c.lambda_lower, {"p_hat": 0.1, "complexity": 3.0, "n": 10, "gamma": 1.0}),
    "split_kl_upper": (
        c.split_kl_upper,
        {"values": [0, 1], "exceed_hat": [0.1], "complexity": 3.0, "n": 10},
    ),
    "kl": (c.kl, {"q": 0.1, "p": 0.2}),
    "kl_upper": (c.kl_upper, {"q": 0.1, "budget": 0.2}),
    "bennett_upper": (
        c.bennett_upper,
        {"mean_hat": 0.1, "variance": 0.2, "complexity": 3.0, "n": 10, "gamma": 1.0, "length": 1},
    ),
    "bernstein_upper": (
        c.bernstein_upper,
        {"mean_hat": 0.1, "variance": 0.2, "complexity": 3.0, "n": 10, "gamma": 1.0, "length": 1},
    ),
    "bennett_gamma": (
        c.bennett_gamma,
        {"variance": 0.2, "complexity": 3.0, "n": 10, "length": 1.0},
    ),
    "variance_upper": (
        c.variance_upper,
        {"variance_hat": 0.2, "complexity": 3.0, "n": 10, "lam": 1.0, "length": 1.0},
    ),
    "variance_lambda": (
        c.variance_lambda,
        {"variance_hat": 0.2, "complexity": 3.0, "n": 10, "length": 1.0},
    ),
    "lambda_best": (c.lambda_best, {"p_hat": 0.1, "complexity": 3.0, "n": 10}),
    "lambda_lower_best": (c.lambda_lower_best, {"p_hat": 0.1, "complexity": 3.0, "n": 10}),
    "ln_xi": (c.ln_xi, {"n": 10}),
    "ln_xi_paper": (c.ln_xi_paper, {"n": 10}),
    "ln_inverse_upper": (c.ln_inverse_upper, {"delta": 0.05}),
    "mixture_slopes": (c.mixture_slopes, {"n": 10, "delta": 0.05}),
    "variance_lambda_grid": (c.variance_lambda_grid, {"n": 10, "delta": 0.05}),
    "gamma_grid": (c.gamma_grid, {"n": 10, "delta_variance": 0.05, "delta_mean": 0.05}),
    "binomial_upper": (c.binomial_upper, {"n": 10, "k": 2, "delta": 0.05}),
    "binomial_lower": (c.binomial_lower, {"n": 10, "k": 2, "delta": 0.05}),
    "chebyshev_cantelli": (c.chebyshev_cantelli, {"second": 0.1, "first": 0.2, "mu": 0.1}),
    "chebyshev_cantelli_mu": (c.chebyshev_cantelli_mu, {"second": 0.1, "first": 0.2}),
}
WRONG = {
    "p_hat": [NAN, -0.1, 1.1],
    "q": [NAN, -0.1, 1.1],
    "p": [NAN, 1.1],
    "budget": [NAN, -1.0],
    "complexity": [NAN, -1.0],
    "n": [0, -3, NAN],
    "delta": [0, 1.5, NAN, Fraction(3, 2)],
    "delta_variance": [0, 1.5, NAN],
    "delta_mean": [0, 1.5, NAN],
    "slopes": [np.array([0.5, NAN]), np.array([-1.0, 2.0])],
    "variance": [NAN, -0.1],
    "variance_hat": [NAN, -0.1],
    "mean_hat": [NAN],
    "length": [NAN, -1.0],
    "gamma": [0.0, -1.0, NAN],
    "lam": [0.0, 2.0, -1.0, NAN],
    "values": [[1, 0], [0, 1, 2], [0, NAN]],
    "exceed_hat": [[1.1], [NAN], [0.1, 0.2]],
    "k": [-1, 11],
    "second": [NAN],
    "first": [NAN],
    "mu": [0.5, 0.7, NAN],
}
UNCHECKED = {  # parameters that are only proposed: nan in, nan or an end of the range out
    ("bennett_gamma", "variance"),
    ("variance_lambda", "variance_hat"),
    ("lambda_best", "p_hat"),
    ("lambda_best", "n"),
    ("lambda_lower_best", "p_hat"),
    ("chebyshev_cantelli_mu", "second"),
}
RENAMED = {
    "budget": "complexity",
    "exceed_hat": "exceed_hat|p_hat",
    "delta_variance": "delta",
    "delta_mean": "delta",
}
REFUSALS = [
    pytest.param(name, argument, wrong, id=f"{name}-{argument}-{wrong}")
    for name, (_, arguments) in claims.items()
    for argument in arguments
    if (name, argument) not in UNCHECKED
    for wrong in WRONG[argument]
]


@pytest.mark.parametrize(("name", "argument", "wrong"), REFUSALS)
def test_bad_input_is_refused_by_name(name, argument, wrong):
    function, arguments = claims[name]
    function(**arguments)
    with pytest.raises(ValueError, match=RENAMED.get(argument, argument)) as caught:
        function(**{**arguments, argument: wrong})
    assert "\n" not in str(caught.value)
    assert "`" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: c.variance_upper(0.1, 3.0, 1, 0.5, 1.0),
        lambda: c.variance_lambda(0.1, 3.0, 1, 1.0),
        lambda: c.variance_lambda_grid(1, 0.05),
        lambda: c.gamma_grid(1, 0.05, 0.05),
    ],
    ids=["variance_upper", "variance_lambda", "variance_lambda_grid", "gamma_grid"],
)
def test_one_row_has_no_variance(call):
    with pytest.raises(ValueError, match="`n` must be at least 2"):
        call()


@pytest.mark.parametrize("first", [0.5, 0.6])
def test_no_best_mu_at_or_past_the_threshold(first):
    with pytest.raises(ValueError, match="first"):
        c.chebyshev_cantelli_mu(0.3, first)


def test_bernstein_refuses_a_gamma_past_one_over_length():
    with pytest.raises(ValueError, match="gamma"):
        c.bernstein_upper(0.1, 0.2, 3.0, 10, 0.6, 2.0)


def test_more_rows_than_an_exact_limit_can_be_found_for():
    with pytest.raises(ValueError, match=r"^`n` must be at most 4294967296 for an exact limit"):
        c.binomial_upper(2**32 + 1, 5, 0.05)
