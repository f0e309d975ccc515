"""Commands about votes in files: count, certify, verify."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

import pacvote
from pacvote import BOUNDS, Votes
from pacvote._inputs import nearest
from pacvote.bounds.base import Bound
from pacvote.bounds.choice import AUTO, choose
from pacvote.bounds.registry import resolve
from pacvote.certificate import Certificate, percent_up
from pacvote.cli.screen import Screen, check_out, complain, write_report
from pacvote.counts import PairCounts
from pacvote.counts import count as count_pairs
from pacvote.planning import BESIDE, beside
from pacvote.tables import Null, count_table, n_rows, read_votes
from pacvote.verify import verify as verify_evidence


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table of votes mean.

    Parameters
    ----------
    label
        Column of the true labels. All others hold the votes of one voter each.
    null
        What an empty cell of a voter means: `out-of-bag`, not validated on this row, which was
        decided without a look at the row; or `error`. Without it, empty cells are refused.
    ignore
        A column that is neither; may be given several times.
    """

    label: str | None = None
    null: Null | None = None
    ignore: tuple[str, ...] = ()


BoundKey = Annotated[
    str,
    Parameter(
        help=f"One of {', '.join(BOUNDS)}; or auto, by which voters have which rows. Choose before "
        "looking: the least of several is no certificate."
    ),
]


def read_counts(path: Path, columns: Columns, screen: Screen) -> PairCounts:
    """Load counts, or count a table of votes."""
    if is_counts(path):
        for option, value in (("label", columns.label), ("null", columns.null)):
            if value is not None:
                msg = f"`{option}` is about tables, but {str(path)!r} holds counts; leave it out"
                raise ValueError(msg)
        return PairCounts.load(path)
    return count_votes(path, columns, screen)


def count_votes(
    path: Path, columns: Columns, screen: Screen, checkpoint: Path | None = None
) -> PairCounts:
    """Count a table of votes in a file or a folder."""
    total = n_rows(path)
    with screen.working(f"counting {path.name}", total) as advance:
        counts = count_table(
            path,
            columns.label,
            null=columns.null,
            ignore=columns.ignore,
            progress=advance,
            checkpoint=checkpoint,
        )
    return _doubted(counts)


def _doubted(counts: PairCounts) -> PairCounts:
    for voter in np.flatnonzero((counts.rows > 0) & (counts.errors == counts.rows)):
        name = counts.voters[voter]
        complain(f"note: {name!r} is wrong in every row; does this column hold predicted labels?")
    return counts


def read_evidence(path: Path, columns: Columns, screen: Screen, bound: str) -> Votes | PairCounts:
    """Load counts, or the votes themselves for a bound that needs all voters on every row."""
    if bound == AUTO:
        counts = read_counts(path, columns, screen)
        if is_counts(path) or not counts.shared:
            return counts
    elif not resolve(bound).needs_rows:
        return read_counts(path, columns, screen)
    if is_counts(path):
        msg = f"`bound` {bound} needs every row, but {str(path)!r} holds counts; give the votes"
        raise ValueError(msg)
    with screen.working(f"reading {path.name}"):
        return read_votes(path, columns.label, null=columns.null, ignore=columns.ignore)


def is_counts(path: Path) -> bool:
    """Return whether a file is what `PairCounts.save` writes."""
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "header.npy" in archive.namelist()


def count(
    votes: Path,
    /,
    *,
    columns: Columns | None = None,
    out: Path,
    checkpoint: Path | None = None,
    dask: str | None = None,
    screen: Screen | None = None,
) -> None:
    """Count votes: all that a certificate needs, and no row of data.

    Rows are read a part at a time: the file may be larger than the memory. For 100 voters and
    millions of rows, Parquet took up to 0.5 GB and CSV up to 1.4 GB.

    Parameters
    ----------
    votes
        Table of votes: .csv, .tsv, .parquet, .arrow, .feather or .npz, or a folder of such files.
    out
        File of counts to write, .npz. Counts of parts of the rows add up.
    checkpoint
        File to keep what is counted so far in. Stopped at any moment, the same command goes on
        from there; it is removed when the counts are written.
    dask
        Count on a Dask cluster: the address of its scheduler, such as `tcp://host:8786`, or
        `local` for one worker process per core of this machine.
    """
    screen, columns = screen or Screen(), columns or Columns()
    _check_places(votes, out, checkpoint, dask)
    if dask is not None:
        counts = count_on_cluster(votes, columns, screen, dask)
    elif checkpoint is not None:
        counts = count_votes(votes, columns, screen, checkpoint)
    else:
        counts = read_counts(votes, columns, screen)
    counts.save(out)
    if checkpoint is not None:
        checkpoint.unlink()
    screen.show(_counted(counts))
    screen.files([("Counts", out)])
    screen.next("pacvote", "certify", out, "--out", out.with_name("certificate.json"))
    screen.result({**summary(counts), "out": str(out)})


