"""From predictions and labels to packed bits, a chunk of rows at a time."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacvote._inputs import (
    Labels,
    check_voters,
    default_voters,
    read_column,
    read_mask,
    read_table,
)
from pacvote.kernels.base import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    Integers = NDArray[np.integer[Any]]
    Unsigned = NDArray[np.unsignedinteger[Any]]

_CHUNK = 1 << 25  # votes that are read at a time
_LOOKUP = 1 << 16  # labels within such a range are coded by looking them up


class Chunk(NamedTuple):
    """Some rows: labels and votes as integers that are equal where the labels are."""

    rows: slice
    y: Integers
    votes: list[tuple[slice, Integers]]
    mask: NDArray[np.bool_] | None


class Source:
    """Predictions, labels and validation mask that fit together; the arguments of `Votes`."""

    def __init__(
        self,
        predictions: ArrayLike,
        y: ArrayLike,
        validated: ArrayLike | None,
        voters: Sequence[str] | None = None,
    ) -> None:
        self.table = read_table(predictions, "predictions")
        self.n_samples, n_voters = self.table.shape
        self.y = read_column(y, self.n_samples, "y")
        self.mask = read_mask(validated, self.table, "validated")
        names = voters if voters is not None else self.table.names or default_voters(n_voters)
        self.voters = check_voters(names, n_voters)
        self.strings: list[str] = []

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows, in chunks of whole words."""
        labels = Labels()
        step = max(_CHUNK // len(self.voters) // 64, 1) * 64
        for start in range(0, self.n_samples, step):
            rows = slice(start, min(start + step, self.n_samples))
            mask = None if self.mask is None else self.mask.block(rows)
            used = None if mask is None else np.asarray(mask.any(axis=1))
            y = labels.integers(self.y[rows], used, "y")
            votes = []
            for voters, said in self.table.blocks(rows):
                needed = None if mask is None else mask[:, voters]
                votes.append((voters, labels.integers(said, needed, "predictions")))
            yield Chunk(rows, y, votes, mask)
        self.strings = list(labels.codes)


def pack(
    source: Source, engine: str = "auto", codes: Codes | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.uint64] | None]:
    """Return error bits and validation bits (None: all), and let `codes` keep the labels."""
    shape = (len(source.voters), -(-source.n_samples // 64))
    errors = np.empty(shape, dtype=np.uint64)
    validated = None if source.mask is None else np.empty(shape, dtype=np.uint64)
    tool = kernel(engine, source.n_samples * len(source.voters))
    for chunk in source.chunks():
        words = slice(chunk.rows.start // 64, -(-chunk.rows.stop // 64))
        for voters, said in chunk.votes:
            tool.pack_unequal(*_of_one_dtype(said, chunk.y), errors[voters, words])
        if chunk.mask is not None and validated is not None:
            nothing = np.zeros(len(chunk.mask), dtype=np.uint8)
            tool.pack_unequal(chunk.mask.view(np.uint8), nothing, validated[:, words])
            errors[:, words] &= validated[:, words]
        if codes is not None:
            codes.keep(chunk)
    return errors, validated


def _of_one_dtype(said: Integers, y: Integers) -> tuple[Integers, Integers]:
    limits = np.iinfo(said.dtype)
    if limits.min <= y.min() and y.max() <= limits.max:
        return said, y.astype(said.dtype, copy=False)
    return said.astype(np.int64), y.astype(np.int64)


class Codes:
    """The labels of a table, each as its position among all labels that occur."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._votes: Unsigned = np.empty(source.table.shape, dtype=np.uint8)
        self._y: Unsigned = np.empty(source.n_samples, dtype=np.uint8)
        self._positions: dict[int, int] = {}
        self._run = range(0)  # labels whose position is their distance from the first

    def keep(self, chunk: Chunk) -> None:
        """Keep the labels of a chunk, numbered as they come."""
        y = self._encode(chunk.y)
        self._y[chunk.rows] = y
        for voters, said in chunk.votes:
            codes = self._encode(said)
            self._votes[chunk.rows, voters] = codes

    def by_class(self) -> tuple[Unsigned, Unsigned, NDArray[Any]]:
        """Return the codes of votes and labels, and the sorted classes that they stand for."""
        found = (
            [self._source.strings[k] for k in self._positions]
            if self._source.strings
            else list(self._positions)
        )
        order = sorted(range(len(found)), key=found.__getitem__)
        if order != list(range(len(order))):
            rank = np.argsort(order).astype(self._votes.dtype)
            self._y = rank[self._y]
            step = max(_CHUNK // self._votes.shape[1], 1)
            for start in range(0, len(self._votes), step):
                rows = slice(start, start + step)
                self._votes[rows] = rank[self._votes[rows]]
        return self._votes, self._y, _classes([found[k] for k in order], self._source.y.dtype)

    def _encode(self, labels: Integers) -> NDArray[np.integer[Any]]:
        low, high = int(labels.min()), int(labels.max())
        if self._run.start <= low and high < self._run.stop:
            # Modulo 2^bits, where the difference is exact.
            codes = labels.astype(self._votes.dtype)
            codes -= codes.dtype.type(self._run.start % (1 << 8 * codes.itemsize))
            return codes
        if high - low < _LOOKUP:
            offsets = labels.astype(np.int64) - low
            present = np.flatnonzero(np.bincount(offsets.ravel()))
            lookup = np.zeros(high - low + 1, dtype=np.int64)
            lookup[present] = self._number((present + low).tolist())
            return lookup[offsets]
        found, inverse = np.unique(labels, return_inverse=True)
        return self._number(found.tolist())[inverse.reshape(labels.shape)]

    def _number(self, found: list[int]) -> NDArray[np.int64]:
        for label in found:
            self._positions.setdefault(label, len(self._positions))
        first = next(iter(self._positions))
        in_turn = takewhile(lambda pair: pair[0] == first + pair[1], self._positions.items())
        self._run = range(first, first + sum(1 for _ in in_turn))
        dtype = np.min_scalar_type(len(self._positions) - 1)
        if dtype != self._votes.dtype:
            self._votes, self._y = self._votes.astype(dtype), self._y.astype(dtype)
        return np.array([self._positions[label] for label in found])


def _classes(labels: list[Any], like: np.dtype[Any]) -> NDArray[Any]:
    """Return labels as an array, of the dtype of `y` where that holds them all."""
    if isinstance(labels[0], str):
        classes = np.empty(len(labels), dtype=object)  # a fixed-width string would lose "\0"
        classes[:] = labels
        return classes
    numbers = np.array(labels, dtype=np.int64)
    fits = like.kind in "biu" and np.array_equal(numbers.astype(like).astype(np.int64), numbers)
    return numbers.astype(like) if fits else numbers
