"""Limits where voters have unequal numbers of rows: equal tilts, and each voter's exact limit."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log
from typing import Any

from .files import Counts, Paper, require
from .proofs import HALF, ONE, UNIT, ZERO, above, ball, is_ceiling, mean_of, slopes_of, tail

TAU_UNIT = 2**16
AROUND = (0, 1, 2, 4, 8, 16, -1, -2, -4, -8)  # sixty-fourths of the way from the mean
NO_TIE = 1 - Fraction(1, 3 * 2**60)  # of a share of delta: no binomial tail at a limit equals it


def is_dual(paper: Paper, claim: Paper, counts: Counts) -> bool:
    """Whether the multipliers prove the limit, and nearly the best that the constraint allows.

    For shares tau of the slopes, the mean loss L has E[sum_j tau_j U_j(L)] <= budget, with U_j(L)
    = -n ln(1 - (1 - e^(-K_j/n)) L), so it is at most nu budget + E max(L - nu U). Below, with
    e^(K_j/n), all signs turn.
    """
    sign, table = 1 if claim["side"] == "upper" else -1, slopes_of(claim)
    tau, nu = _multipliers(claim, len(table))
    masses, tilts = _masses(paper, claim, counts), [claim["n_samples"] * c for c, _ in table]
    value, losses = ball(0), dict[int, Any]()
    for size, mass in masses.items():
        rises = _rises(claim, size, tilts)
        rates = [(size * share, rise) for share, rise in zip(tau, rises, strict=True)]
        loss = _flat_point(sign, nu, rates) if nu else ball(max(sign, 0))
        gains = [-size * (1 - rise * loss).log() for rise in rises]
        losses[size] = loss
        tangent = sign - ball(nu) * _slope(loss, rates)
        rest = _larger(tangent * (1 - loss), -tangent * loss)
        gain = sum((ball(t) * x for t, x in zip(tau, gains, strict=True)), ball(0))
        value += ball(mass) * (loss - sign * ball(nu) * gain + sign * rest)
    price = [ball(t) * ball(t / w).log() for t, (_, w) in zip(tau, table, strict=True) if t]
    shift = sum((t * tilt for t, tilt in zip(tau, tilts, strict=True)), ZERO) * claim["p_hat"]
    value += sign * ball(nu) * (sum(price, ball(claim["complexity"] + sign * shift)))
    gap = abs(claim["value"] - claim["p_hat"]) / 16 + Fraction(1, 2**30)
    reached = (_reached(claim, masses, losses, Fraction(k, 64)) for k in AROUND)
    near = any(above(ball(gap), sign * (ball(claim["value"]) - mean)) for mean in reached)
    trivial = not nu and claim["value"] == max(sign, 0)
    return near and (trivial or _is_rounded(claim["value"], value, sign))


def _multipliers(claim: Paper, count: int) -> tuple[list[Fraction], Fraction]:
    given, nu = claim["parameters"], claim["parameters"].get("nu", -ONE)
    tau = [given.get(f"tau_{j}", ZERO) for j in range(count)]
    over, under = nu.as_integer_ratio()
    require(over <= 2**40 and not under & (under - 1), "a multiplier has more than 40 bits")
    units = all(t >= 0 and (t * TAU_UNIT).denominator == 1 for t in tau)
    require((nu == 0 and len(given) == 1) or (nu > 0 and len(given) == count + 1), "no multipliers")
    require(units and sum(tau) == (nu > 0), "the multipliers are no shares")
    return tau, nu


def _masses(paper: Paper, claim: Paper, counts: Counts) -> dict[int, Fraction]:
    """Return the weight of voters, or pairs, by their rows: 8 significant bits, rounded down."""
    weights, sums = paper["weight_integers"], dict[int, int]()
    for i, weight in ((i, weight) for i, weight in enumerate(weights) if weight):
        single = [UNIT * (i == j) for j in range(len(weights))]
        others = single if claim["quantity"] == "gibbs" else weights
        for other, (n, *_) in zip(others, counts.lines(i), strict=True):
            if other:
                shift = max(0, n.bit_length() - 8)
                size = max(claim["n_samples"], n >> shift << shift)
                sums[size] = sums.get(size, 0) + weight * other
    return {size: Fraction(mass, UNIT**2) for size, mass in sums.items()}


def _slope(loss: Any, rates: list[tuple[Fraction, Any]]) -> Any:
    """Return d/dL of sum_j tau_j U_j, from each n tau_j and 1 - e^(-+K_j/n)."""
    return sum((ball(rate) * rise / (1 - rise * loss) for rate, rise in rates), ball(0))


def _flat_point(sign: int, nu: Fraction, rates: list[tuple[Fraction, Any]]) -> Any:
    """Return about where L - nu U(L) is flat in [0, 1]: any point would do, this is the best."""
    known = [(float(rate), float(rise.mid())) for rate, rise in rates]
    low, high = 0.0, 1.0
    for _ in range(54):
        at = (low + high) / 2
        falls = sign * float(nu) * sum(rate * rise / (1 - rise * at) for rate, rise in known) > 1
        low, high = (low, at) if falls == (sign > 0) else (at, high)
    if low == 0.0 or high == 1.0:
        return ball(round(low))
    loss = ball(Fraction(low))
    for _ in range(3):
        parts = [(ball(rate), rise / (1 - rise * loss)) for rate, rise in rates]
        slope = sum((rate * at for rate, at in parts), ball(0))
        curve = sum((rate * at * at for rate, at in parts), ball(0))
        loss = (loss + (1 - sign * ball(nu) * slope) / (sign * ball(nu) * curve)).mid()
    return loss


def _larger(one: Any, other: Any) -> Any:
    return one if one.mid() > other.mid() else other


def _rises(claim: Paper, size: int, tilts: list[Fraction]) -> list[Any]:
    sign = 1 if claim["side"] == "upper" else -1
    return [1 - ball(-sign * tilt / size).exp() for tilt in tilts]


def _reached(
    claim: Paper, masses: dict[int, Fraction], losses: dict[int, Any], further: Fraction
) -> Any:
    """Return a mean that the constraint allows: between p_hat, which it allows, and the losses'.

    Losses may be moved along the way from p_hat: where L - nu U is flat, they are not known well.
    """
    sign, p_hat, table = 1 if claim["side"] == "upper" else -1, claim["p_hat"], slopes_of(claim)
    tilts = [claim["n_samples"] * slope for slope, _ in table]
    mean, exponents = ball(0), [-sign * ball(tilt * p_hat) for tilt in tilts]
    for size, mass in masses.items():
        loss = losses[size] + ball(further) * (losses[size] - ball(p_hat))
        loss = loss if 0 < float(loss.mid()) < 1 else ball(float(loss.mid()) >= 1)
        gains = [-size * (1 - rise * loss).log() for rise in _rises(claim, size, tilts)]
        exponents = [x + ball(mass) * gain for x, gain in zip(exponents, gains, strict=True)]
        mean += ball(mass) * loss
    left = (ball(w) * x.exp() for x, (_, w) in zip(exponents, table, strict=True))
    excess = sum(left, ball(0)).log()
    within = above(ball(claim["complexity"]), excess)
    share = ball(1) if within else ball(claim["complexity"]) / excess
    return ball(p_hat) + share * (mean - ball(p_hat))


def _is_rounded(number: Fraction, exact: Any, sign: int) -> bool:
    """Whether a limit is the exact one rounded outward to a multiple of 2^-40, kept to [0, 1]."""
    end = ONE if sign > 0 else ZERO
    if number == end and not above(sign * ball(end), sign * exact):
        return True
    inner = number - Fraction(sign, UNIT)
    tight = above(sign * ball(number), sign * exact) and above(sign * exact, sign * ball(inner))
    return tight and (number * UNIT).denominator == 1


def is_trinomial(paper: Paper, claim: Paper, counts: Counts) -> bool:
    """Whether eta proves the limit on the mean of l_mu, and mu and eta are nearly the best.

    Where kl(p^ || p) <= e, Jensen's inequality gives E[eta - l] >= exp(-e) prod (eta - v)^p^. A
    p that the relative entropy allows has its own C-bound, which no choice can go below.
    """
    mu, given = paper["parameters"]["mu"], claim["parameters"]
    require(given.keys() == {"mu", "eta"} and given["mu"] == mu < HALF, "mu and eta are not given")
    eta, weights = given["eta"], paper["weight_integers"]
    over, under = eta.as_integer_ratio()
    few = over <= 2**30 and not under & (under - 1) and (mu * 2**16).denominator == 1
    require(few and mu >= -64, "mu or eta has too many bits")
    both, one = (
        mean_of(counts, weights, {"quantity": name, "parameters": {}})
        for name in ("tandem", "one_errs")
    )
    p_hat, values = (both, one, 1 - both - one), ((1 - mu) ** 2, mu * mu - mu, mu * mu)
    require(eta > max(values), "eta is not above the loss")
    budget = ball(claim["complexity"]) / claim["n_samples"]
    logs = [ball(p) * ball(eta - v).log() for p, v in zip(p_hat, values, strict=True)]
    if not is_ceiling(claim["value"], ball(eta) - (sum(logs, -budget)).exp(), UNIT):
        return False
    bound = claim["value"] / (HALF - mu) ** 2
    # Above 0.9 the best mu runs off to -64, and says next to nothing whatever it is.
    told = 0 < bound < Fraction(9, 10)
    return not told or _c_bound_of(p_hat, values, eta, budget) > float(bound) * 0.98 - 1e-9


def _c_bound_of(p_hat: Any, values: Any, eta: Fraction, budget: Any) -> float:
    """Return the C-bound of a distribution that the relative entropy allows: floats suffice."""
    tilted = [float(p / (eta - v)) for p, v in zip(p_hat, values, strict=True)]
    p = [x / sum(tilted) for x in tilted]
    nats = sum(float(q) * log(float(q) / x) for q, x in zip(p_hat, p, strict=True) if q)
    share = min(1.0, float(budget) / max(nats, 1e-300))
    both, one, _ = (float(q) + share * (x - float(q)) for q, x in zip(p_hat, p, strict=True))
    kept = exp(min(0.0, nats - float(budget)))  # what is left of the budget buys errors of both
    both, one = 1 - kept * (1 - both), kept * one
    gibbs = both + one / 2
    return (both - gibbs**2) / (0.25 + both - gibbs) if gibbs < 0.5 else 1.0


def is_mean_of_limits(paper: Paper, claim: Paper, counts: Counts) -> bool:
    """Whether the limit is the mean of each voter's tightest exact binomial one."""
    weights, prior, total = paper["weight_integers"], paper["prior_integers"], ZERO
    held = [i for i, weight in enumerate(weights) if weight]
    require(claim["parameters"].keys() == {f"limit_{i}" for i in held}, "a voter has no limit")
    for i in held:
        at, limit = i * (len(counts.voters) + 1), claim["parameters"][f"limit_{i}"]
        rows, errors = counts.rows[at], counts.both[at]
        share = claim["share"] * NO_TIE * Fraction(prior[i], sum(prior))
        require(_is_tightest(rows, errors, share, limit), f"the limit of voter {i} is not exact")
        total += weights[i] * limit / UNIT
    return bool(claim["value"] == Fraction(ceil(total * UNIT), UNIT))


def _is_tightest(n: int, k: int, share: Fraction, limit: Fraction) -> bool:
    """Whether P(Bin(n, p) <= k) is at most the share at the limit, and not a grid step below."""
    if k == n:
        return limit == 1
    below = limit - Fraction(1, UNIT)
    if (limit * UNIT).denominator != 1 or not below * n >= k - Fraction(n, UNIT):
        return False
    rare = limit == 1 or above(ball(share), tail(n, k, limit))
    return rare and (below * n <= k or above(tail(n, k, below), ball(share)))
