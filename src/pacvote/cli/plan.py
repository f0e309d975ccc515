"""The command `plan`: how many rows to label."""

from __future__ import annotations

from dataclasses import asdict

from pacvote.cli.screen import Screen
from pacvote.planning import plan as plan_rows


def plan(
    *,
    expected_error: float,
    risk: float | None = None,
    n_rows: int | None = None,
    delta: float = 0.05,
    power: float = 0.8,
    screen: Screen | None = None,
) -> None:
    """Plan a hold-out: how many rows to label for a target, or what the rows there are would buy.

    The certificate itself does not rest on the plan: it holds whatever the error turns out to be.

    Parameters
    ----------
    expected_error
        How often you expect the vote to err.
    risk
        The risk to certify; gives the rows that it takes.
    n_rows
        The rows there are; gives the risk that they certify.
    delta
        Probability with which the certificate may be wrong. For G groups, delta / G.
    power
        Probability with which the rows suffice, if the vote errs as often as expected.
    """
    screen = screen or Screen()
    found = plan_rows(expected_error, risk=risk, n_rows=n_rows, delta=delta, power=power)
    screen.line(str(found))
    if risk is not None:
        screen.line("Every larger number of rows has the power asked for, too.", "dim")
    screen.result({**asdict(found), "delta": float(found.delta), "claim": str(found)})
