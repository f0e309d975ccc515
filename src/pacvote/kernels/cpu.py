"""Pair counts with compiled AND-popcount loops (VPOPCNTQ where the processor has it).

Threads share out panels of voters, each part of the result has one writer, and everything is an
integer, so the result does not depend on the number of threads (``NUMBA_NUM_THREADS``).
They are Python threads around code that has released the GIL: unlike Numba's own, they may be
started from several threads at once, as Dask's workers do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from pacvote.kernels import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_TILE = 4  # 4 x 4 sums and 4 + 4 operands take 24 of 32 vector registers
_DEPTH = 512  # words of a voter at a time: two tiles take 32 KiB of the L1 cache
_PANEL = 64  # voters that meet all others while they stay in the L2 cache
_SHARED_CACHE = 1 << 19  # words of all voters that one pass visits: 4 MiB of the L3 cache
_LINE = 8  # words in a cache line
_PACK = 1 << 22  # votes that one thread packs at a time

_compiled = numba.njit(nogil=True, cache=True)


def _ctpop(_typing_context: Any, _word: Any) -> Any:
    """Count the set bits of a uint64 by LLVM's own operation, which it can vectorise."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        # For some processors LLVM prefers half-width vectors, at half the rate of VPOPCNTQ.
        # llvmlite's own `add` knows no attribute that has a value.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


_popcount: Any = intrinsic(_ctpop)


@_compiled
def _tile(left: Any, right: Any, counts: Any) -> None:
    """Add the counts of four voters with four voters; the sums stay in registers."""
    l0, l1, l2, l3 = left[0], left[1], left[2], left[3]
    r0, r1, r2, r3 = right[0], right[1], right[2], right[3]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = np.uint64(0)
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = np.uint64(0)
    for w in range(left.shape[1]):
        s00 += _popcount(l0[w] & r0[w])
        s01 += _popcount(l0[w] & r1[w])
        s02 += _popcount(l0[w] & r2[w])
        s03 += _popcount(l0[w] & r3[w])
        s10 += _popcount(l1[w] & r0[w])
        s11 += _popcount(l1[w] & r1[w])
        s12 += _popcount(l1[w] & r2[w])
        s13 += _popcount(l1[w] & r3[w])
        s20 += _popcount(l2[w] & r0[w])
        s21 += _popcount(l2[w] & r1[w])
        s22 += _popcount(l2[w] & r2[w])
        s23 += _popcount(l2[w] & r3[w])
        s30 += _popcount(l3[w] & r0[w])
        s31 += _popcount(l3[w] & r1[w])
        s32 += _popcount(l3[w] & r2[w])
        s33 += _popcount(l3[w] & r3[w])
    counts[0, 0] += s00
    counts[0, 1] += s01
    counts[0, 2] += s02
    counts[0, 3] += s03
    counts[1, 0] += s10
    counts[1, 1] += s11
    counts[1, 2] += s12
    counts[1, 3] += s13
    counts[2, 0] += s20
    counts[2, 1] += s21
    counts[2, 2] += s22
    counts[2, 3] += s23
    counts[3, 0] += s30
    counts[3, 1] += s31
    counts[3, 2] += s32
    counts[3, 3] += s33


@_compiled
def _count_panel(left: Any, right: Any, counts: Any, triangle: bool, first: int) -> None:  # noqa: FBT001
    """Count a panel of `left` with all of `right`; of a triangle, only tiles from the diagonal."""
    stop = min(first + _PANEL, left.shape[1])
    for block in range(left.shape[0]):
        for column in range(first if triangle else 0, right.shape[1], _TILE):
            columns = slice(column, column + _TILE)
            for row in range(first, min(stop, column + _TILE) if triangle else stop, _TILE):
                rows = slice(row, row + _TILE)
                _tile(left[block, rows], right[block, columns], counts[rows, columns])


@_compiled
def _copy_panel(bits: Any, blocks: Any, start: int, first: int) -> None:
    """Copy a panel of voters, words from `start`, to contiguous tiles; pad with zeros."""
    n_voters, n_words = bits.shape
    n_blocks, n_rows, depth = blocks.shape
    for row in range(first, min(first + _PANEL, n_rows)):
        for block in range(n_blocks):
            origin = start + block * depth
            words = max(min(depth, n_words - origin), 0) if row < n_voters else 0
            for word in range(words):
                blocks[block, row, word] = bits[row, origin + word]
            for word in range(words, depth):
                blocks[block, row, word] = 0


@_compiled
def _pack_octet(block: Any, labels: Any, octet: Any) -> None:
    """Bit k of byte j: is vote j of row k wrong? Eight rows, all voters."""
    y0, y1, y2, y3, y4, y5, y6, y7 = (
        labels[0], labels[1], labels[2], labels[3], labels[4], labels[5], labels[6], labels[7],
    )  # fmt: skip
    for j in range(block.shape[1]):
        octet[j] = (
            np.uint8(block[0, j] != y0)
            | np.uint8(block[1, j] != y1) << 1
            | np.uint8(block[2, j] != y2) << 2
            | np.uint8(block[3, j] != y3) << 3
            | np.uint8(block[4, j] != y4) << 4
            | np.uint8(block[5, j] != y5) << 5
            | np.uint8(block[6, j] != y6) << 6
            | np.uint8(block[7, j] != y7) << 7
        )


