"""Certificates about rows that all voters share: they rest on the votes, which are no counts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from math import ceil, comb
from typing import Any, NamedTuple

from .checks import _check_claimed, _check_weights
from .files import Paper, require
from .proofs import FINE, ONE, UNIT, ball, coalition, is_ceiling, is_limit, nats

BOUNDS = ("binomial", "ndraw")
GRID = [
    (4096, 1976), (2048, 976), (1024, 481), (512, 235), (256, 115), (128, 56), (64, 27),
    (32, 14), (16, 7), (8, 4), (4, 2), (2, 2), (1, 1),
]  # fmt: skip
ABOVE = Fraction(1, 2**100)  # is added to a mean that no fraction holds, so that it is no tie


class Rows(NamedTuple):
    """What was said, in order, and on how many rows.

    For each voter 0 where it said the label, else the place, from 1, of the first that said the
    same: whatever the labels are called.
    """

    voters: list[str]
    said: list[tuple[tuple[int, ...], int]]

    n_unlabelled: int = 0  # no use is made of such rows

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return sum(times for _, times in self.said)


def rows_of(votes: Any) -> Rows:
    """Return the rows of Votes, each as it is said of in `Rows`."""
    codes: Any = getattr(votes, "vote_codes", None)
    require(codes is not None, "it is about rows that all voters share: give the votes themselves")
    said: Counter[tuple[int, ...]] = Counter()
    lines = ((int(label), *line) for label, line in zip(votes.label_codes, codes, strict=True))
    for (label, *spoken), times in Counter(lines).items():
        require(len(spoken) == len(votes.voters), "the votes are not of all voters")
        first = {label: 0}
        said[tuple(first.setdefault(code, i) for i, code in enumerate(spoken, 1))] += times
    return Rows(list(votes.voters), sorted(said.items()))


def _check_evidence(paper: Paper, rows: Rows) -> None:
    m, n, digest = (
        len(rows.voters),
        rows.n_samples,
        hashlib.sha256(json.dumps(rows.voters).encode()),
    )
    require(paper["voters"] == rows.voters, "the evidence names other voters")
    unique = {name for name in rows.voters if type(name) is str}
    require(0 < m == len(unique), "each voter needs a name of its own")
    for said, times in rows.said:
        width = (m.bit_length() + 7) // 8
        digest.update(b"".join(place.to_bytes(width, "big") for place in said))
        digest.update(times.to_bytes(8, "big"))
    require(paper["n_single"] == paper["n_pair"] == n > 0, "`n_single` or `n_pair` is wrong")
    require(digest.hexdigest() == paper["evidence_sha256"], "the evidence has another SHA-256")


def _check_parameters(paper: Paper, rows: Rows) -> None:
    require(len(paper["claims"]) == 1, "it must make one claim")
    claim, parameters, size = paper["claims"][0], paper["parameters"], 1
    require(claim["n_samples"] == rows.n_samples, "`n_samples` is wrong")
    require(claim["parameters"] == parameters, "the parameters of the claim are others")
    if paper["bound"] == "ndraw":
        size, point = len(GRID), (parameters["draws"], parameters["erring"])
        require(point in GRID, "draws and erring are not on the published grid")
    require(claim["grid"] == size, "the grid has another size")


def _check_claims(paper: Paper, rows: Rows) -> None:
    (claim,), weights = paper["claims"], paper["weight_integers"]
    if paper["bound"] == "binomial":
        mean = Fraction(_errors(rows, weights), rows.n_samples)
        same = claim["p_hat"] == Fraction(ceil(mean * FINE), FINE)
    else:
        chance = _chance(rows, weights, **paper["parameters"]) + ball(ABOVE)
        same = claim["p_hat"] == 1 if chance > 1 else is_ceiling(claim["p_hat"], chance, FINE)
    require(same, "`p_hat` is not the mean of the evidence")
    price = is_ceiling(claim["complexity"], nats(paper, claim), FINE)
    require(price, "`complexity` is not that of weights, prior and share")
    require(is_limit(paper, claim), "`value` is not the tightest that is proved")


def _errors(rows: Rows, weights: list[int]) -> int:
    """Return on how many rows the label has not more weight than every other label."""
    errors = 0
    for said, times in rows.said:
        mass: Counter[int] = Counter({0: 0, -1: -1})
        for place, weight in zip(said, weights, strict=True):
            mass[place] += weight
        errors += times * (mass.pop(0) <= max(mass.values()))
    return errors


def _ways(n: int, k: int) -> list[int]:
    """Return C(n, j) for j = k .. n, of which n + 1 calls of `comb` would take seconds."""
    ways = [comb(n, k)]
    for j in range(k, n):
        ways.append(ways[-1] * (n - j) // (j + 1))
    return ways


def _chance(rows: Rows, weights: list[int], draws: Fraction, erring: Fraction) -> Any:
    """Return the mean of P(Bin(draws, Z) >= erring), Z the weight that errs on a row."""
    n, k, masses = int(draws), int(erring), Counter[int]()
    for said, times in rows.said:
        masses[sum(w for place, w in zip(said, weights, strict=True) if place)] += times
    flint, total = import_module("flint"), ball(masses.pop(UNIT, 0))
    with flint.ctx.workprec(192):
        ways = flint.arb_poly(_ways(n, k))
        for mass, times in masses.items():
            gap = k * UNIT - n * mass
            if 2 * gap**2 > 90 * n * UNIT**2:  # Hoeffding: within e^-90 < 2^-129 of 0 or 1
                total += times * flint.arb(int(gap < 0), 2.0**-129)
                continue
            p, q = ball(Fraction(mass, UNIT)), ball(Fraction(UNIT - mass, UNIT))
            total += times * p**k * q ** (n - k) * ways(p / q)
    return total / rows.n_samples


def _check_risk(paper: Paper, _: Rows) -> None:
    risk = paper["claims"][0]["value"]
    if paper["bound"] == "ndraw":
        risk /= _exact_chance(coalition(paper["weight_integers"]), **paper["parameters"])
    proved = min(ONE, Fraction(ceil(risk * UNIT), UNIT))
    require(paper["exact_risk"] == proved, "the claimed risk is not what is proved")


def _exact_chance(c: Fraction, draws: Fraction, erring: Fraction) -> Fraction:
    """Return P(Bin(draws, c) >= erring), rounded down to a multiple of 2^-80."""
    (over, under), n, k = c.as_integer_ratio(), int(draws), int(erring)
    total, power = 0, over**k
    for ways in _ways(n, k):
        total, power = total * (under - over) + ways * power, power * over
    return Fraction((total << 80) // under**n, 2**80)


CHECKS: dict[str, Callable[[Paper, Any], None]] = {
    "SHA-256, voters and sizes of the evidence": _check_evidence,
    "weights and prior": _check_weights,
    "assumptions, events, inequalities, ledger of delta": _check_claimed,
    "numbers of rows, parameters and grids": _check_parameters,
    "empirical mean, complexity and limit": _check_claims,
    "claimed risk": _check_risk,
}
