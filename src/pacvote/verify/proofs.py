"""Recompute means, complexities and limits: fractions where exact, else balls (Arb)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import import_module
from math import ceil, floor
from typing import Any

from .files import Counts, Paper, require

UNIT, FINE = 2**40, 2**60  # limits and weights; empirical means and complexities
ZERO, HALF, ONE = Fraction(0), Fraction(1, 2), Fraction(1)
MUS = [Fraction(k, 256) for k in (-200, -100, -45, -18, -4, 8)]  # ccpbb's


def mean_of(counts: Counts, weights: list[int], claim: Paper) -> Fraction:
    """Return the posterior mean that a claim is about, at the certificate's weights."""
    quantity, mu, sums = claim["quantity"], claim["parameters"].get("mu", ZERO), dict[int, int]()
    for i, weight in ((i, weight) for i, weight in enumerate(weights) if weight):
        others = weights if quantity != "gibbs" else [UNIT * (i == j) for j in range(len(weights))]
        for w, (n, both, left, right) in zip(others, _lines(counts, i, quantity), strict=True):
            if w:
                loss = _loss(quantity, mu, both, left + right - 2 * both, n)
                sums[n] = sums.get(n, 0) + weight * w * loss
    sizes = {n: n * (n - 1 if quantity == "mu_variance" else 1) for n in sums}
    total = sum((Fraction(sums[n], sizes[n]) for n in sums), ZERO)
    return Fraction(total, (UNIT * mu.denominator) ** 2)


def _lines(counts: Counts, i: int, quantity: str) -> Iterable[tuple[int, int, int, int]]:
    if quantity != "disagreement":
        return counts.lines(i)
    m = len(counts.voters)
    return ((counts.n_unlabelled, x, 0, 0) for x in counts.differ[i * m : i * m + m])


def _loss(quantity: str, mu: Fraction, both: int, one: int, n: int) -> int:
    """Return q^2 times a loss summed over n rows, mu = p / q; a variance, over pairs of rows."""
    (p, q), none = mu.as_integer_ratio(), n - both - one
    if quantity == "mu_tandem":
        return (q - p) ** 2 * both - p * (q - p) * one + p * p * none
    if quantity == "mu_variance":  # n (n - 1) times the unbiased one
        return ((q - p) ** 2 * one + (q - 2 * p) ** 2 * none) * both + p * p * one * none
    return q * q * {"one_errs": one, "none_errs": none}.get(quantity, both)


