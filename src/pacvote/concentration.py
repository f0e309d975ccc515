"""One-sided inequalities, each rounded to the side that always holds.

Pure functions of numbers. Three words recur: ``p_hat`` is an empirical mean in [0, 1],
``n`` the number of rows behind it, and ``complexity`` the price of the claim in nats,
``KL(rho || pi) + ln(1 / delta)`` and whatever the inequality adds (a union bound, ``ln xi(n)``).

A name that ends in ``_upper`` returns a float that is at or above the exact value, one that
ends in ``_lower`` a float at or below it. Root finders only guess: a guess is moved outward
until a forward evaluation, less a bound on its own rounding error, proves it safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pacvote._rounding import (
    EPS,
    TINY,
    check_claim,
    check_finite,
    check_positive,
    check_price,
    check_rows,
    check_size,
    check_unit,
    ln_inverse_upper,
    outward,
    root,
    round_down,
    round_up,
    to_12_bits,
)

Floats = NDArray[np.float64]

LARGEST_SLOPE = 6.0


# ---------------------------------------------------------------- binary kl and its inverses


def _kl_and_error(q: float, p: float) -> tuple[float, float]:
    """Return kl(q || p) in floats and a bound on the rounding error made."""
    gap, rest = p - q, 1 - q
    if gap == 0:
        return 0.0, 0.0
    if (p == 0 and q > 0) or (p == 1 and q < 1):
        return math.inf, 0.0
    if q == 0:
        left = 0.0
    elif abs(gap) <= q / 2:
        left = -q * math.log1p(gap / q)
    else:
        left = q * (math.log(q) - math.log(p) if p < TINY else math.log(q / p))
    if rest == 0:
        right = 0.0
    elif abs(gap) <= rest / 2:
        right = -rest * math.log1p(-gap / rest)
    else:
        right = rest * math.log(rest / (1 - p))
    return left + right, 16 * EPS * (abs(left) + abs(right)) + TINY


def kl(q: float, p: float) -> float:
    """Return kl(q || p) between Bernoulli distributions with means ``q`` and ``p``."""
    check_unit("q", q)
    check_unit("p", p)
    return max(0.0, _kl_and_error(q, p)[0])


def kl_upper(q: float, budget: float) -> float:
    """Return max{p >= q : kl(q || p) <= budget}, rounded up."""
    return _kl_inverse(q, budget, 1.0)


def kl_lower(q: float, budget: float) -> float:
    """Return min{p <= q : kl(q || p) <= budget}, rounded down."""
    return _kl_inverse(q, budget, 0.0)


def _kl_inverse(q: float, budget: float, limit: float) -> float:
    check_unit("q", q)
    check_price(budget)
    if q == limit or budget == math.inf:
        return limit

    def proved(p: float) -> bool:
        value, error = _kl_and_error(q, p)
        return value - error >= budget

    last = math.nextafter(limit, q)
    guess = root(lambda p: _kl_and_error(q, p)[0] - budget, *sorted((q, last)))
    return outward(proved, guess, limit)


def kl_inverse_slopes(q: float, p: float) -> tuple[float, float]:
    """Return (dp/dq, dp/dbudget) at p = kl_upper(q, budget) or kl_lower(q, budget)."""
    if p in {0.0, 1.0} or p == q:
        return (0.0, 0.0) if p != q else (1.0, 0.0)
    by_p = (1 - q) / (1 - p) - q / p
    left = math.log(q / p) if q > 0 else math.log(TINY)
    by_q = left - (math.log((1 - q) / (1 - p)) if q < 1 else math.log(TINY))
    return -by_q / by_p, 1 / by_p


# ---------------------------------------------------------------- PAC-Bayes-kl


def ln_xi(n: int) -> float:
    r"""Return ln xi(n), rounded up, xi(n) = sum_k C(n,k) (k/n)^k (1-k/n)^(n-k).

    xi(n) = 1 + Q(n) with Ramanujan's Q, and Flajolet, Grabner, Kirschenhofer and Prodinger
    (1995) bound Q through n! e^n / n^n, for which Robbins's form of Stirling serves. The
    closed form is within 0.2 % at n = 1 and 2e-7 at n = 50.
    """
    check_rows(n)
    stirling = math.sqrt(math.pi * n / 2) * math.exp(1 / (12 * n))
    return round_up(math.log(stirling + 2 / 3 - 4 / (135 * (n + 8 / 45))), 2)


def ln_xi_paper(n: int) -> float:
    """Return ln(2 sqrt(n)), the paper's upper bound on ln xi(n), rounded up."""
    check_rows(n)
    return round_up(math.log(2 * math.sqrt(n)))


