"""What the page says. The template writes it, and escapes all of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from pacvote._files import atomic_write
from pacvote._text import shown
from pacvote.bounds import BOUNDS
from pacvote.certificate import percent_up
from pacvote.counts import PairCounts, count
from pacvote.displays import BARS, BoundsDisplay, TandemDisplay, WeightsDisplay
from pacvote.planning import BESIDE, beside
from pacvote.report.pictures import Axis, Heat, curve
from pacvote.verify import Verdict, verify

if TYPE_CHECKING:
    from pacvote.certificate import Certificate
    from pacvote.exact import ExactClaim
    from pacvote.votes import Votes

FEW = 12  # voters whose pairs fit in a table
SHOWN = 10  # of many voters or pairs

_QUANTITIES: Final[Mapping[str, str]] = {
    "gibbs": "a voter drawn by the weights errs",
    "tandem": "two voters drawn by the weights both err",
    "none_errs": "neither of two drawn voters errs",
    "one_errs": "exactly one of two drawn voters errs",
    "mu_tandem": "the tandem loss shifted by mu",
    "mu_variance": "the variance of that loss",
    "vote": "the vote errs",
    "drawn": "too many of the voters drawn by the weights err",
}
_KINDS: Final[Mapping[str, str]] = {
    "certificate": "this certificate",
    "bound": "another bound, at the same weights",
    "voter": "one voter instead of a vote",
    "drawn": "what weighing starts from",
    "held out": "exact limit, of rows that played no part",
}


def save(
    path: str | os.PathLike[str],
    certificate: Certificate,
    evidence: Votes | PairCounts,
    *,
    held_out: tuple[int, int] | None = None,
    verdict: Verdict | None = None,
) -> None:
    """Write the page that `render` returns; the file appears whole or not at all."""
    page = render(certificate, evidence, held_out=held_out, verdict=verdict)
    atomic_write(path, page.encode())


def render(
    certificate: Certificate,
    evidence: Votes | PairCounts,
    *,
    held_out: tuple[int, int] | None = None,
    verdict: Verdict | None = None,
) -> str:
    """Return a certificate and what it rests on as one HTML page.

    Parameters
    ----------
    certificate : Certificate
        What is claimed.
    evidence : Votes or PairCounts
        From which it was issued.
    held_out : (int, int), default=None
        Rows that played no part in the vote, and how many of them it got wrong.
    verdict : Verdict, default=None
        The checker's answer; by default it is asked.

    Returns
    -------
    str
        A page without scripts that loads nothing from elsewhere. Names of voters are escaped.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pacvote.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": shown,
        "short": short,
        "percent": percent,
        "kept": lambda text: str(text).replace(" %", "\N{NO-BREAK SPACE}%"),  # on one line
        "grouped": "{:,}".format,
    }
    counts = evidence if isinstance(evidence, PairCounts) else count(evidence)
    found = verify(certificate, evidence) if verdict is None else verdict
    scale = BoundsDisplay.from_certificate(certificate, evidence, held_out=held_out)
    page = environment.get_template("page.html.jinja")
    return page.render(
        certificate=certificate,
        verdict=found,
        assumptions=list(dict.fromkeys((*certificate.assumptions, *found.unchecked))),
        about=_about(certificate),
        ledger=[_Entry.of(claim) for claim in certificate.claims],
        spent=certificate.delta * certificate.selection,
        beside=beside(certificate, counts),
        beside_head=BESIDE,
        **_risk(scale),
        **_voters(certificate, counts),
        **_pairs(counts),
    )


def short(name: str) -> str:
    """Return a name without its middle where it is very long."""
    return name if len(name) <= 60 else f"{name[:40]}…{name[-19:]}"


def percent(risk: float | Fraction, side: str = "") -> str:
    """Return a percentage with two decimals: a limit is rounded to the side that always holds."""
    exact = Fraction(risk)
    if side == "upper":
        return percent_up(exact)
    hundredths = floor(exact * 10_000) if side == "lower" else round(exact * 10_000)
    return f"{hundredths / 100:.2f} %"


def _about(certificate: Certificate) -> dict[str, str]:
    bound = BOUNDS.get(certificate.bound)
    lines = (bound.__doc__ or "").strip().splitlines() if bound else []
    return {
        "confidence": f"{floor((1 - certificate.delta) * 10**6) / 10**4:.6g} %",
        "theorem": re.sub(r" \(Thm[^)]*\)|\.$", "", lines[0]) if lines else certificate.bound,
        "delta": f"{float(certificate.delta):.6g}",
    }


@final
@dataclass(frozen=True, slots=True)
class _Entry:
    """A claim as the ledger shows it."""

    claim: ExactClaim
    words: str
    share: str
    complexity: str

    @classmethod
    def of(cls, claim: ExactClaim) -> _Entry:
        words = _QUANTITIES.get(claim.quantity, claim.quantity.replace("_", " "))
        parameters = ", ".join(f"{name} {float(x):.4g}" for name, x in claim.parameters.items())
        nats = f"{ceil(claim.complexity * 100) / 100:.2f}"
        words += f" ({parameters})" if parameters else ""
        return cls(claim, words, f"{float(claim.share):.6g}", nats)


def _risk(scale: BoundsDisplay) -> dict[str, Any]:
    ends = [x for line in scale.lines for x in (line.measured, line.limit) if x is not None]
    axis = Axis.to(max(ends))
    rows = [
        {
            "line": line,
            "kind": _KINDS[line.kind],
            "measured": None if line.measured is None else axis.place(line.measured),
            "limit": None if line.limit is None else axis.place(line.limit),
        }
        for line in scale.lines
    ]
    return {"axis": axis, "risks": rows}


def _voters(certificate: Certificate, counts: PairCounts) -> dict[str, Any]:
    weights = WeightsDisplay.from_counts(counts, certificate.weights, prior=certificate.prior)
    most = float(weights.weights[0])
    voters = [
        {
            "name": counts.voters[voter],
            "integer": certificate.weight_integers[voter],
            "weight": float(weights.weights[place]),
            "width": 100 * float(weights.weights[place]) / most,
            "prior": min(100.0, 100 * float(weights.prior[place]) / most),
            "rows": int(counts.rows[voter]),
            "errors": int(counts.errors[voter]),
        }
        for place, voter in enumerate(weights.order)
    ]
    many = len(voters) > BARS
    return {
        "voters": voters,
        "first_voters": voters[:SHOWN] if many else voters,
        "curve": curve(weights.weights, weights.prior) if many else None,
        "effective": f"{weights.effective:.1f}",
        "n_voters": len(voters),
        "n_without": int((weights.weights == 0).sum()),
    }


def _pairs(counts: PairCounts) -> dict[str, Any]:
    tandem = TandemDisplay.from_counts(counts)
    heat = Heat.of(tandem)
    n = counts.n_voters
    left, right = np.triu_indices(n, 1)
    rates = np.nan_to_num(tandem.tandem[left, right], nan=-1.0)
    worst = np.argsort(-rates, kind="stable")[:SHOWN]
    places = [(int(left[k]), int(right[k])) for k in worst if rates[k] >= 0]
    pairs = [
        {
            "names": [tandem.voters[place] for place in pair],
            "rows": int(counts.pair_rows[tuple(tandem.order[list(pair)])]),
            "errors": int(counts.pair_errors[tuple(tandem.order[list(pair)])]),
        }
        for pair in places
    ]
    return {"heat": heat, "tandem": tandem, "few": n <= FEW, "pairs": pairs}
