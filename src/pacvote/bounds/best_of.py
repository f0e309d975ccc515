"""The least of several bounds, each at a share of delta that was fixed beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NoReturn, final

from pacvote.bounds.base import Bound, Constants, Limits, Outcome, Parameters
from pacvote.bounds.cctnd import CCTandem
from pacvote.bounds.evidence import Moments, Quantity, Sizes
from pacvote.bounds.folds import BestVoter


@final
@dataclass(frozen=True, slots=True)
class BestOf(Bound):
    r"""The least of several bounds, each at a share of delta that was fixed beforehand.

    .. math:: L(\mathrm{MV}_\rho) \le \min_i B_i(\rho, s_i \delta), \qquad \sum_i s_i \le 1.

    A certificate from it is its best member's, at that member's share, and names the others.

    Parameters
    ----------
    constants : {"sharp"}
        Members bring their own.
    members : tuple of Bound
        The bounds; none of them a `BestOf`.
    shares : tuple of Fraction, optional
        What each has of delta; by default all the same.
    slack : Fraction, default=1
        Weights are those of the first member whose least value is at most so many times the least
        of all: members that are liked better stand first.

    Guarantee
    ---------
    With probability at least ``1 - delta`` every member holds at its share, so the least does.
    Members and shares are fixed beforehand. A member for fixed weights is looked at for the
    prior's weights alone.
    """

    constants: Constants = "sharp"
    members: tuple[Bound, ...] = (BestVoter(), CCTandem())
    shares: tuple[Fraction, ...] | None = None
    slack: Fraction = Fraction(1)
    key: ClassVar[str] = "best_of"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = ()

    def __post_init__(self) -> None:
        Bound.__post_init__(self)
        members, shares = self.members, self.shares
        if not isinstance(self.slack, Fraction) or self.slack < 1:
            msg = f"`slack` of `best_of` must be a fraction of 1 or more, but is {self.slack!r}"
            raise ValueError(msg)
        if (
            not isinstance(members, tuple)
            or not members
            or not all(isinstance(m, Bound) for m in members)
        ):
            msg = f"`members` of `best_of` must be a tuple of bound objects, but is {members!r}"
            raise ValueError(msg)
        if any(isinstance(member, BestOf) for member in members):
            msg = "`members` of `best_of` has another `best_of`; list its members instead"
            raise ValueError(msg)
        if shares is None:
            return
        fits = isinstance(shares, tuple) and len(shares) == len(members)
        fits = fits and all(isinstance(s, Fraction) for s in shares)
        if not fits or min(shares) <= 0 or sum(shares) > 1:
            msg = (
                f"`shares` of `best_of` must be {len(members)} fractions above 0 that sum to 1 at "
                f"most, but is {shares!r}"
            )
            raise ValueError(msg)

    def alternatives(self) -> tuple[tuple[Bound, Fraction], ...]:
        """Return the members and their shares of delta."""
        equal = (Fraction(1, len(self.members)),) * len(self.members)
        return tuple(zip(self.members, self.shares or equal, strict=True))

    @property
    def sound(self) -> bool:
        """Whether all members are proven as computed."""
        return all(member.sound for member in self.members)

    @property
    def needs_rows(self) -> bool:
        """Whether a member needs every row, and all voters on it."""
        return any(member.needs_rows for member in self.members)

    def needs_pairs(self, *, unlabelled: bool = False) -> bool:
        """Whether a member needs every pair of voters to share a validation row."""
        return any(member.needs_pairs(unlabelled=unlabelled) for member in self.members)

    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Refused: members look at different moments, and each is evaluated by itself."""
        del moments, sizes, delta, parameters
        _refuse()

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Refused, as in `at`."""
        del limits, parameters, threshold
        _refuse()


def _refuse() -> NoReturn:
    msg = "`best_of` has no formula of its own; evaluate its members"
    raise TypeError(msg)