def pac_bayes_kl_upper(p_hat: float, complexity: float, n: int) -> float:
    """PAC-Bayes-kl, upper side; ``complexity`` is KL + ln(xi(n) / delta)."""
    check_claim(p_hat, complexity, n)
    return kl_upper(p_hat, round_up(complexity / n))


def pac_bayes_kl_lower(p_hat: float, complexity: float, n: int) -> float:
    """PAC-Bayes-kl, lower side; holds together with the upper one for the same ``complexity``."""
    check_claim(p_hat, complexity, n)
    return kl_lower(p_hat, round_up(complexity / n))


def split_kl_upper(
    values: Sequence[float], exceed_hat: Sequence[float], complexity: float, n: int
) -> float:
    """Bound the mean of a loss with few values by one kl inverse for each step between them.

    ``values`` ascend, and ``exceed_hat[j]`` is the empirical P(loss >= values[j + 1]).
    ``complexity`` holds for each of the ``len(values) - 1`` steps, so its delta is their share.
    """
    steps = np.diff(values)
    if len(exceed_hat) != len(steps) or not np.all(steps > 0):
        msg = f"`values` must ascend and have one entry more than `exceed_hat`, but are {values!r}"
        raise ValueError(msg)
    uppers = [pac_bayes_kl_upper(q, complexity, n) for q in exceed_hat]
    value = values[0] + sum(s * u for s, u in zip(steps, uppers, strict=True))
    return round_up(float(value), 2 * sum(abs(v) for v in values) * len(values))


# ---------------------------------------------------------------- mixture of slopes


def mixture_slopes(n: int, delta: float | Fraction) -> Floats:
    """Return the slopes of the mixture bounds: functions of ``n`` and ``delta`` only.

    Geometric, by steps of at most 1.6, from min(1, sqrt(8 ln(1/delta) / n)), the least that is
    ever best, to 6. Each is rounded to 12 bits: every machine and checker has the same numbers.
    """
    check_rows(n)
    least = min(1.0, math.sqrt(8 * ln_inverse_upper(delta) / n)) or 1.0
    count = max(6, 1 + math.ceil(math.log(LARGEST_SLOPE / least) / math.log(1.6)))
    return to_12_bits(np.geomspace(least, LARGEST_SLOPE, count))


def mixture_weights(slopes: Floats) -> Floats:
    """Return the weights of the slopes: equal up to 1.5, then falling as 1 / slope.

    Large slopes serve claims near p_hat = 0 alone, small ones the rest.
    """
    mass = np.minimum(1, 1.5 / slopes)
    weights: Floats = mass / mass.sum()
    return weights


def _upper_exponents(p: float, p_hat: float, n: int, slopes: Floats) -> tuple[Floats, Floats]:
    # expm1(gain) = x / (1 - x) with x = (1 - e^-C) p: what a rounding of x does to ln(1 - x)
    gain, loss = -np.log1p(np.expm1(-slopes) * p), slopes * p_hat
    return n * (gain - loss), 24 * EPS * n * (np.expm1(gain) + loss)


def _lower_exponents(p: float, p_hat: float, n: int, slopes: Floats) -> tuple[Floats, Floats]:
    gain, loss = slopes * p_hat, np.log1p(np.expm1(slopes) * p)
    return n * (gain - loss), 24 * EPS * n * (gain + loss)


def _ln_mixture(exponents: Floats, weights: Floats) -> float:
    top = float(exponents.max())
    return top + math.log(float(weights @ np.exp(exponents - top)))


def _mixture(
    exponents: Callable[[float, float, int, Floats], tuple[Floats, Floats]],
    p_hat: float,
    complexity: float,
    n: int,
    slopes: Floats,
    limit: float,
) -> float:
    check_claim(p_hat, complexity, n)
    check_positive(slopes=float(np.min(slopes)))
    if p_hat == limit or complexity == math.inf:
        return limit
    weights = mixture_weights(slopes)

    def proved(p: float) -> bool:
        value, error = exponents(p, p_hat, n, slopes)
        total = _ln_mixture(value - error, weights)
        return total - 64 * EPS * (1 + abs(total)) >= complexity

    guess = root(
        lambda p: _ln_mixture(exponents(p, p_hat, n, slopes)[0], weights) - complexity,
        *sorted((p_hat, limit)),
    )
    return outward(proved, guess, limit)


