"""Exact numbers about votes on shared rows, and what identifies such rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from pacvote._exactmath import DIGITS
from pacvote.bounds.base import Parameters
from pacvote.bounds.evidence import Quantity
from pacvote.bounds.shared import Rows, vote_errors
from pacvote.exact import UNIT, ExactMoments
from pacvote.votes import Votes

ABOVE = Fraction(1, 2**100)  # is added to a mean that no fraction holds, so that it is no tie

_ONE = 1 << 192  # of fixed-point numbers
_CELLS = 1 << 22  # that are held at a time


@final
class ExactRows:
    """What `ExactMoments` is to counts, for votes on shared rows; at one point of a grid."""

    def __init__(
        self, rows: Rows, weights: Sequence[int], prior: Sequence[int], parameters: Parameters
    ) -> None:
        self.rows, self.parameters = rows, parameters
        self.weights = np.array(weights, dtype=np.int64)
        self._moments = ExactMoments(rows.counts, weights, prior)

    def mean(self, quantity: Quantity) -> Fraction:
        """Return the vote's empirical risk, or about the mean chance of too many draws that err."""
        votes = self.rows.votes
        if quantity is Quantity.VOTE:
            return Fraction(vote_errors(votes, self.weights), votes.n_samples)
        errors, times = self.rows.patterns
        masses = np.zeros(len(errors), dtype=np.int64)
        for column, weight in zip(errors.T, self.weights, strict=True):
            masses += np.where(column > 0, weight, 0)
        draws, erring = int(self.parameters["draws"]), int(self.parameters["erring"])
        distinct, where = np.unique(masses, return_inverse=True)
        rows = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(rows, where, times)
        with localcontext(prec=DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX):
            parts = (
                n * _chance(mass, draws, erring)
                for mass, n in zip(distinct.tolist(), rows.tolist(), strict=True)
            )
            mean = Fraction(sum(parts, start=Decimal(0)) / votes.n_samples)
        return min(Fraction(1), mean + ABOVE)

    def divergence(self) -> Decimal:
        """Return KL(rho || pi)."""
        return self._moments.divergence()


def _chance(mass: int, draws: int, erring: int) -> Decimal:
    """Return P(Bin(draws, mass / UNIT) >= erring), by its lesser side."""
    if mass * draws < erring * UNIT:
        return _tail(mass, draws, erring)
    return 1 - _tail(UNIT - mass, draws, draws - erring + 1)


def _tail(mass: int, draws: int, erring: int) -> Decimal:
    """Return P(Bin(draws, mass / UNIT) >= erring) where that many are more than expected."""
    odds = _ONE * mass // (UNIT - mass)
    total = term = _ONE
    for j in range(erring, draws):
        term = (term * odds >> 192) * (draws - j) // (j + 1)
        if not term:
            break
        total += term
    p = Decimal(mass) / UNIT
    return _ways(draws, erring) * p**erring * (1 - p) ** (draws - erring) * total / _ONE


@cache
def _ways(draws: int, erring: int) -> Decimal:
    return Decimal(comb(draws, erring))


def fingerprint_rows(votes: Votes) -> str:
    """Return the SHA-256 of votes on shared rows, whatever their labels are called.

    The voters as JSON; then each different row, in the order of its bytes, and how often it
    occurs, as eight bytes. A row has a number for each voter: 0 where it says the label, else
    the place, from 1, of the first voter that says the same. Numbers are big-endian, and as many
    bytes long as the number of voters needs.
    """
    digest = hashlib.sha256(json.dumps(votes.voters).encode())
    rows, times = np.unique(np.concatenate(list(_said(votes))), return_counts=True)
    for row, n in zip(rows.tolist(), times.tolist(), strict=True):
        digest.update(row + n.to_bytes(8, "big"))
    return digest.hexdigest()


def _said(votes: Votes) -> Any:
    """Yield parts of the rows, each row as one item of bytes."""
    codes, labels, classes = votes.vote_codes, votes.label_codes, votes.classes
    if codes is None or labels is None or classes is None:
        msg = "`votes` must be on shared rows"
        raise ValueError(msg)
    m = votes.n_voters
    width = (m.bit_length() + 7) // 8
    step = max(_CELLS // max(len(classes), m), 1)
    for start in range(0, votes.n_samples, step):
        part, label = codes[start : start + step], labels[start : start + step]
        first = np.zeros((len(part), len(classes)), dtype=">u8")
        rows = np.arange(len(part))
        for voter in reversed(range(m)):
            first[rows, part[:, voter]] = voter + 1
        first[rows, label] = 0
        said: NDArray[Any] = np.take_along_axis(first, part.astype(np.int64), axis=1)
        octets = said.view(np.uint8).reshape(len(part), m, 8)[:, :, 8 - width :]
        yield np.ascontiguousarray(octets).reshape(len(part), -1).view(f"V{m * width}").ravel()