def _check_places(votes: Path, out: Path, checkpoint: Path | None, dask: str | None) -> None:
    check_out(out, votes, ".npz")
    if checkpoint is None:
        return
    check_out(checkpoint, votes, checkpoint.suffix.lower(), name="checkpoint")
    if checkpoint.resolve() == out.resolve():
        msg = f"`checkpoint` {str(checkpoint)!r} is also `out`; name another file"
        raise ValueError(msg)
    if dask is not None:
        msg = "`checkpoint` and `dask` cannot be combined: a cluster counts in no order; drop one"
        raise ValueError(msg)


def count_on_cluster(path: Path, columns: Columns, screen: Screen, address: str) -> PairCounts:
    """Count a table of votes on the workers of a Dask cluster."""
    from pacvote.cluster import connected, count_on_dask

    with screen.working(f"counting {path.name}", n_rows(path)) as advance, connected(address):
        counts = count_on_dask(
            path, columns.label, null=columns.null, ignore=columns.ignore, progress=advance
        )
    return _doubted(counts)


def summary(counts: PairCounts) -> dict[str, Any]:
    """Return what there is to say of counts."""
    risks = counts.errors / counts.rows.clip(1)
    return {
        "n_voters": counts.n_voters,
        "n_single": counts.n_single,
        "n_pair": counts.n_pair,
        "shared": counts.shared,
        "least_error": float(risks.min()),
        "mean_error": float(risks.mean()),
        "largest_error": float(risks.max()),
    }


def _counted(counts: PairCounts) -> Table:
    facts = summary(counts)
    table = Table.grid(padding=(0, 2))
    table.add_row("Voters", f"{counts.n_voters:,}")
    if counts.shared:
        table.add_row("Rows, of all voters", f"{counts.n_single:,}")
    else:
        table.add_row("Rows of a voter, at least", f"{counts.n_single:,}")
        table.add_row("Rows of a pair, at least", f"{counts.n_pair:,}")
    spread = (facts[key] for key in ("least_error", "mean_error", "largest_error"))
    table.add_row("Errors: least, mean, largest", "  ".join(f"{100 * x:.2f} %" for x in spread))
    return table


def certify(
    votes: Path,
    /,
    *,
    columns: Columns | None = None,
    out: Path,
    report: Path | None = None,
    bound: BoundKey = "cctnd",
    delta: float = 0.05,
    weights: Path | None = None,
    screen: Screen | None = None,
) -> None:
    """Weigh the voters, and certify how often their vote errs.

    Parameters
    ----------
    votes
        Counts, or a table of votes: .csv, .tsv, .parquet, .arrow, .feather or .npz, or a folder
        of such files.
    out
        Certificate to write, .json.
    report
        Page for people to write, .html: what is claimed, what it rests on, and pictures.
    delta
        Probability with which the certificate may be wrong.
    weights
        JSON object of voters and their weights, to be certified as they are. Default: the
        weights that minimise the bound, or equal ones for the bound binomial, whose weights must
        be fixed before the rows are seen.
    """
    screen = screen or Screen()
    check_out(out, votes, ".json")
    if report is not None:
        check_out(report, votes, ".html", name="report")
    evidence = read_evidence(votes, columns or Columns(), screen, bound)
    chosen = None if weights is None else read_weights(weights, evidence.voters)
    used: str | Bound = bound
    if bound == AUTO:
        choice = choose(evidence, weighted=chosen is not None)
        screen.line(str(choice))
        used = choice.bound
    with screen.working("minimising the bound" if chosen is None else "evaluating the bound"):
        certificate = pacvote.certify(evidence, bound=used, delta=delta, weights=chosen)
    certificate.save(out)
    show_certificate(screen, certificate)
    counts = evidence if isinstance(evidence, PairCounts) else count_pairs(evidence)
    show_beside(screen, certificate, counts)
    written = [("Certificate", out)]
    if report is not None:
        write_report(screen, report, certificate, evidence)
        written.append(("Report", report))
    screen.files(written)
    screen.next("pacvote", "verify", out, votes, *_options(columns or Columns()))
    screen.result({**facts_of(certificate), "out": str(out)})


def _options(columns: Columns) -> list[str]:
    options = [("label", columns.label), ("null", columns.null)]
    options += [("ignore", name) for name in columns.ignore]
    return [word for name, value in options if value is not None for word in (f"--{name}", value)]


