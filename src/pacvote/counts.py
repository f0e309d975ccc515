"""Pair counts: all that first- and second-order bounds need to know of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, final, overload

import numpy as np

from pacvote import _countsfile
from pacvote._inputs import Labels, check_voters, default_voters, read_only, read_table
from pacvote._packing import Source, pack
from pacvote.kernels.base import Engine, kernel
from pacvote.votes import Votes

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Bits = NDArray[np.uint64]
    Matrix = NDArray[np.int64]

MOST_VOTERS = 2**15
_ARRAYS = ("pair_rows", "pair_errors", "left_errors")
_DISAGREEMENTS = "disagreements"  # with unlabelled rows only


@final
@dataclass(frozen=True, slots=True, eq=False)
class PairCounts:
    """How often two voters were validated together, and how often each of them erred there.

    Exact, and additive over rows: ``a + b`` and ``sum(parts)`` count the rows of all parts, so
    rows may stay where they are. Arrays are read-only.

    Parameters
    ----------
    pair_rows : int64 array of shape (n_voters, n_voters)
        Rows on which voters i and j were both validated.
    pair_errors : int64 array of shape (n_voters, n_voters)
        Those of them on which both erred.
    left_errors : int64 array of shape (n_voters, n_voters)
        Those of them on which i erred.
    voters : tuple of str
        A unique name for each voter.
    disagreements : int64 array of shape (n_voters, n_voters), optional
        Unlabelled rows on which voters i and j said different things.
    n_unlabelled : int, default=0
        Number of unlabelled rows, on which all voters voted.
    """

    pair_rows: Matrix
    pair_errors: Matrix
    left_errors: Matrix
    voters: tuple[str, ...]
    disagreements: Matrix | None = None
    n_unlabelled: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "voters", check_voters(self.voters, len(self.voters)))
        shape = (self.n_voters, self.n_voters)
        if not self.n_unlabelled:
            object.__setattr__(self, "disagreements", None)
        for name in self._arrays:
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or (array.dtype, array.shape) != (np.int64, shape):
                given = f"{getattr(array, 'dtype', type(array).__name__)} {np.shape(array)}"
                msg = f"`{name}` must be int64 of shape {shape}, one row per voter, got {given}"
                raise ValueError(msg)
            object.__setattr__(self, name, read_only(array))
        if not self.voters:
            msg = "`voters` must name at least one voter, got none"
            raise ValueError(msg)
        self._check_counts()

    def _check_counts(self) -> None:
        """Refuse what no table of rows can give; every difference here is of two counts >= 0."""
        rows, errors = self.rows[:, None], self.errors[:, None]
        both, left, pairs = self.pair_errors, self.left_errors, self.pair_rows
        _require(both >= 0, "`pair_errors` is negative")
        _require(both == both.T, "`pair_errors` is not symmetric")
        _require(pairs == pairs.T, "`pair_rows` is not symmetric")
        _require(both <= left, "`pair_errors` exceeds `left_errors`")
        _require(left <= pairs, "`left_errors` exceeds `pair_rows`")
        _require(pairs <= rows, "`pair_rows` exceeds the rows of the voter")
        _require(left <= errors, "`left_errors` exceeds the errors of the voter")
        _require(left.diagonal() == self.errors, "`left_errors` differs from `pair_errors`")
        _require(left.T - both <= pairs - left, "errors of either voter exceed `pair_rows`")
        if self.disagreements is not None:
            self._check_disagreements(self.disagreements)
        _require(pairs - left <= rows - errors, "rows without error exceed those of the voter")

    def _check_disagreements(self, differ: Matrix) -> None:
        _require(differ >= 0, "`disagreements` is negative")
        _require(differ == differ.T, "`disagreements` is not symmetric")
        _require(differ.diagonal() == 0, "`disagreements` of a voter with itself")
        _require(differ <= self.n_unlabelled, "`disagreements` exceeds `n_unlabelled`")

    @property
    def _arrays(self) -> tuple[str, ...]:
        return _ARRAYS if not self.n_unlabelled else (*_ARRAYS, _DISAGREEMENTS)

    @classmethod
    def zero(cls, n_voters: int, voters: Sequence[str] | None = None) -> Self:
        """Count no rows: ``counts + PairCounts.zero(n_voters, counts.voters) == counts``.

        Parameters
        ----------
        n_voters : int
            Number of voters.
        voters : sequence of str, optional
            Their names; by default "0", "1", ...

        Returns
        -------
        PairCounts
        """
        names = default_voters(n_voters) if voters is None else check_voters(voters, n_voters)
        nothing = np.zeros((n_voters, n_voters), dtype=np.int64)
        return cls(nothing, nothing, nothing, names)

    @property
    def n_voters(self) -> int:
        """Number of voters."""
        return len(self.voters)

    @property
    def rows(self) -> Matrix:
        """Validation rows of each voter."""
        return self.pair_rows.diagonal()

    @property
    def errors(self) -> Matrix:
        """Errors of each voter on its validation rows."""
        return self.pair_errors.diagonal()

    @property
    def n_single(self) -> int:
        """The least number of validation rows of any voter."""
        return int(self.rows.min())

    @property
    def n_pair(self) -> int:
        """The least number of common validation rows of any two voters, or of any one."""
        return int(self.pair_rows.min())

    @property
    def shared(self) -> bool:
        """Whether all voters were validated on the same rows."""
        return bool((self.pair_rows == self.pair_rows[0, 0]).all())

    def __add__(self, other: object) -> PairCounts:
        if not isinstance(other, PairCounts):
            return NotImplemented
        _check_same_voters(self.voters, other.voters)
        # No count exceeds the rows of its voter, so that only these can overflow.
        if (self.rows > np.iinfo(np.int64).max - other.rows).any():
            msg = "`pair_rows` of the sum exceeds int64; the parts cannot be counts of real rows"
            raise ValueError(msg)
        return PairCounts(
            self.pair_rows + other.pair_rows,
            self.pair_errors + other.pair_errors,
            self.left_errors + other.left_errors,
            self.voters,
            *_sum_of_unlabelled(self, other),
        )

    def __radd__(self, other: object) -> PairCounts:
        # Where `sum` starts.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairCounts):
            return NotImplemented
        same = (self.voters, self.n_unlabelled) == (other.voters, other.n_unlabelled)
        return same and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self._arrays
        )

    __hash__ = None  # type: ignore[assignment]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts, and no row of data, to a ``.npz`` file.

        Equal counts give equal bytes. The file appears whole or not at all.

        Parameters
        ----------
        path : path-like
            The file to write.
        """
        arrays = {name: getattr(self, name) for name in self._arrays}
        _countsfile.save(path, self.voters, arrays, self.n_unlabelled)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` has written.

        Parameters
        ----------
        path : path-like
            The file to read. It need not be trusted: nothing in it is executed, and it cannot
            ask for much more memory than its own size.

        Returns
        -------
        PairCounts

        Raises
        ------
        ValueError
            For anything but counts that some table of rows can give.
        """
        with _countsfile.opened(path) as archive:
            voters, n_unlabelled = _countsfile.load_header(archive)
            names = _ARRAYS if not n_unlabelled else (*_ARRAYS, _DISAGREEMENTS)
            arrays = _countsfile.load(archive, names, len(voters))
            return cls(**arrays, voters=voters, n_unlabelled=n_unlabelled)


def _require(holds: NDArray[np.bool_], problem: str) -> None:
    if not holds.all():
        where = tuple(int(index) for index in np.argwhere(~holds)[0])
        msg = f"{problem} at {where}: these are not counts of rows; count again"
        raise ValueError(msg)


def _sum_of_unlabelled(one: PairCounts, other: PairCounts) -> tuple[Matrix | None, int]:
    if one.disagreements is None or other.disagreements is None:
        known = other if one.disagreements is None else one
        return known.disagreements, known.n_unlabelled
    return one.disagreements + other.disagreements, one.n_unlabelled + other.n_unlabelled


def _check_same_voters(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    if len(ours) != len(theirs):
        msg = f"`voters` must be the same to add counts, got {len(ours)} and {len(theirs)} voters"
        raise ValueError(msg)
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            msg = f"`voters` must be the same to add counts, got {one!r} and {other!r} at {index}"
            raise ValueError(msg)


@overload
def count(
    votes: Votes, *, unlabelled: ArrayLike | None = None, engine: Engine = "auto"
) -> PairCounts: ...


@overload
def count(
    votes: ArrayLike,
    y: ArrayLike,
    validated: ArrayLike | None = None,
    *,
    unlabelled: ArrayLike | None = None,
    engine: Engine = "auto",
) -> PairCounts: ...


def count(
    votes: Votes | ArrayLike,
    y: ArrayLike | None = None,
    validated: ArrayLike | None = None,
    *,
    unlabelled: ArrayLike | None = None,
    engine: Engine = "auto",
) -> PairCounts:
    """Count rows and errors of all pairs of voters.

    Parameters
    ----------
    votes : Votes, or predictions of shape (n_samples, n_voters)
        The evidence. Predictions are packed as they are read: that takes less memory than
        ``Votes.from_predictions``, which also keeps the labels.
    y : array of shape (n_samples,), optional
        The labels, with predictions only.
    validated : boolean array of shape (n_samples, n_voters), optional
        Where each voter was validated, with predictions only. Default: everywhere.
    unlabelled : array of shape (n_unlabelled, n_voters), optional
        What the voters say on rows without labels: of the same distribution, and used by no
        voter in any way. Counted is on how many of them each two voters differ.
    engine : {"auto", "cpu", "cuda", "plain"}
        "cpu" is compiled and uses all cores, "cuda" uses an NVIDIA GPU (extra ``gpu``), "plain"
        is NumPy; "auto" takes what is there and worth its start. All give the same counts.

    Returns
    -------
    PairCounts
    """
    counts = _count_labelled(votes, y, validated, engine)
    if unlabelled is None:
        return counts
    differ, n_rows = _disagreements(unlabelled, counts.voters)
    return replace(counts, disagreements=differ, n_unlabelled=n_rows)


def _count_labelled(
    votes: Votes | ArrayLike, y: ArrayLike | None, validated: ArrayLike | None, engine: Engine
) -> PairCounts:
    if isinstance(votes, Votes):
        if y is not None or validated is not None:
            msg = "`y` and `validated` are part of `votes` already, got them twice; leave them out"
            raise TypeError(msg)
        return _count_bits(
            votes.error_bits, votes.validation_bits, votes.n_samples, votes.voters, engine
        )
    if y is None:
        msg = f"`y` is missing; give Votes, or labels with {type(votes).__name__} predictions"
        raise TypeError(msg)
    source = Source(votes, y, validated)
    errors, valid = pack(source, engine)
    return _count_bits(errors, valid, source.n_samples, source.voters, engine)


def _disagreements(predictions: ArrayLike, voters: tuple[str, ...]) -> tuple[Matrix, int]:
    """Count, for each pair of voters, on how many rows their predictions differ."""
    table = read_table(predictions, "unlabelled")
    n_rows, n_voters = table.shape
    if n_voters != len(voters) or not n_rows:
        msg = (
            f"`unlabelled` must hold rows of {len(voters)} predictions, one of each voter, but "
            f"has shape {table.shape}"
        )
        raise ValueError(msg)
    codes = np.empty(table.shape, dtype=np.int64)
    labels = Labels()
    for columns, said in table.blocks(slice(0, n_rows)):
        codes[:, columns] = labels.integers(said, None, "unlabelled")
    differ = np.zeros((n_voters, n_voters), dtype=np.int64)
    for i in range(n_voters):
        differ[i] = (codes != codes[:, i : i + 1]).sum(axis=0)
    return differ, n_rows


def _count_bits(
    errors: Bits, validated: Bits | None, n_samples: int, voters: tuple[str, ...], engine: str
) -> PairCounts:
    if len(voters) > MOST_VOTERS:
        msg = (
            f"`votes` has {len(voters):,} voters, whose pairs would fill "
            f"{24 * len(voters) ** 2 / 1e9:,.0f} GB; give {MOST_VOTERS:,} voters or fewer"
        )
        raise ValueError(msg)
    tool = kernel(engine, errors.size * len(voters))
    pair_errors = tool.and_counts_symmetric(errors)
    if validated is None:
        pair_rows: Matrix = np.broadcast_to(np.int64(n_samples), pair_errors.shape)
        left_errors: Matrix = np.broadcast_to(pair_errors.diagonal()[:, None], pair_errors.shape)
    else:
        pair_rows = tool.and_counts_symmetric(validated)
        left_errors = tool.and_counts(errors, validated)
    return PairCounts(pair_rows, pair_errors, left_errors, voters)