def mixture_upper(p_hat: float, complexity: float, n: int, slopes: Floats) -> float:
    r"""Return the largest p with ln sum_j w_j exp(n phi_j) <= complexity, rounded up.

    phi_j = -ln(1 - (1 - e^-C_j) p) - C_j p_hat for the ``slopes`` C_j, fixed beforehand;
    ``complexity`` is KL + ln(1/delta): no ln xi(n), no union over the slopes.
    """
    return _mixture(_upper_exponents, p_hat, complexity, n, slopes, 1.0)


def mixture_lower(p_hat: float, complexity: float, n: int, slopes: Floats) -> float:
    r"""Return the least p with ln sum_j w_j exp(n phi_j) <= complexity, rounded down.

    phi_j = C_j p_hat - ln(1 + (e^C_j - 1) p). An event of its own: the upper side's
    share of delta does not pay for it.
    """
    return _mixture(_lower_exponents, p_hat, complexity, n, slopes, 0.0)


def mixture_upper_slopes(p: float, p_hat: float, n: int, slopes: Floats) -> tuple[float, float]:
    """Return (dp/dp_hat, dp/dcomplexity) at p = mixture_upper(p_hat, ...)."""
    if p >= 1:
        return 0.0, 0.0
    share = _posterior(_upper_exponents(p, p_hat, n, slopes)[0], slopes)
    rise = -np.expm1(-slopes)
    by_p = n * float(share @ (rise / (1 - rise * p)))
    return n * float(share @ slopes) / by_p, 1 / by_p


def mixture_lower_slopes(p: float, p_hat: float, n: int, slopes: Floats) -> tuple[float, float]:
    """Return (dp/dp_hat, dp/dcomplexity) at p = mixture_lower(p_hat, ...)."""
    if p <= 0:
        return 0.0, 0.0
    share = _posterior(_lower_exponents(p, p_hat, n, slopes)[0], slopes)
    rise = np.expm1(slopes)
    by_p = n * float(share @ (rise / (1 + rise * p)))
    return n * float(share @ slopes) / by_p, -1 / by_p


def _posterior(exponents: Floats, slopes: Floats) -> Floats:
    mass = mixture_weights(slopes) * np.exp(exponents - exponents.max())
    share: Floats = mass / mass.sum()
    return share


# ---------------------------------------------------------------- PAC-Bayes-lambda


def lambda_upper(p_hat: float, complexity: float, n: int, lam: float) -> float:
    """PAC-Bayes-lambda, upper side, for any ``lam`` in (0, 2) (Thm. lambdabound)."""
    check_claim(p_hat, complexity, n)
    if not 0 < lam < 2:
        msg = f"`lam` must lie in (0, 2), but is {lam!r}"
        raise ValueError(msg)
    half = 1 - lam / 2
    return min(1.0, round_up(p_hat / half + complexity / (lam * half * n)))


def lambda_lower(p_hat: float, complexity: float, n: int, gamma: float) -> float:
    """PAC-Bayes-lambda, lower side, for any ``gamma`` > 0 (Thm. lambdabound)."""
    check_claim(p_hat, complexity, n)
    check_positive(gamma=gamma)
    keep, price = (1 - gamma / 2) * p_hat, complexity / (gamma * n)
    return min(1.0, max(0.0, round_down(keep - price, (1 + gamma) * p_hat + price)))


def lambda_best(p_hat: float, complexity: float, n: int) -> float:
    """Return the ``lam`` that minimises `lambda_upper`."""
    check_positive(complexity=complexity)
    return 2 / (math.sqrt(2 * n * p_hat / complexity + 1) + 1)


def lambda_lower_best(p_hat: float, complexity: float, n: int) -> float:
    """Return the ``gamma`` that maximises `lambda_lower`."""
    check_positive(complexity=complexity, n=n)
    return math.sqrt(2 * complexity / (n * max(p_hat, TINY)))


# ---------------------------------------------------------------- Bennett, Bernstein, variance


def phi(x: float) -> float:
    """Return e^x - x - 1 to full relative precision; infinite where e^x overflows."""
    if abs(x) < 0.5:
        return math.fsum(x**k / math.factorial(k) for k in range(2, 20))
    return math.inf if x > 709 else math.expm1(x) - x


