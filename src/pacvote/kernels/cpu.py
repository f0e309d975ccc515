"""Pair counts with compiled AND-popcount loops (VPOPCNTQ where the processor has it).

Threads share out panels of voters, each part of the result has one writer, and everything is an
integer, so the result does not depend on the number of threads (``NUMBA_NUM_THREADS``).
They are Python threads around code that has released the GIL: unlike Numba's own, they may be
started from several threads at once, as Dask's workers do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pacvote.kernels import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

_TILE = 4  # voters; 4 x 4 sums and 4 + 4 operands take 24 of 32 vector registers
_LINE = 8  # words in a cache line and in a vector; a tile has one of each voter, then the next
_DEPTH = 384  # words of a voter at a time: two tiles take 24 KiB of the L1 cache
_PANEL = 32  # tiles that meet all others while they stay in the L2 cache, 384 KiB
_SHARED_CACHE = 1 << 19  # words of all voters that one pass visits: 4 MiB of the L3 cache
_VECTOR_BYTES = 64  # of votes that are compared at a time
_PACK = 1 << 22  # votes that one thread packs at a time

_ir: Any = cgutils  # untyped
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, _LINE)
_compiled = numba.njit(nogil=True, cache=True)


def _add_products(_typing_context: Any, left: Any, right: Any, counts: Any) -> Any:
    """Add the counts of four voters with four voters; the sums stay in vector registers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _use_whole_vectors(builder)
        given = zip(signature.args, args, strict=True)
        a, b, c = (context.make_array(kind)(context, builder, value) for kind, value in given)
        sums = [_ir.alloca_once_value(builder, _VECTOR(None)) for _ in range(_TILE**2)]
        ctpop = _llvm(builder, "llvm.ctpop.v8i64", _VECTOR)
        with _ir.for_range(builder, builder.extract_value(a.shape, 0)) as loop:
            rows, columns = (_vectors(builder, tile.data, loop.index) for tile in (a, b))
            for total, (row, column) in zip(sums, product(rows, columns), strict=True):
                bits = builder.call(ctpop, [builder.and_(row, column)])
                builder.store(builder.add(builder.load(total), bits), total)
        add = _llvm(builder, "llvm.vector.reduce.add.v8i64", _WORD)
        for total, place in zip(sums, product(range(_TILE), repeat=2), strict=True):
            where = _ir.get_item_pointer(context, builder, counts, c, [*map(_WORD, place)])
            found = builder.call(add, [builder.load(total)])
            builder.store(builder.add(builder.load(where), found), where)
        return context.get_dummy_value()

    return types.void(left, right, counts), generate


def _use_whole_vectors(builder: Any) -> None:
    # For some processors LLVM prefers half-width vectors, at half the rate of VPOPCNTQ.
    # llvmlite's own `add` knows no attribute that has a value.
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')


def _llvm(builder: Any, name: str, returns: Any) -> Any:
    kind = ir.FunctionType(returns, [_VECTOR])
    return _ir.get_or_insert_function(builder.module, kind, name)


def _vectors(builder: Any, data: Any, line: Any) -> list[Any]:
    """Load a line of words of each voter of a tile."""
    vectors = builder.bitcast(data, _VECTOR.as_pointer())
    first = builder.mul(line, _WORD(_TILE))
    places = [builder.gep(vectors, [builder.add(first, _WORD(k))]) for k in range(_TILE)]
    return [builder.load(place, align=8) for place in places]


_tile: Any = intrinsic(_add_products)


@_compiled
def _count_panel(
    left: Any,
    right: Any,
    counts: Any,
    triangle: bool,  # noqa: FBT001
    panel: int,
    first: int,
) -> None:
    """Count a panel of `left` with all of `right`; of a triangle, only tiles from the diagonal."""
    stop = min(first + panel, left.shape[1])
    for block in range(left.shape[0]):
        for column in range(first if triangle else 0, right.shape[1]):
            columns = slice(_TILE * column, _TILE * column + _TILE)
            for row in range(first, min(stop, column + 1) if triangle else stop):
                rows = slice(_TILE * row, _TILE * row + _TILE)
                _tile(left[block, row], right[block, column], counts[rows, columns])