def read_weights(path: Path, voters: tuple[str, ...]) -> list[float]:
    """Read a JSON object that gives each voter its weight."""
    try:
        weights = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        msg = f"`weights` {str(path)!r} is not JSON: {error}"
        raise ValueError(msg) from error
    if not isinstance(weights, dict):
        msg = f'`weights` {str(path)!r} must hold one object, such as {{"{voters[0]}": 1.0}}'
        raise TypeError(msg)
    for name in [*weights, *voters]:
        if name not in voters:
            near = nearest(name, voters)
            msg = f"`weights` names {name!r}, which is no voter; did you mean {near!r}?"
            raise ValueError(msg)
        if name not in weights:
            msg = f"`weights` has none for voter {name!r}; give each voter one, 0 to leave it out"
            raise ValueError(msg)
        if isinstance(weights[name], bool) or not isinstance(weights[name], int | float):
            msg = f"`weights` gives {name!r} {weights[name]!r}; give a number"
            raise TypeError(msg)
    return [float(weights[name]) for name in voters]


def facts_of(certificate: Certificate) -> dict[str, Any]:
    """Return what a certificate says, for machines; the file says it exactly."""
    return {
        "claim": certificate.claim,
        "choice": certificate.choice,
        "bound": certificate.bound,
        "risk": certificate.risk,
        "confidence": certificate.confidence,
        "n_voters": len(certificate.voters),
        "effective_voters": certificate.effective_voters,
        "assumptions": list(certificate.assumptions),
    }


def show_certificate(screen: Screen, certificate: Certificate) -> None:
    """Print a certificate for people: the claim, the heaviest voters, the assumptions."""
    screen.line(certificate.claim, "bold")
    if certificate.choice:
        screen.line(certificate.choice)
    if certificate.risk >= 0.5:
        says = "nothing" if certificate.risk >= 1 else "little"
        screen.line(
            f"This says {says}: the evidence is too small, or the voters too weak, for this bound.",
            "yellow",
        )
    table = Table.grid(padding=(0, 2))
    table.add_row("Certified risk", f"at most {percent_up(certificate.exact_risk)}")
    n_voters, effective = len(certificate.voters), certificate.effective_voters
    table.add_row("Effective voters", f"{effective:.1f} of {n_voters}")
    table.add_row("Heaviest", Text(certificate.heaviest()))
    screen.show(table, "")
    screen.line("It holds if:")
    screen.points(certificate.assumptions)
    screen.show("")


def show_beside(screen: Screen, certificate: Certificate, counts: PairCounts) -> None:
    """Print what else could be claimed: for comparison, and not to be put together."""
    screen.line(f"{BESIDE}:")
    screen.points(beside(certificate, counts))
    screen.show("")


def _bound_of(path: Path) -> str:
    """Return the bound of a certificate, or nothing where the checker will say what is wrong."""
    try:
        return Certificate.load(path).bound
    except ValueError:
        return ""


def verify(
    certificate: Path,
    evidence: Path,
    /,
    *,
    columns: Columns | None = None,
    screen: Screen | None = None,
) -> int:
    """Check a certificate against its evidence; the exit code is 0 if it holds, 1 if not.

    The checker shares no code with what issued the certificate, and computes with intervals.

    Parameters
    ----------
    certificate
        Certificate, .json.
    evidence
        The counts or the table of votes that it was issued from.
    """
    screen = screen or Screen()
    for path in [certificate] if evidence.is_dir() else [certificate, evidence]:
        with path.open("rb"):  # a file that is not there is misuse, and refutes nothing
            pass
    bound = _bound_of(certificate)
    rows = bound in BOUNDS and BOUNDS[bound]().needs_rows
    given: Path | Votes | PairCounts = evidence
    if rows or not is_counts(evidence):
        given = read_evidence(evidence, columns or Columns(), screen, bound if rows else "fo")
    with screen.working("verifying"):
        verdict = verify_evidence(certificate, given)
    if verdict.ok:
        screen.line(Certificate.load(certificate).claim, "bold")
        screen.line("CERTIFIED: the evidence proves it, if what cannot be checked holds:", "green")
        screen.points(verdict.unchecked)
        screen.next("rely on it for data like these rows; certify anew once the data change")
    else:
        screen.line("REFUTED: " + "; ".join(verdict.reasons), "bold red")
        screen.next("ask for the counts that the certificate was issued from, or certify anew")
    screen.result(
        {
            "ok": verdict.ok,
            "reasons": list(verdict.reasons),
            "checked": list(verdict.checked),
            "unchecked": list(verdict.unchecked),
        }
    )
    return 0 if verdict.ok else 1