def bennett_upper(
    mean_hat: float, variance: float, complexity: float, n: int, gamma: float, length: float
) -> float:
    """PAC-Bayes-Bennett at one ``gamma`` fixed beforehand (Thm. PBBennett).

    The loss lies in an interval of that ``length``; ``variance`` bounds its posterior mean
    variance from above; ``complexity`` is KL + ln(1/delta).
    """
    check_positive(n=n, gamma=gamma, length=length)
    tilt = gamma * length
    rise = phi(tilt) / (gamma * length**2)
    return _mean_plus(mean_hat, rise, variance, complexity / (gamma * n), 1 + tilt)


def bernstein_upper(
    mean_hat: float, variance: float, complexity: float, n: int, gamma: float, length: float
) -> float:
    """PAC-Bayes-Bernstein (Seldin et al. 2012, Thm. 7), ``gamma`` in (0, 1/length]."""
    check_positive(n=n, gamma=gamma, length=length)
    if not gamma * length <= 1 + 4 * EPS:
        msg = f"`gamma` must lie in (0, 1/length], but is {gamma!r} for length {length!r}"
        raise ValueError(msg)
    return _mean_plus(mean_hat, (math.e - 2) * gamma, variance, complexity / (gamma * n), 1.0)


def _mean_plus(
    mean_hat: float, rise: float, variance: float, price: float, condition: float
) -> float:
    """Add up; ``condition`` is how much ``rise`` magnifies a rounding of its argument."""
    check_finite(mean_hat=mean_hat)
    check_size(variance=variance, complexity=price)
    spread = rise * variance if variance > 0 else 0.0
    return round_up(mean_hat + spread + price, 2 * (abs(mean_hat) + condition * spread + price))


def bennett_gamma(variance: float, complexity: float, n: int, length: float) -> float:
    """Return the ``gamma`` that minimises `bennett_upper`.

    gamma = u / length with e^u (u - 1) + 1 = length^2 complexity / (n variance): the paper's
    1 + W0(.), solved in u because W0 has no digits left next to its branch point.
    """
    check_positive(complexity=complexity, n=n, length=length)
    target = min(1e300, length**2 * complexity / (n * max(variance, TINY)))
    high = 2 + math.log1p(target)
    return root(lambda u: u * math.expm1(u) - phi(u) - target, 0.0, high) / length


def variance_upper(
    variance_hat: float, complexity: float, n: int, lam: float, length: float
) -> float:
    """Bound the posterior mean variance by the empirical one (Thm. var-bound).

    At one ``lam`` in (0, 2(n-1)/n), fixed beforehand. No variance exceeds length^2 / 4.
    """
    check_rows(n, 2)
    check_size(variance_hat=variance_hat, complexity=complexity, length=length)
    keep = 1 - lam * n / (2 * (n - 1))
    if not (lam > 0 and keep > 0):
        msg = f"`lam` must lie in (0, 2(n-1)/n), but is {lam!r} for n = {n}"
        raise ValueError(msg)
    slack = 1 + 4 / keep
    value = variance_hat / keep + length**2 * complexity / (n * lam * keep)
    return round_up(value, value * slack)


def variance_lambda(variance_hat: float, complexity: float, n: int, length: float) -> float:
    """Return the ``lam`` that minimises `variance_upper`."""
    check_rows(n, 2)
    check_positive(complexity=complexity, length=length)
    ratio = 2 * (n - 1) * max(variance_hat, 0) / (length**2 * complexity)
    return 2 * (n - 1) / n / (math.sqrt(ratio + 1) + 1)


def variance_lambda_grid(n: int, delta: float | Fraction, ratio: float = 1.05) -> Floats:
    """Return the paper's grid of ``lam`` for `variance_upper`; ``delta`` is that event's share."""
    check_rows(n, 2)
    scale = math.sqrt((n - 1) / max(EPS, ln_inverse_upper(delta)) + 1) + 1
    count = max(1, math.ceil(math.log(scale / 2) / math.log(ratio)))
    return _geometric(2 * (n - 1) / n / scale, ratio, count)


def gamma_grid(
    n: int, delta_variance: float | Fraction, delta_mean: float | Fraction, ratio: float = 1.05
) -> Floats:
    """Return the paper's grid of ``gamma`` for a loss of range length 1; divide by the length.

    From the gamma that is best at the largest variance, 1/4, to the one beyond which the
    bound exceeds the length even at the least variance that `variance_upper` can return.
    """
    check_rows(n, 2)
    least = bennett_gamma(0.25, max(EPS, ln_inverse_upper(delta_mean)), n, 1.0)
    rise = 1 + (n - 1) / (2 * max(EPS, ln_inverse_upper(delta_variance)))
    high = 2 + 2 * math.log(rise)
    most = root(lambda u: math.expm1(u) / u - rise, TINY ** (1 / 4), high)
    count = max(1, math.ceil(math.log(most / least) / math.log(ratio)))
    return _geometric(least, ratio, count)


