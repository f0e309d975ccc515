"""One search for neighbours in place of many, for pictures whose distances are whole numbers.

The neighbours of a row within any bag are among its neighbours in the whole table, in the same
order. So the nearest-neighbour voters of all repetitions read one list for each row, and predict
what scikit-learn's ``KNeighborsClassifier`` predicts, ties of distance apart.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from pacvote._files import atomic_write

N_NEIGHBOURS = 64
BLOCK = 512

Integers = NDArray[np.int32]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """For each row of a table the nearest rows, itself among them, by squared distance."""

    rows: Integers
    squares: Integers

    @staticmethod
    def of(pixels: NDArray[np.uint8]) -> Neighbours:
        """Search all pairs of rows: candidates in float32, then distances in whole numbers."""
        kept = min(N_NEIGHBOURS, len(pixels))
        rows = np.empty((len(pixels), kept), dtype=np.int32)
        squares = np.empty_like(rows)
        table = pixels.astype(np.float32)
        norms = np.einsum("ij,ij->i", table, table)
        for start in range(0, len(pixels), BLOCK):
            part = slice(start, start + BLOCK)
            near = norms - 2 * (table[part] @ table.T)
            found = np.argpartition(near, kept - 1, axis=1)[:, :kept]
            exact = _squares(pixels, part, found)
            order = np.lexsort((found, exact))
            rows[part] = np.take_along_axis(found, order, axis=1)
            squares[part] = np.take_along_axis(exact, order, axis=1)
        return Neighbours(rows, squares)

    def save(self, path: Path) -> None:
        """Write one file, whole or not at all."""
        buffer = io.BytesIO()
        np.savez(buffer, rows=self.rows, squares=self.squares)
        atomic_write(path, buffer.getvalue())

    @staticmethod
    def load(path: Path) -> Neighbours:
        """Read what `save` has written."""
        with np.load(path, allow_pickle=False) as arrays:
            return Neighbours(arrays["rows"], arrays["squares"])


def _squares(pixels: NDArray[np.uint8], part: slice, found: NDArray[Any]) -> Integers:
    exact = np.empty(found.shape, dtype=np.int32)
    for place, (row, others) in enumerate(zip(pixels[part], found, strict=True)):
        apart = pixels[others].astype(np.float32) - row
        exact[place] = np.einsum("ij,ij->i", apart, apart, dtype=np.float64)
    return exact


@final
class NeighboursClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`KNeighborsClassifier` over rows that are given by their position in the searched table.

    Parameters
    ----------
    neighbours : Neighbours
        What `Neighbours.of` found for the whole table.
    n_neighbors : int
        Rows of the bag that vote; one that was drawn twice votes twice.
    weights : {"uniform", "distance"}
        Whether a nearer one has more weight.
    """

    def __init__(self, neighbours: Neighbours, n_neighbors: int, weights: str) -> None:
        self.neighbours = neighbours
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X: NDArray[np.integer[Any]], y: NDArray[Any]) -> Self:
        """Take the bag: positions of rows, of shape (n, 1), and their labels."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        size = len(self.neighbours.rows)
        self._drawn = np.bincount(X[:, 0], minlength=size)
        self._codes = np.zeros(size, dtype=np.int64)
        self._codes[X[:, 0]] = codes
        return self

    def predict(self, X: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the labels that most of the neighbours in the bag have."""
        rows = self.neighbours.rows[X[:, 0]]
        votes = self._drawn[rows]
        before = np.cumsum(votes, axis=1) - votes
        votes = np.clip(self.n_neighbors - before, 0, votes)
        if (votes.sum(axis=1) < self.n_neighbors).any():
            msg = f"`n_neighbors` {self.n_neighbors} is too many: the search kept {rows.shape[1]}"
            raise ValueError(msg)
        mass = self._weigh(votes, self.neighbours.squares[X[:, 0]])
        total = np.zeros((len(rows), len(self.classes_)))
        for place in range(rows.shape[1]):
            np.add.at(total, (np.arange(len(rows)), self._codes[rows[:, place]]), mass[:, place])
        return np.asarray(self.classes_[np.argmax(total, axis=1)])

    def _weigh(self, votes: NDArray[Any], squares: Integers) -> NDArray[Any]:
        if self.weights == "uniform":
            return votes
        same = np.where(squares == 0, votes, 0)
        near = votes / np.sqrt(np.maximum(squares, 1))
        return np.where(np.any(same, axis=1, keepdims=True), same, near)
