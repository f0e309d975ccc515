"""Pair counts in plain NumPy: obviously right, the oracle of the tests and the fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 16  # elements at a time: temporaries stay in the cache


def pack_unequal(
    block: NDArray[np.integer[Any]], labels: NDArray[Any], out: NDArray[np.uint64] | None = None
) -> NDArray[np.uint64]:
    """Pack where each voter's column of `block` differs from `labels`.

    Parameters
    ----------
    block : integer array of shape (n_rows, n_voters)
        What the voters said.
    labels : integer array of shape (n_rows,), of the dtype of `block`
        What they should have said.
    out : uint64 array of shape (n_voters, ceil(n_rows / 64)), optional
        Where to put the result.

    Returns
    -------
    uint64 array of shape (n_voters, ceil(n_rows / 64))
        Bit ``r % 64`` of word ``r // 64`` is row ``r``; the bits past the last row are zero.
    """
    n_rows, n_voters = block.shape
    packed = np.zeros((n_voters, -(-n_rows // 64) * 8), dtype=np.uint8)
    step = max(_BLOCK // n_voters // 64, 1) * 64
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        unequal = np.not_equal(block[rows].T, labels[rows], order="C")
        bits = np.packbits(unequal, axis=1, bitorder="little")
        packed[:, start // 8 : start // 8 + bits.shape[1]] = bits
    words = packed.view("<u8").astype(np.uint64, copy=False)
    if out is None:
        return words
    out[...] = words
    return out


def and_counts(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the bits that row i of `left` and row j of `right` both have set.

    Parameters
    ----------
    left : uint64 array of shape (n_left, n_words)
    right : uint64 array of shape (n_right, n_words)

    Returns
    -------
    int64 array of shape (n_left, n_right)
    """
    counts = np.zeros((len(left), len(right)), dtype=np.int64)
    step = max(_BLOCK // max(len(right), 1), 1)
    for row, bits in enumerate(left):
        for start in range(0, left.shape[1], step):
            words = slice(start, start + step)
            both = np.bitwise_count(bits[words] & right[:, words])
            counts[row] += both.sum(axis=1, dtype=np.int64)
    return counts


def and_counts_symmetric(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return ``and_counts(bits, bits)``.

    Parameters
    ----------
    bits : uint64 array of shape (n_voters, n_words)

    Returns
    -------
    int64 array of shape (n_voters, n_voters)
    """
    return and_counts(bits, bits)