def _geometric(first: float, ratio: float, count: int) -> Floats:
    return first * np.asarray(ratio ** np.arange(count), dtype=np.float64)


# ---------------------------------------------------------------- exact binomial tails


def _ln_tail_upper(n: int, k: int, p: float) -> float:
    """Return an upper bound on ln P(Bin(n, p) <= k) for k < n p, tight to rounding."""
    pieces = (
        math.lgamma(n + 1),
        -math.lgamma(k + 1),
        -math.lgamma(n - k + 1),
        k * math.log(p),
        (n - k) * math.log1p(-p),
    )
    below = np.arange(k, max(0, k - 64 - 40 * math.isqrt(n)), -1, dtype=np.float64)
    ratios = below * (1 - p) / ((n - below + 1) * p)
    products = np.cumprod(ratios)
    total = 1 + float(products.sum())
    if len(ratios) < k:
        if ratios[-1] >= 1:
            return 0.0
        total += float(products[-1] * ratios[-1] / (1 - ratios[-1]))
    slack = 16 * EPS * (sum(abs(x) for x in pieces) + len(ratios) + 1)
    return math.fsum(pieces) + math.log(total) + slack


def _binomial_price(n: int, k: int, delta: float | Fraction) -> float:
    check_rows(n, most=2**32)
    if not 0 <= k <= n:
        msg = f"`k` must lie in 0..n, but is {k!r} for n = {n}"
        raise ValueError(msg)
    return ln_inverse_upper(delta)


def binomial_upper(n: int, k: int, delta: float | Fraction) -> float:
    """Return max{p : P(Bin(n, p) <= k) >= delta}, rounded up: the exact test-set bound."""
    price = _binomial_price(n, k, delta)
    if k == n:
        return 1.0
    ends = math.nextafter(k / n, 1), math.nextafter(1, 0)
    guess = root(lambda p: _ln_tail_upper(n, k, p) + price, *ends)
    return outward(lambda p: k < n * p and p < 1 and _ln_tail_upper(n, k, p) <= -price, guess, 1.0)


def binomial_lower(n: int, k: int, delta: float | Fraction) -> float:
    """Return min{p : P(Bin(n, p) >= k) >= delta}, rounded down."""
    _binomial_price(n, k, delta)
    return max(0.0, round_down(1 - binomial_upper(n, n - k, delta), 1.0)) if k > 0 else 0.0


# ---------------------------------------------------------------- from moments to the vote


def chebyshev_cantelli(second: float, first: float, mu: float, threshold: float = 0.5) -> float:
    """Bound P(Z >= threshold) by E[(Z - mu)^2] / (threshold - mu)^2, for any mu < threshold.

    ``second`` is E[Z^2] and ``first`` is E[Z] (Thm. CCmu). Rounded up.
    """
    if not mu < threshold:
        msg = f"`mu` must be below the threshold {threshold!r}, but is {mu!r}"
        raise ValueError(msg)
    check_finite(second=second, first=first, mu=mu)
    size = abs(second) + 2 * abs(mu * first) + mu * mu + TINY
    value = second - 2 * mu * first + mu * mu
    return round_up(value / (threshold - mu) ** 2, size / (threshold - mu) ** 2)


def chebyshev_cantelli_mu(second: float, first: float, threshold: float = 0.5) -> float:
    """Return the mu that minimises `chebyshev_cantelli`, for ``first`` < threshold."""
    check_positive(**{"threshold - first": threshold - first})
    return (threshold * first - second) / (threshold - first)


def first_order_oracle(gibbs: float) -> float:
    """Markov's inequality: the vote errs at most twice as often as its voters on average."""
    return 2 * gibbs


def tandem_oracle(tandem: float) -> float:
    """Second-order Markov: at most four times the tandem loss (Thm. tandembound)."""
    return 4 * tandem


def c_bound_oracle(gibbs: float, tandem: float) -> float:
    """Chebyshev-Cantelli at its best mu, for a Gibbs loss below 1/2 (Thm. Cbound)."""
    return (tandem - gibbs**2) / (0.25 + tandem - gibbs)
