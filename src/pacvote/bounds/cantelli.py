"""The best mu of the Chebyshev-Cantelli inequality, for limits on E[Z^2] and on E[Z]."""

from __future__ import annotations

from fractions import Fraction

from pacvote.concentration import chebyshev_cantelli, chebyshev_cantelli_mu


def best_mu(
    second: float, above: float, below: float, threshold: float, most: float = 1.0
) -> float:
    """Return the mu of the least bound, each formula kept to the region it holds in.

    mu >= 0 goes with the lower limit on E[Z], mu < 0 with the upper one. A limit of the
    threshold or more leaves no mu on its side that beats 0, and limits that contradict each
    other (``second`` below the squared mean) are read as mu = 0. ``most`` bounds mu where the
    limits hold together only up to there.
    """
    candidates = [0.0]
    if below < threshold and second >= below**2:
        mu = chebyshev_cantelli_mu(second, below, threshold)
        candidates.append(min(most, max(0.0, mu)))
    if above < threshold:
        candidates.append(min(0.0, chebyshev_cantelli_mu(second, above, threshold)))
    candidates = [mu for mu in candidates if mu < threshold]
    return min(
        candidates,
        key=lambda mu: chebyshev_cantelli(second, below if mu >= 0 else above, mu, threshold),
    )


def exact_mus(
    second: Fraction,
    above: Fraction,
    below: Fraction,
    threshold: Fraction,
    most: Fraction = Fraction(1),
) -> list[Fraction]:
    """Return 0 and the best mu of either sign, in exact numbers."""
    zero = Fraction(0)
    mus = [zero]
    if below < threshold and second > below**2:
        mus.append(min(most, max(zero, (threshold * below - second) / (threshold - below))))
    if above < threshold:
        mus.append(min(zero, (threshold * above - second) / (threshold - above)))
    return mus


def cantelli(
    second: Fraction, above: Fraction, below: Fraction, mu: Fraction, threshold: Fraction
) -> Fraction:
    """Return the Chebyshev-Cantelli bound at one mu; 1 where the limits contradict each other."""
    over = second - 2 * mu * (below if mu >= 0 else above) + mu * mu
    return over / (threshold - mu) ** 2 if over > 0 else Fraction(1)
