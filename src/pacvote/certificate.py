"""Certificates: a claim about a vote's risk, and all that is needed to check it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacvote import _certificatefile as files
from pacvote._files import atomic_write
from pacvote._text import card, quoted
from pacvote.bounds.base import Bound, Limits, Parameters
from pacvote.bounds.choice import AUTO, choose
from pacvote.bounds.evidence import Floats, Quantity
from pacvote.bounds.registry import Problem, alternatives, exact_delta, resolve, simplex
from pacvote.bounds.shared import Rows
from pacvote.counts import PairCounts, count
from pacvote.exact import (
    UNIT,
    ExactClaim,
    ExactMoments,
    exact_claims,
    exact_parameters,
    to_integers,
)
from pacvote.exact_shared import ExactRows, fingerprint_rows
from pacvote.minimize import minimize
from pacvote.votes import Votes

PROTOCOL = 1

ASSUMPTIONS = (
    "The validation rows and the future rows are independent draws from one distribution: "
    "no groups, no duplicates by construction, no order in time, no drift.",
    "No voter was influenced by the rows it is validated on, labelled or not, in training, "
    "preprocessing, selection or tuning.",
    "Which voter is validated on which row was decided without looking at that row.",
    "The prior, delta, the bound and its constants were fixed before the validation rows were "
    "seen.",
    "The claim is about the hard vote with exactly these weights; ties may fall either way.",
)
FIXED = "The weights of the vote were fixed before the validation rows were seen."
UNLABELLED = (
    "The unlabelled rows are further independent draws from the same distribution, and influenced "
    "no voter in any way."
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """With probability at least 1 - delta, the weighted vote errs on at most ``risk`` of rows.

    Every number is exact: weights and prior are integers over a common denominator, limits and
    shares of delta are fractions. Where the claim is one of several, ``selection`` is the share
    of delta that it was given beforehand, and ``selected_from`` names them. ``save`` writes
    JSON; equal certificates give equal bytes.
    """

    bound: str
    constants: str
    exact_risk: Fraction
    delta: Fraction
    selection: Fraction
    selected_from: tuple[str, ...]
    voters: tuple[str, ...]
    weight_integers: tuple[int, ...]
    prior_integers: tuple[int, ...]
    parameters: Mapping[str, Fraction]
    claims: tuple[ExactClaim, ...]
    n_single: int
    n_pair: int
    evidence_sha256: str
    assumptions: tuple[str, ...]
    version: str
    created: str

    @property
    def risk(self) -> float:
        """The claimed limit on the vote's risk, a float above no smaller one."""
        return float(self.exact_risk)

    @property
    def confidence(self) -> float:
        """1 - delta."""
        return float(1 - self.delta)

    @property
    def weights(self) -> Floats:
        """The weights of the vote, exactly those that the claim is about."""
        return np.array(self.weight_integers, dtype=np.float64) / UNIT

    @property
    def weight_numerators(self) -> NDArray[np.int64]:
        """The weights as integers: with them a tie is a tie."""
        return np.array(self.weight_integers, dtype=np.int64)

    @property
    def prior(self) -> Floats:
        """The prior of the vote."""
        return np.array(self.prior_integers, dtype=np.float64) / sum(self.prior_integers)

    @property
    def ledger(self) -> dict[str, Fraction]:
        """What each event spends of delta; claims of one event are paid for once."""
        return {claim.event: claim.share for claim in self.claims}

    @property
    def claim(self) -> str:
        """What is claimed, in one sentence, without the assumptions."""
        return (
            f"{with_confidence(self.delta)} this weighted vote of {len(self.voters)} "
            f"voters errs on at most {percent_up(self.exact_risk)} of future data "
            f"(bound {self.bound!r})."
        )

    @property
    def effective_voters(self) -> float:
        """How many equal weights would be as concentrated as these: 1 / sum of squares."""
        return float(1 / (self.weights @ self.weights))

    def heaviest(self, most: int = 3) -> str:
        """Return the names and weights of the heaviest voters as text."""
        order = np.argsort(-self.weights, kind="stable")[:most]
        return ", ".join(f"{quoted(self.voters[v])} {self.weights[v]:.3f}" for v in order)

    def _repr_html_(self) -> str:
        facts = {
            "Bound": f"{self.bound}, constants {self.constants}",
            "Voters": f"{len(self.voters):,}, {self.effective_voters:.1f} effective",
            "Heaviest": self.heaviest(),
            "Validation rows": f"{self.n_single:,} of each voter at least, "
            f"{self.n_pair:,} of each pair",
            "Evidence": f"SHA-256 {self.evidence_sha256}",
        }
        return card(f"{self.claim} {self.choice}".rstrip(), facts, "It holds if", self.assumptions)

    @property
    def choice(self) -> str:
        """What the claim was chosen among and has paid for, in one sentence; or nothing."""
        if self.selection == 1 and not self.selected_from:
            return ""
        names = ", ".join(quoted(name) for name in self.selected_from)
        among = f": {names}" if names else ""
        n = self.selection.denominator
        if self.selection.numerator == 1 and len(self.selected_from) in (0, n):
            return f"It is one of {n} candidates fixed beforehand, at delta/{n}{among}."
        return (
            f"It is one of several candidates fixed beforehand, at {self.selection} delta{among}."
        )

    def __str__(self) -> str:
        choice = [self.choice] if self.choice else []
        assumed = [f"- {assumption}" for assumption in self.assumptions]
        return "\n".join([self.claim, *choice, "Assuming:", *assumed])

    def to_json(self) -> str:
        """Return the certificate as text in its canonical form."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return files.to_json(content, PROTOCOL)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a JSON file; the file appears whole or not at all."""
        atomic_write(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` has written; ValueError for anything else."""
        return cls(**files.from_json(Path(path).read_bytes(), PROTOCOL))


def certify(
    evidence: Votes | PairCounts,
    *,
    bound: str | Bound = "cctnd",
    delta: float | Fraction = 0.05,
    weights: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    selection: float | Fraction = 1,
    selected_from: Sequence[str] = (),
) -> Certificate:
    """Issue a certificate for a weighted vote.

    Parameters
    ----------
    evidence : Votes or PairCounts
        The validation rows, counted or to be counted. ``binomial`` and ``ndraw`` need Votes.
    bound : str or Bound, default="cctnd"
        A key of ``BOUNDS`` or a bound object; it must be sound. With "auto" the kind of rows
        decides, never what they hold: see `pacvote.bounds.choose`. The reason is printed.
    delta : float or Fraction, default=0.05
        Probability with which the certificate may be wrong.
    weights : array-like of shape (n_voters,), default=None
        Weights to certify; by default those that minimise the bound, and the prior for
        ``binomial``, whose weights must not depend on the rows. They are rounded to multiples of
        2^-40, and the certificate is about the rounded ones.
    prior : array-like of shape (n_voters,), default=None
        Weights fixed before the validation rows were seen; uniform by default.
    selection : float or Fraction, default=1
        Share of delta for this claim, where it is chosen among several by the same rows: fixed
        beforehand, like the shares of the others, which together with it are at most 1.
    selected_from : sequence of str, default=()
        Names of all that it is chosen among, for the reader of the certificate.

    Returns
    -------
    Certificate

    Guarantee
    ---------
    Under the certificate's ``assumptions``, the probability over the validation rows that it
    claims too little is at most ``delta``.
    """
    if bound == AUTO:
        if isinstance(evidence, Votes) and not evidence.shared:
            evidence = count(evidence)
        choice = choose(evidence, weighted=weights is not None)
        print(choice, file=sys.stderr)
        bound = choice.bound
    chosen, delta, selection = _proven(bound), _short_delta(delta), _selection(selection)
    prior_integers = _prior_integers(prior, evidence.n_voters)
    rounded = np.array(prior_integers, dtype=np.float64) / sum(prior_integers)
    if isinstance(evidence, Votes) and not chosen.needs_rows:
        evidence = count(evidence)
    if weights is None:
        weights = minimize(chosen, evidence, delta=delta * selection, prior=rounded).weights
    integers = to_integers(simplex("weights", weights, evidence.n_voters))
    members = alternatives(chosen, at_prior=integers == to_integers(rounded))
    names = tuple(member.key for member, _ in chosen.alternatives())
    names = (*map(str, selected_from), *(names if len(names) > 1 else ()))
    certificates = [
        _certify(
            Problem.of(member, evidence, delta * selection * share, rounded),
            integers,
            prior_integers,
            (selection * share, names),
        )
        for member, share in members
    ]
    return min(certificates, key=lambda certificate: certificate.exact_risk)


def _certify(
    problem: Problem,
    integers: tuple[int, ...],
    prior_integers: tuple[int, ...],
    choice: tuple[Fraction, tuple[str, ...]],
) -> Certificate:
    chosen = problem.bound
    outcome = problem.outcome(np.array(integers, dtype=np.float64) / UNIT, {})
    moments = _exact_moments(problem, integers, prior_integers, outcome.parameters)
    claims = exact_claims(outcome.witnesses, moments)
    limits: Limits = {(claim.quantity, claim.side): claim.value for claim in claims}
    threshold = chosen.threshold(integers)
    parameters = exact_parameters(chosen, limits, outcome.parameters, threshold)
    value = chosen.formula(limits, parameters, threshold)
    risk = min(Fraction(1), Fraction(ceil(value * UNIT), UNIT))
    return _issue(problem, risk, integers, prior_integers, parameters, claims, choice)


def _exact_moments(
    problem: Problem, weights: Sequence[int], prior: Sequence[int], parameters: Parameters
) -> ExactMoments | ExactRows:
    if isinstance(problem.evidence, Rows):
        return ExactRows(problem.evidence, weights, prior, parameters)
    return ExactMoments(problem.evidence.counts, weights, prior)


def vacuous(
    counts: PairCounts,
    *,
    bound: str | Bound = "cctnd",
    delta: float | Fraction = 0.05,
    prior: ArrayLike | None = None,
    selection: float | Fraction = 1,
) -> Certificate:
    """Issue the certificate that claims nothing: risk 1, the prior's weights.

    For evidence that bears no bound, such as a pair of voters without a common row.
    """
    prior_integers = _prior_integers(prior, counts.n_voters)
    total = sum(prior_integers)
    rounded = np.array(prior_integers, dtype=np.float64) / total
    delta, selection = _short_delta(delta), _selection(selection)
    chosen, part = _proven(bound).alternatives()[0]
    selection *= part
    if chosen.needs_rows:
        msg = f"`bound` {chosen.key!r} claims something of any rows; use `certify`"
        raise TypeError(msg)
    problem = Problem.unchecked(chosen, counts, delta * selection, rounded)
    choice = selection, ()
    return _issue(problem, Fraction(1), to_integers(rounded), prior_integers, {}, (), choice)


def _proven(bound: str | Bound) -> Bound:
    chosen = resolve(bound)
    for member, _ in chosen.alternatives():
        if member.sound:
            continue
        msg = (
            f"`bound` {member.key!r} with constants={member.constants!r} is not proven, so no "
            'certificate is issued from it; use constants="sharp"'
        )
        raise ValueError(msg)
    return chosen


def _short_delta(delta: float | Fraction) -> Fraction:
    """Return delta, unless the file or 60 digits are too short for it."""
    share, digits = exact_delta(delta), files.LONGEST_NUMBER - 50
    if share.denominator >= 10**digits or 1 - share < Fraction(1, 2**60):
        msg = f"`delta` must have at most {digits} digits and be at most 1 - 2^-60"
        raise ValueError(msg)
    return share


def _selection(share: float | Fraction) -> Fraction:
    exact = Fraction(1) if share == 1 else exact_delta(share, "selection")
    if exact.denominator >= 10**20:
        msg = f"`selection` must have at most 20 digits, but is {share!r}"
        raise ValueError(msg)
    return exact


def _prior_integers(prior: ArrayLike | None, n_voters: int) -> tuple[int, ...]:
    return (1,) * n_voters if prior is None else to_integers(simplex("prior", prior, n_voters))


def _issue(
    problem: Problem,
    risk: Fraction,
    weights: tuple[int, ...],
    prior: tuple[int, ...],
    parameters: Mapping[str, Fraction],
    claims: tuple[ExactClaim, ...],
    choice: tuple[Fraction, tuple[str, ...]],
) -> Certificate:
    evidence, counts = problem.evidence, problem.evidence.counts
    return Certificate(
        problem.bound.key,
        problem.bound.constants,
        risk,
        problem.delta / choice[0],
        *choice,
        counts.voters,
        weights,
        prior,
        parameters,
        claims,
        counts.n_single,
        counts.n_pair,
        fingerprint_rows(evidence.votes) if isinstance(evidence, Rows) else fingerprint(counts),
        _assumptions(problem.bound, claims),
        importlib.metadata.version("pacvote"),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _assumptions(bound: Bound, claims: Sequence[ExactClaim]) -> tuple[str, ...]:
    """Return what every certificate assumes, and what these claims assume besides."""
    unlabelled = any(claim.quantity == Quantity.DISAGREEMENT.value for claim in claims)
    return ASSUMPTIONS + (FIXED,) * bound.for_fixed_weights + (UNLABELLED,) * unlabelled


def fingerprint(counts: PairCounts) -> str:
    """Return the SHA-256 of the counts: the voters as JSON, then three int64 matrices.

    With unlabelled rows, the matrix of disagreements and the number of those rows follow.
    """
    digest = hashlib.sha256(json.dumps(counts.voters).encode())
    for array in (counts.pair_rows, counts.pair_errors, counts.left_errors):
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    if counts.disagreements is not None:
        for more in (counts.disagreements, np.array(counts.n_unlabelled)):
            digest.update(np.ascontiguousarray(more, dtype="<i8").tobytes())
    return digest.hexdigest()


def percent_up(risk: Fraction) -> str:
    """Return a percentage with two decimals, rounded up: never less than is claimed."""
    return f"{ceil(risk * 10_000) / 100:.2f} %"


def with_confidence(delta: Fraction) -> str:
    """Return how sure a claim is, its percentage rounded down."""
    return f"With {floor((1 - delta) * 10**6) / 10**4:.6g} % confidence"