@_compiled
def _copy_panel(bits: Any, blocks: Any, start: int, panel: int, first: int) -> None:
    """Copy a panel of voters, words from `start`, to contiguous tiles; pad with zeros."""
    n_voters, n_words = bits.shape
    n_blocks, n_tiles, n_lines = blocks.shape[:3]
    for tile in range(first, min(first + panel, n_tiles)):
        for line in range(n_blocks * n_lines):
            place = blocks[line // n_lines, tile, line % n_lines]
            voter, origin = _TILE * tile, start + _LINE * line
            if voter + _TILE <= n_voters and origin + _LINE <= n_words:
                for k in range(_TILE):
                    for word in range(_LINE):
                        place[k, word] = bits[voter + k, origin + word]
            else:
                place[:] = 0
                for k in range(min(_TILE, n_voters - voter)):
                    for word in range(min(_LINE, n_words - origin)):
                        place[k, word] = bits[voter + k, origin + word]


def _compare(
    _typing_context: Any, block: Any, labels: Any, octet: Any, row: Any, column: Any
) -> Any:
    """Bit k of byte j: is vote j wrong in the k-th of eight rows? A vector of votes of each."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        said, y, found = _pointers(context, builder, signature.args[:3], args)
        row, column = args[3:]
        size = _VECTOR_BYTES * 8 // block.dtype.bitwidth
        bits = ir.VectorType(ir.IntType(8), size)
        wrong = bits(None)
        for k in range(8):
            this = builder.add(row, _WORD(k))
            votes = builder.load(_wide(builder, said(this, column), size), align=1)
            label = builder.insert_element(votes.type(None), builder.load(y(this)), _WORD(0))
            unequal = builder.icmp_unsigned(
                "!=", votes, _shuffle(builder, label, label, [0] * size)
            )
            wrong = builder.or_(wrong, builder.select(unequal, bits([1 << k] * size), bits(None)))
        builder.store(wrong, _wide(builder, found(column), size), align=1)
        return context.get_dummy_value()

    return types.void(block, labels, octet, row, column), generate


def _transpose(_typing_context: Any, words: Any, packed: Any) -> Any:
    """Write the first eight words of eight rows as columns, in whole cache lines."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        read, write = _pointers(context, builder, signature.args, args)
        rows = [
            builder.load(_wide(builder, read(_WORD(k), _WORD(0)), _LINE), align=8)
            for k in range(_LINE)
        ]
        for step in (1, 2, 4):
            low = [k - step + _LINE if k & step else k for k in range(_LINE)]
            masks = low, [k + step for k in low]
            rows = [
                _shuffle(builder, rows[k & ~step], rows[k | step], masks[k & step > 0])
                for k in range(_LINE)
            ]
        for k, row in enumerate(rows):
            builder.store(row, _wide(builder, write(_WORD(k), _WORD(0)), _LINE), align=8)
        return context.get_dummy_value()

    return types.void(words, packed), generate


def _pointers(context: Any, builder: Any, kinds: Any, args: Any) -> Iterator[Any]:
    """Yield, for each array, a function from indices to a pointer."""
    _use_whole_vectors(builder)
    for kind, value in zip(kinds, args, strict=False):
        array = context.make_array(kind)(context, builder, value)
        yield lambda *place, kind=kind, array=array: _ir.get_item_pointer(
            context, builder, kind, array, place
        )


def _wide(builder: Any, pointer: Any, size: int) -> Any:
    return builder.bitcast(pointer, ir.VectorType(pointer.type.pointee, size).as_pointer())


def _shuffle(builder: Any, left: Any, right: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(left, right, ir.VectorType(ir.IntType(32), len(order))(order))


_octet: Any = intrinsic(_compare)
_transposed: Any = intrinsic(_transpose)


@_compiled
def _join_octets(octets: Any, words: Any) -> None:
    """Make a word of each voter's eight bytes."""
    for j in range(len(words)):
        words[j] = (
            np.uint64(octets[0, j])
            | np.uint64(octets[1, j]) << np.uint64(8)
            | np.uint64(octets[2, j]) << np.uint64(16)
            | np.uint64(octets[3, j]) << np.uint64(24)
            | np.uint64(octets[4, j]) << np.uint64(32)
            | np.uint64(octets[5, j]) << np.uint64(40)
            | np.uint64(octets[6, j]) << np.uint64(48)
            | np.uint64(octets[7, j]) << np.uint64(56)
        )


@_compiled
def _pack_panel(block: Any, labels: Any, packed: Any, step: int, first: int) -> None:
    """Pack `step` rows from `first` on, a cache line of words for each voter at a time."""
    stop = min(first + step, block.shape[0])
    n_voters, size = block.shape[1], _VECTOR_BYTES // block.itemsize
    octets = np.empty((8, max(n_voters, size)), np.uint8)
    words = np.empty((_LINE, n_voters), np.uint64)
    for start in range(first, stop, 64 * _LINE):
        n_words = min(_LINE, (stop - start) // 64)
        for w in range(n_words):
            for k in range(8):
                row = start + 64 * w + 8 * k
                for column in range(0, n_voters - size + 1, size):
                    _octet(block, labels, octets[k], row, column)
                if n_voters % size:  # overlaps; of few voters, takes votes of the next rows too
                    _octet(block, labels, octets[k], row, max(n_voters - size, 0))
            _join_octets(octets, words[w])
        if n_words == _LINE <= n_voters:
            for column in range(0, n_voters, _LINE):
                left = min(column, n_voters - _LINE)
                _transposed(words[:, left:], packed[left:, start // 64 :])
        else:
            packed[:, start // 64 : start // 64 + n_words] = words[:n_words].T


@_compiled
def _mirror_panel(counts: Any, panel: int, first: int) -> None:
    """Fill a panel's part below the diagonal from above it."""
    for row in range(_TILE * first, min(_TILE * (first + panel), counts.shape[0])):
        for column in range(row):
            counts[row, column] = counts[column, row]


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _threads(n_threads: int | None) -> int:
    return n_threads or int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


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
    n_words, n_left, n_right = left.shape[1], -(-len(left) // _TILE), -(-len(right) // _TILE)
    n_lines = _up(-(-n_words // max(-(-n_words // _DEPTH), 1)), _LINE) // _LINE
    n_blocks = max(_SHARED_CACHE // _DEPTH // max(_TILE * n_right, 1), 1)
    counts = np.zeros((_TILE * n_left, _TILE * n_right), dtype=np.uint64)
    columns = np.empty((n_blocks, n_right, n_lines, _TILE, _LINE), dtype=np.uint64)
    rows = columns if triangle else np.empty((n_blocks, n_left, *columns.shape[2:]), np.uint64)
    n_threads = _threads(n_threads)
    panel = max(min(_PANEL, n_left // (2 * n_threads)), 1)  # many are shared out more evenly
    with ThreadPoolExecutor(n_threads) as threads:
        for start in range(0, n_words, n_blocks * n_lines * _LINE):
            _each(threads, n_right, panel, partial(_copy_panel, right, columns, start, panel))
            if not triangle:
                _each(threads, n_left, panel, partial(_copy_panel, left, rows, start, panel))
            count = partial(_count_panel, rows, columns, counts, triangle, panel)
            _each(threads, n_left, panel, count)
        if triangle:
            _each(threads, n_left, panel, partial(_mirror_panel, counts, panel))
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
    block: NDArray[np.integer[Any]],
    labels: NDArray[Any],
    out: NDArray[np.uint64] | None = None,
    n_threads: int | None = None,
) -> NDArray[np.uint64]:
    """Pack where each voter's column of `block` differs from `labels`.

    Equivalent to `pacvote.kernels.plain.pack_unequal`, for any `n_threads` (default: all).

    Parameters
    ----------
    block : integer array of shape (n_rows, n_voters)
    labels : integer array of shape (n_rows,), of the dtype of `block`
    out : uint64 array of shape (n_voters, ceil(n_rows / 64)), optional
    n_threads : int, optional

    Returns
    -------
    uint64 array of shape (n_voters, ceil(n_rows / 64))
    """
    if block.strides[0] == block.itemsize:  # voter by voter in memory: NumPy packs that at speed
        return plain.pack_unequal(block, labels, out)
    n_rows, n_voters = block.shape
    # Of few voters, a vector takes votes of several rows; none is read past the last.
    rows = -(-_VECTOR_BYTES // (n_voters * block.itemsize))
    whole = max(n_rows - rows + 1, 0) // 64 * 64
    packed = np.empty((n_voters, -(-n_rows // 64)), dtype=np.uint64) if out is None else out
    step = _up(_PACK // n_voters + 1, 64 * _LINE)
    task = partial(_pack_panel, _plain_view(block)[:whole], _plain_view(labels), packed, step)
    with ThreadPoolExecutor(_threads(n_threads)) as threads:
        _each(threads, whole, step, task)
    if whole < n_rows:
        plain.pack_unequal(block[whole:], labels[whole:], packed[:, whole // 64 :])
    return packed