def coalition(weights: list[int]) -> Fraction:
    """Return the smallest sum of weights that is at least half, by the sums of two halves.

    Beyond 25 positive weights the rest help any coalition to half and add nothing to its sum.
    """
    held, halves = sorted((w for w in weights if w), reverse=True), []
    short = UNIT // 2 - sum(held[25:])
    for part in (held[:25:2], held[1:25:2]):
        sums = {0}
        for weight in part if short > 0 else ():
            sums |= {total + weight for total in sums}
        halves.append(sorted(sums))
    left, right = halves
    pairs = ((x, bisect_left(right, short - x)) for x in left)
    least = min((x + right[at] for x, at in pairs if at < len(right)), default=0)
    return Fraction(max(UNIT // 2, least), UNIT)


def ball(number: Fraction | int) -> Any:
    """Return a ball that holds the number."""
    flint = import_module("flint")
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def above(left: Any, right: Any) -> bool:
    """Whether one ball is above another; refuse where they meet."""
    require(left - right > 0 or right - left > 0, "two numbers are too close to compare")
    return bool(left > right)


def middle(ball: Any) -> Fraction:
    """Return what a ball is known as; what is rounded here is irrational, so never a tie."""
    mantissa, exponent = map(int, ball.mid().man_exp())
    return mantissa * Fraction(2) ** exponent


def _to_12_bits(ball: Any) -> Fraction:
    number = middle(ball)
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    unit = Fraction(2) ** (exponent + (number >= Fraction(2) ** exponent) - 12)
    return round(number / unit) * unit


def nats(paper: Paper, claim: Paper) -> Any:
    """Return KL(rho || pi) for each draw, plus ln(grid / share), and ln(2 sqrt n) for kl."""
    weights, prior = paper["weight_integers"], paper["prior_integers"]
    parts = ((w, Fraction(w * sum(prior), p * UNIT)) for w, p in zip(weights, prior) if w)  # noqa: B905
    divergence = sum((w * ball(ratio).log() for w, ratio in parts), ball(0)) / UNIT
    draws = {"gibbs": 1, "vote": 0, "drawn": int(claim["parameters"].get("draws", 0))}
    order = draws.get(claim["quantity"], 2)
    nats = order * divergence + ball(claim["grid"] / claim["share"]).log()
    n = ball(claim["n_samples"])
    adds = {"kl_paper": 2 * n.sqrt(), "trinomial": n + 2 * n.sqrt()}
    add = adds.get(claim["inequality"])
    return nats + add.log() if add is not None else nats


def slopes_of(claim: Paper) -> list[tuple[Fraction, Fraction]]:
    """Return the slopes C_j of the mixture and their weights w_j, rebuilt.

    Slopes are geometric from min(1, sqrt(8 ln(1/share) / n)) to 6, each rounded to 12 bits;
    none but 1 and 6 is rational, so none is a tie. Weights go with min(1, 1.5 / C_j).
    """
    least, most = (8 * ball(1 / claim["share"]).log() / claim["n_samples"]).sqrt(), ball(6)
    width = (most / (least if above(1, least) else 1)).log()
    last = max(5, ceil(middle(width / ball(Fraction(8, 5)).log())))
    slopes = [_to_12_bits(most * (width * (i - last) / last).exp()) for i in range(last + 1)]
    masses = [min(ONE, Fraction(3, 2) / slope) for slope in slopes]
    return [(slope, mass / sum(masses)) for slope, mass in zip(slopes, masses, strict=True)]


def _mixture(claim: Paper, p: Fraction) -> Any:
    """Return ln sum_j w_j exp(n phi_j(p, p_hat))."""
    n, sign, total = claim["n_samples"], -1 if claim["side"] == "upper" else 1, ball(0)
    for slope, mass in slopes_of(claim):
        tilt = ball(sign * slope)
        phi = tilt * ball(claim["p_hat"]) - (1 + (tilt.exp() - 1) * ball(p)).log()
        total += ball(mass) * (n * phi).exp()
    return total.log()


def _kl(claim: Paper, p: Fraction) -> Any:
    parts = ((claim["p_hat"], p), (1 - claim["p_hat"], 1 - p))
    return claim["n_samples"] * sum(ball(q) * ball(q / r).log() for q, r in parts if q)


def _binomial(claim: Paper, p: Fraction) -> Any:
    """Return -ln P(Bin(n, p) <= k), k the greatest with k / n <= p_hat."""
    n = claim["n_samples"]
    return -tail(n, floor(claim["p_hat"] * n), p).log()


def tail(n: int, k: int, p: Fraction) -> Any:
    """Return P(Bin(n, p) <= k): from k down, ever smaller terms, then a geometric series."""
    require(n <= 2**32, "so many rows have no exact limit")
    with import_module("flint").ctx.workprec(192):
        q, x = ball(1 - p), ball(p)
        top = ball(n + 1).lgamma() - ball(k + 1).lgamma() - ball(n - k + 1).lgamma()
        term = total = (top + k * x.log() + (n - k) * q.log()).exp()
        for i in range(k, 0, -1):
            ratio = i * q / ((n - i + 1) * x)
            term *= ratio
            total += term
            if 2**100 * term < total and ratio < 1:
                rest = term * ratio / (1 - ratio)
                return total + rest.union(ball(0))
        return total


_LEFT = {"mixture": _mixture, "kl_paper": _kl, "binomial": _binomial}


def _is_tightest(left: Callable[[Paper, Fraction], Any], claim: Paper) -> bool:
    """Whether the limit is proved, and one grid step nearer to p_hat is not."""
    at, upper, mean = claim["value"] * UNIT, claim["side"] == "upper", claim["p_hat"] * UNIT
    inner, last, step = (ceil(mean), UNIT, 1) if upper else (floor(mean), 0, -1)
    if at.denominator > 1 or not 0 <= step * (at - inner) <= step * (last - inner):
        return False
    enough = ball(claim["complexity"])
    if at != last and not above(left(claim, at / UNIT), enough):
        return False
    return at == inner or not above(left(claim, (at - step) / UNIT), enough)


def is_ceiling(number: Fraction, exact: Any, unit: int) -> bool:
    """Whether the number is the least multiple of 1 / unit that is not below the exact one."""
    near = above(ball(number), exact) and above(exact, ball(number - Fraction(1, unit)))
    return near and (number * unit).denominator == 1


def is_limit(paper: Paper, claim: Paper) -> bool:
    """Whether the limit is the tightest multiple of 2^-40 that the inequality proves."""
    if claim["inequality"] in _LEFT:
        return _is_tightest(_LEFT[claim["inequality"]], claim)
    n, mu, price = claim["n_samples"], claim["parameters"]["mu"], claim["complexity"]
    length = max(1 - mu, 1 - 2 * mu)
    if claim["inequality"] == "variance":
        lam = claim["parameters"]["lambda"]
        keep = 1 - lam * n / (2 * (n - 1))
        limit = min((claim["p_hat"] + length**2 * price / (n * lam)) / keep, length**2 / 4)
        return bool(keep > 0 and claim["value"] == Fraction(ceil(limit * UNIT), UNIT))
    gamma, variance = claim["parameters"]["gamma"], paper["claims"][1]["value"]
    tilt, rest = ball(gamma * length), ball(claim["p_hat"] + price / (gamma * n))
    mean = (tilt.exp() - tilt - 1) * ball(variance / (gamma * length**2)) + rest
    return is_ceiling(claim["value"], mean, UNIT)


def check_grids(paper: Paper) -> None:
    """Refuse what is not one of every sixteenth point of the paper's grids, in 12 bits."""
    n, mu, (bennett, variance) = paper["n_pair"], paper["parameters"]["mu"], paper["claims"]
    require(mu in MUS, "mu is not on the published grid")
    length = float(max(1 - mu, 1 - 2 * mu))  # exact; quotients are rounded as IEEE 754 says
    price, ratio = ball(2 / (paper["delta"] * paper["selection"])).log(), ball(Fraction(1.05))
    scale, target, rise = ((n - 1) / price + 1).sqrt() + 1, 4 * price / n, 1 + (n - 1) / price / 2
    least = _root(lambda u: u.exp() * (u - 1) + 1 - target, 2 + (1 + target).log())
    most = _root(lambda u: (u.exp() - 1) / u - rise, 2 + 2 * rise.log())
    first = ball(Fraction(2 * (n - 1), n)) / scale
    rows = [("lambda", variance, first, scale / 2), ("gamma", bennett, least, most / least)]
    for name, claim, start, width in rows:
        count = max(1, ceil(middle(width.log() / ratio.log())))
        points = [_to_12_bits(start * ratio**i) for i in range(min(8, count - 1), count, 16)]
        divisor = length if name == "gamma" else 1.0
        fits = claim["parameters"][name] in [Fraction(float(x) / divisor) for x in points]
        require(fits, f"{name} is not on the published grid")
        require(claim["grid"] == len(MUS) * len(points), f"the grid of {name} has another size")


def _root(rising: Callable[[Any], Any], high: Any) -> Any:
    low, high = high * 0, high.mid()
    for _ in range(160):
        middle = ((low + high) / 2).mid()
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low
