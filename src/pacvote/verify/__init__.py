"""Check a certificate against its evidence, sharing no code with what issued it.

Exact where numbers are rational, in ball arithmetic (Arb) where they are not. `files` reads,
`proofs` holds the inequalities, `checks` what each bound claims, `shared` too where all voters
share the rows: a new bound needs its claims and its formula there and, if that is new, its
inequality.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any, final

from .checks import ASSUMPTIONS, CHECKS
from .files import count, parse
from .shared import BOUNDS as OF_ROWS
from .shared import CHECKS as CHECKS_OF_ROWS
from .shared import rows_of

OBSERVED = "The evidence is what was observed."
BITS = 2048  # of the balls; numbers that these cannot tell apart are refused


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a certificate is what its evidence proves, and what that answer rests on."""

    ok: bool
    reasons: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = (*ASSUMPTIONS, OBSERVED)

    def __bool__(self) -> bool:
        return self.ok

    def _repr_html_(self) -> str:
        head = "Certified, if what cannot be checked holds:" if self.ok else "Refuted:"
        texts = self.unchecked if self.ok else self.reasons
        items = "".join(f"<li>{escape(text)}</li>" for text in texts)
        return f"<div><p><strong>{head}</strong></p><ul>{items}</ul></div>"


def verify(certificate: Any, evidence: Any) -> Verdict:
    """Check a certificate against the evidence that it claims to rest on; neither is trusted.

    ``certificate``: a path, bytes, JSON text, or what has ``to_json``. ``evidence``: the path of
    a counts file, PairCounts or Votes; Votes for a claim about rows that all voters share. The
    time grows with the square of the number of voters, or with rows times voters.
    """
    for given, names in ((certificate, ["to_json"]), (evidence, ["pair_rows", "error_bits"])):
        known = isinstance(given, str | bytes | os.PathLike)
        if not known and all(getattr(given, name, None) is None for name in names):
            msg = f"give a path, or what has `{'` or `'.join(names)}`, not {type(given).__name__}"
            raise TypeError(msg)
    try:
        flint = import_module("flint")
    except ImportError:
        msg = "`verify` needs python-flint; install it with: pip install 'pacvote[app]'"
        raise ImportError(msg) from None
    checked: list[str] = []
    with flint.ctx.workprec(BITS):
        try:
            paper = parse(certificate)
            of_rows = paper["bound"] in OF_ROWS
            read: Any = rows_of(evidence) if of_rows else count(evidence)
            for name, check in (CHECKS_OF_ROWS if of_rows else CHECKS).items():
                check(paper, read)
                checked.append(name)
        except Exception as error:  # noqa: BLE001 - whatever a hostile file leads to
            reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
            return Verdict(ok=False, reasons=(reason,), checked=tuple(checked))
    unchecked = (*paper["assumptions"], OBSERVED)
    return Verdict(ok=True, reasons=(), checked=tuple(checked), unchecked=unchecked)
