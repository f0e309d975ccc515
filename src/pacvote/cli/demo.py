"""The command `demo`: real data, from training to a checked certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from rich.box import ASCII, ROUNDED
from rich.table import Table

from pacvote import Certificate, PairCounts, certify
from pacvote.bounds.folds import least_limit
from pacvote.certificate import percent_up
from pacvote.cli.scale import Row, scale
from pacvote.cli.screen import Clock, Screen, whole, write_report
from pacvote.cli.votes import facts_of
from pacvote.concentration import binomial_upper
from pacvote.datasets import load_pendigits
from pacvote.verify import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DECLARED = "cctnd"  # named before any row is looked at: a choice by results would have to be paid
COMPARED = ("tnd", "fo")  # to see beside it
DELTA = Fraction(1, 20)
N_TREES = 100


@final
@dataclass(frozen=True, slots=True)
class Line:
    """A vote: what is certified of it, if anything, and how it did on the rows set aside."""

    key: str
    name: str
    risk: Fraction | None
    test_error: float
    effective_voters: float


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """All that the demo found."""

    lines: tuple[Line, ...]
    certificate: Certificate
    counts: PairCounts
    n_train: int
    n_test: int
    fit_seconds: float
    weigh_seconds: float


def demo(*, seed: int = 0, out: Path = Path("demo"), screen: Screen | None = None) -> int:
    """Train, weigh, certify and verify on real data that ships with pacvote.

    Parameters
    ----------
    seed
        Of the split and of the trees.
    out
        Directory for the certificate, the counts that it rests on, and a report for the browser.
    """
    clock, screen = Clock(), screen or Screen()
    if not 0 <= seed < 2**32:
        msg = f"`seed` must be from 0 to 2^32 - 1, but is {seed}"
        raise ValueError(msg)
    names = ("certificate.json", "counts.npz", "report.html")
    with whole(out) as part:
        outcome = compute(seed, screen)
        certificate, counts, report = (part / name for name in names)
        outcome.certificate.save(certificate)
        outcome.counts.save(counts)
        checking = Clock()
        with screen.working("verifying"):
            verdict = verify(certificate, counts)
        errors = round(outcome.lines[0].test_error * outcome.n_test)
        aside = outcome.n_test, errors
        write_report(screen, report, outcome.certificate, outcome.counts, held_out=aside)
    certificate, counts, report = (out / name for name in names)
    screen.show(*_story(outcome), _table(outcome, screen), *_picture(outcome, screen))
    screen.line(outcome.certificate.claim, "bold")
    if verdict.ok:
        screen.line(
            f"Verified from the counts, with intervals, in {checking.seconds:.1f} s.", "green"
        )
    else:
        screen.line("NOT VERIFIED: " + "; ".join(verdict.reasons), "bold red")
    screen.show("", *_caveats(outcome))
    screen.files([("Certificate", certificate), ("Counts", counts), ("Report", report)])
    screen.line(f"{clock.seconds:.1f} s in all.", "dim")
    screen.next("pacvote", "verify", certificate, counts)
    screen.result({**_facts(outcome), "verified": verdict.ok, "out": str(out), "seed": seed})
    return 0 if verdict.ok else 1


def compute(seed: int, screen: Screen) -> Outcome:
    """Bag trees on four fifths of the rows, certify their votes, and try them on the rest."""
    clock = Clock()
    with screen.working(f"bagging {N_TREES} trees on handwritten digits"):
        from pacvote.ensemble import MajorityVoteClassifier  # scikit-learn takes its time

        X, y = load_pendigits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(y))  # without a look at the labels
        test, train = np.split(order, [len(y) // 5])
        clock = Clock()
        vote = MajorityVoteClassifier(
            n_estimators=N_TREES, bound=DECLARED, delta=DELTA, n_jobs=-1, random_state=seed
        ).fit(X[train], y[train])
        fit_seconds, clock = clock.seconds, Clock()
    with screen.working("weighing them by each bound"):
        counts, said = vote.counts_, vote.votes(X[test])
        keys = (DECLARED, *COMPARED)
        certificates = [certify(counts, bound=key, delta=DELTA) for key in keys]
        lines = [_line_of(certificate, said, y[test]) for certificate in certificates]
        lines += [_best_tree(counts, said, y[test]), _uniform(said, y[test])]
        lines.append(_held_out(lines[0], len(test)))
    return Outcome(
        tuple(lines), certificates[0], counts, len(train), len(test), fit_seconds, clock.seconds
    )


def test_error(said: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]) -> float:
    """Return how often the weighted vote errs; a tie goes to the first class."""
    classes = np.unique(said)
    mass = np.stack([(said == label) @ weights for label in classes], axis=1)
    return float(np.mean(classes[mass.argmax(axis=1)] != y))


def _line_of(certificate: Certificate, said: NDArray[Any], y: NDArray[Any]) -> Line:
    return Line(
        certificate.bound,
        certificate.bound,
        certificate.exact_risk,
        test_error(said, y, certificate.weight_numerators),
        certificate.effective_voters,
    )


def _uniform(said: NDArray[Any], y: NDArray[Any]) -> Line:
    equal = np.ones(said.shape[1], dtype=np.int64)
    return Line("uniform", "equal weights", None, test_error(said, y, equal), float(len(equal)))


def _best_tree(counts: PairCounts, said: NDArray[Any], y: NDArray[Any]) -> Line:
    """Return the tree of the least limit; each has its share of delta, so that all limits hold."""
    best, limit = least_limit(counts, None, DELTA)
    error = float(np.mean(said[:, best] != y))
    return Line("best_tree", "best single tree", Fraction(limit), error, 1.0)


def _held_out(declared: Line, n_test: int) -> Line:
    """Return what rows that played no part prove of the declared vote: an exact limit."""
    errors = round(declared.test_error * n_test)
    limit = Fraction(binomial_upper(n_test, errors, DELTA))
    return replace(declared, key="held_out", name=f"{DECLARED}, rows aside", risk=limit)


def _story(outcome: Outcome) -> Sequence[str]:
    counts = outcome.counts
    return (
        "",
        "[bold]pacvote demo[/]  Pendigits: 10,992 handwritten digits, ten classes",
        "",
        f"{counts.n_voters} trees bagged on {outcome.n_train:,} rows in {outcome.fit_seconds:.1f} "
        f"s. Each is validated on the rows outside its bag, at least {counts.n_single:,}: a "
        f"certificate needs no label set aside. {outcome.n_test:,} rows are aside, to see here how "
        "often the votes do err.",
        "",
    )


def _table(outcome: Outcome, screen: Screen) -> Table:
    box = ASCII if screen.ascii_only else ROUNDED
    table = Table(box=box, caption_justify="left", caption=_caption(outcome))
    table.add_column("Vote, weighted by")
    for title in ("Certified risk", "Test error", "Effective voters"):
        table.add_column(title, justify="right")
    for position, line in enumerate(outcome.lines):
        declared = position == 0
        table.add_row(
            f"{line.name} (declared)" if declared else line.name,
            "" if line.risk is None else f"<= {percent_up(line.risk)}",
            f"{100 * line.test_error:.2f} %",
            f"{line.effective_voters:.1f}",
            style="bold" if declared else "",
            end_section=declared or line.key == "best_tree",
        )
    return table


def _caption(outcome: Outcome) -> str:
    return (
        f"Each limit holds with 95 % confidence on its own. {DECLARED} was declared beforehand "
        "and is the certificate; the least of several, taken afterwards, is none at 95 %. "
        f"Weighed, all of them, in {outcome.weigh_seconds:.1f} s."
    )


def _picture(outcome: Outcome, screen: Screen) -> Sequence[Any]:
    rows = [
        Row(line.name, line.test_error, None if line.risk is None else float(line.risk))
        for line in outcome.lines
    ]
    ascii_only = screen.ascii_only
    key = (
        "o error on test rows   | certified" if ascii_only else "● error on test rows   ┤ certified"
    )
    picture = scale(rows, screen.console.width, ascii_only=ascii_only)
    return "", picture, f"[dim]{' ' * 20}{key}[/]", ""


def _caveats(outcome: Outcome) -> Sequence[str]:
    declared, aside = outcome.lines[0], outcome.lines[-1]
    best = next(line for line in outcome.lines if line.key == "best_tree")
    words = (
        "[bold]Not promised:[/] anything about other people's handwriting, about data that "
        "drift, about one digit. A certificate is an upper limit; the error itself is usually far "
        f"below it, as the {100 * declared.test_error:.2f} % above."
    )
    if best.risk is not None and declared.risk is not None and best.risk < declared.risk:
        words += (
            " One tree alone has the lower limit although it errs more often: a vote's limit is "
            "reached by looser inequalities."
        )
    if aside.risk is not None:
        words += (
            f" Who can spare {outcome.n_test:,} labels proves more with them: at most "
            f"{percent_up(aside.risk)} (last line)."
        )
    return words, ""


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "certificate": facts_of(outcome.certificate),
        "votes": [
            {
                "weights": line.key,
                "declared": line.key == DECLARED,
                "certified_risk": None if line.risk is None else float(line.risk),
                "test_error": line.test_error,
                "effective_voters": line.effective_voters,
            }
            for line in outcome.lines
        ],
        "n_train": outcome.n_train,
        "n_test": outcome.n_test,
        "fit_seconds": outcome.fit_seconds,
        "weigh_seconds": outcome.weigh_seconds,
    }