@_compiled
def _pack_panel(block: Any, labels: Any, packed: Any, step: int, first: int) -> None:
    """Pack `step` rows from `first` on, a cache line of words for each voter at a time."""
    stop = min(first + step, block.shape[0])
    n_voters = block.shape[1]
    octets = np.empty((8, n_voters), np.uint8)
    words = np.empty((_LINE, n_voters), np.uint64)
    for start in range(first, stop, 64 * _LINE):
        n_words = min(_LINE, (stop - start) // 64)
        for w in range(n_words):
            for k in range(8):
                rows = slice(start + 64 * w + 8 * k, start + 64 * w + 8 * k + 8)
                _pack_octet(block[rows], labels[rows], octets[k])
            words[w] = 0
            for k in range(8):
                for j in range(n_voters):
                    words[w, j] |= np.uint64(octets[k, j]) << np.uint64(8 * k)
        for j in range(n_voters):
            for w in range(n_words):
                packed[j, start // 64 + w] = words[w, j]


@_compiled
def _mirror_panel(counts: Any, first: int) -> None:
    """Fill a panel's part below the diagonal from above it."""
    for row in range(first, min(first + _PANEL, counts.shape[0])):
        for column in range(row):
            counts[row, column] = counts[column, row]


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _threads(n_threads: int | None) -> ThreadPoolExecutor:
    default = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return ThreadPoolExecutor(n_threads or default)


def _each(threads: ThreadPoolExecutor, size: int, step: int, task: Callable[[int], None]) -> None:
    for _ in threads.map(task, range(0, size, step)):
        pass


def _plain_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous, unsigned, read-only view: one compiled variant per width."""
    view = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    view.setflags(write=False)
    return view


def _count(
    left: NDArray[np.uint64], right: NDArray[np.uint64], n_threads: int | None, *, triangle: bool
) -> NDArray[np.int64]:
    left, right = _plain_view(left), _plain_view(right)
    n_words, n_left, n_right = left.shape[1], _up(len(left), _TILE), _up(len(right), _TILE)
    depth = _up(-(-n_words // max(-(-n_words // _DEPTH), 1)), _LINE)
    n_blocks = max(_SHARED_CACHE // _DEPTH // max(n_right, 1), 1)
    counts = np.zeros((n_left, n_right), dtype=np.uint64)
    columns = np.empty((n_blocks, n_right, depth), dtype=np.uint64)
    rows = columns if triangle else np.empty((n_blocks, n_left, depth), dtype=np.uint64)
    with _threads(n_threads) as threads:
        for start in range(0, n_words, n_blocks * depth):
            _each(threads, n_right, _PANEL, partial(_copy_panel, right, columns, start))
            if not triangle:
                _each(threads, n_left, _PANEL, partial(_copy_panel, left, rows, start))
            _each(threads, n_left, _PANEL, partial(_count_panel, rows, columns, counts, triangle))
        if triangle:
            _each(threads, n_left, _PANEL, partial(_mirror_panel, counts))
    return np.ascontiguousarray(counts[: len(left), : len(right)].view(np.int64))


def and_counts(
    left: NDArray[np.uint64], right: NDArray[np.uint64], n_threads: int | None = None
) -> NDArray[np.int64]:
    """Count the bits that row i of `left` and row j of `right` both have set.

    Equivalent to `pacvote.kernels.plain.and_counts`, for any `n_threads` (default: all).

    Parameters
    ----------
    left : uint64 array of shape (n_left, n_words)
    right : uint64 array of shape (n_right, n_words)
    n_threads : int, optional

    Returns
    -------
    int64 array of shape (n_left, n_right)
    """
    return _count(left, right, n_threads, triangle=False)


def and_counts_symmetric(
    bits: NDArray[np.uint64], n_threads: int | None = None
) -> NDArray[np.int64]:
    """Return ``and_counts(bits, bits)`` at half the work.

    Parameters
    ----------
    bits : uint64 array of shape (n_voters, n_words)
    n_threads : int, optional

    Returns
    -------
    int64 array of shape (n_voters, n_voters)
    """
    return _count(bits, bits, n_threads, triangle=True)


def pack_unequal(
    block: NDArray[np.integer[Any]], labels: NDArray[Any], n_threads: int | None = None
) -> NDArray[np.uint64]:
    """Pack where each voter's column of `block` differs from `labels`.

    Equivalent to `pacvote.kernels.plain.pack_unequal`, for any `n_threads` (default: all).

    Parameters
    ----------
    block : integer array of shape (n_rows, n_voters)
    labels : integer array of shape (n_rows,), of the dtype of `block`
    n_threads : int, optional

    Returns
    -------
    uint64 array of shape (n_voters, ceil(n_rows / 64))
    """
    n_rows, n_voters = block.shape
    if block.strides[0] == block.itemsize:  # voter by voter in memory: NumPy packs that at speed
        return plain.pack_unequal(block, labels)
    whole = n_rows // 64 * 64
    packed = np.empty((n_voters, -(-n_rows // 64)), dtype=np.uint64)
    step = _up(_PACK // n_voters + 1, 64 * _LINE)
    task = partial(
        _pack_panel, _plain_view(block[:whole]), _plain_view(labels[:whole]), packed, step
    )
    with _threads(n_threads) as threads:
        _each(threads, whole, step, task)
    if whole < n_rows:
        packed[:, -1:] = plain.pack_unequal(block[whole:], labels[whole:])
    return packed
