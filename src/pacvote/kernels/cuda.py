"""Pair counts on an NVIDIA GPU: products of single bits on its tensor cores, exact.

Rows go to the GPU in chunks, through page-locked memory, and the next chunk is on its way while
one is counted. Where the counts of all pairs do not fit, panels of voters are counted in turn.
The kernels are in ``count.cu``, compiled when first used: with wgmma on compute capability 9.0,
with mma.sync elsewhere from 8.0 on.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TILE = 256  # voters on each side of a tile
_BAND = 8  # tiles whose voters stay in the GPU's cache while tiles go by
_BLOCK = 16  # words of a voter in a block
_STAGE = 384 * 8 * _BLOCK  # bytes of a block that one multiprocessor works on
_SLACK = _TILE * 8 * _BLOCK  # bytes that the last tile may read past the last voter
_DRAIN = 24  # adding the sums of a tile takes about as long as so many blocks
_CHUNK = 1 << 28  # bytes of bits that are on their way at a time
_MOST_WORDS = 1 << 24  # of a voter in a chunk: sums of its bits are int32


@cache
def usable() -> bool:
    """Return whether there are CuPy and a GPU with products of bits."""
    if find_spec("cupy") is None:
        return False
    import cupy

    try:
        return int(cupy.cuda.Device().compute_capability) >= 80
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver, or no GPU
        return False


def require() -> None:
    """Refuse to go on where nothing can be counted."""
    if not usable():
        msg = (
            "`engine` 'cuda' needs an NVIDIA GPU of compute capability 8.0 or newer and CuPy; "
            "install: pip install 'pacvote[gpu]', or use engine 'cpu'"
        )
        raise ValueError(msg)


@final
class _Gpu:
    """The kernels, compiled for the current device; with wgmma where it is `hopper`."""

    def __init__(self, *, hopper: bool) -> None:
        import cupy

        device = cupy.cuda.Device()
        facts = device.attributes
        self.teams = facts["MultiProcessorCount"] // 2
        self.memory = int(device.mem_info[1])
        free = facts["MaxSharedMemoryPerBlockOptin"]
        stages = min((free - 1024 - 512) // _STAGE, 4)
        arch = device.compute_capability + ("a" if hopper else "")
        options = [f"-arch=sm_{arch}", f"-DSTAGES={stages}", "-std=c++17"]
        module = _module(tuple(options + ["-DHOPPER"] * hopper))
        self._retile, self._mirror, self._count = map(
            module.get_function, ("retile", "mirror", "count")
        )
        self._bytes = stages * _STAGE + 1024
        self._threads = 288 if hopper else 256
        self._count.max_dynamic_shared_size_bytes = self._bytes

    def retile(self, bits: Any, n_words: int, tiled: Any) -> None:
        """Write rows of words as the tiles that `count` reads; zeros past the last word."""
        padded, n_blocks = _up(len(bits), 8), -(-n_words // _BLOCK)
        pieces = np.int64(padded * n_blocks * _BLOCK // 2)
        stride, n_voters = np.int64(bits.shape[1]), np.int32(len(bits))
        arguments = (bits, stride, n_voters, np.int32(n_words), np.int32(padded), pieces, tiled)
        self._retile((16 * self.teams,), (256,), arguments)

    def count(self, left: Any, right: Any, tiles: Any, counts: Any, n_words: int) -> None:
        """Add the products of two sets of tiles to the counts."""
        n_left, n_right = counts.shape
        n_blocks = -(-n_words // _BLOCK)
        splits = _splits(len(tiles), n_blocks, self.teams)
        tiled = n_right if left is right else n_left  # a triangle's left is part of its right
        sizes = (n_left, n_right, _up(tiled, 8), _up(n_right, 8), len(tiles), n_blocks, splits)
        arguments = (left, right, tiles, counts, *map(np.int32, sizes))
        teams = min(self.teams, len(tiles) * splits)
        self._count((2 * teams,), (self._threads,), arguments, shared_mem=self._bytes)

    def mirror(self, counts: Any) -> None:
        """Fill the leading square below its diagonal from above."""
        n_rows, stride = counts.shape
        self._mirror((64 * self.teams,), (256,), (counts, np.int32(n_rows), np.int64(stride)))


@cache
def _gpu(device: int) -> _Gpu:
    import cupy

    return _Gpu(hopper=cupy.cuda.Device(device).compute_capability == "90")


def _module(options: tuple[str, ...], more: str = "") -> Any:
    import cupy
    from cupy.cuda import nvrtc

    source = files("pacvote.kernels").joinpath("count.cu").read_text(encoding="utf-8")
    program = nvrtc.createProgram(source + more, "count.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        msg = f"the GPU kernels do not compile: {nvrtc.getProgramLog(program)}"
        raise RuntimeError(msg) from error
    with TemporaryDirectory() as folder:  # a RawModule of code would choose its own target
        path = Path(folder, "count.cubin")
        path.write_bytes(nvrtc.getCUBIN(program))
        module = cupy.RawModule(path=str(path))
        module.get_function("count").compile()
    return module


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _splits(n_tiles: int, n_blocks: int, teams: int) -> int:
    """Return into how many parts to cut the rows, that all teams end at about the same time."""
    parts = np.arange(1, min(n_blocks, 4 * teams) + 1)
    waves = -(-n_tiles * parts // teams)
    return int(parts[np.argmin(waves * (-(-n_blocks // parts) + _DRAIN))])


def _tiles(n_left: int, n_right: int, *, triangle: bool) -> NDArray[np.int32]:
    """List the tiles, in bands, of a triangle those that hold the diagonal or lie above it."""
    rows, columns = np.indices((-(-n_left // _TILE), -(-n_right // _TILE))).reshape(2, -1)
    order = np.lexsort((rows, columns, rows // _BAND))
    tiles = np.column_stack((rows, columns))[order].astype(np.int32)
    return tiles[tiles[:, 1] >= tiles[:, 0]] if triangle else tiles


@final
class Panel:
    """Counts of some voters with others in the GPU's memory; chunks of rows add to them.

    Of a triangle, the voters on the left are the first of those on the right.
    """

    def __init__(self, n_left: int, n_right: int, *, triangle: bool) -> None:
        import cupy

        self.gpu = _gpu(cupy.cuda.Device().id)
        self.triangle = triangle
        self.counts = cupy.zeros((n_left, n_right), dtype=np.int64)
        self.tiles = cupy.asarray(_tiles(n_left, n_right, triangle=triangle))
        self._tiled: list[Any] = []

    def add(self, *chunk: Any) -> None:
        """Add rows of words in the GPU's memory: of the left and the right, or of a triangle."""
        self.retile(*chunk)
        self.multiply(chunk[-1].shape[1])

    def retile(self, *chunk: Any, n_words: int | None = None) -> None:
        """Take a chunk over; its own memory is free again when this is done."""
        import cupy

        words = chunk[-1].shape[1]
        sizes = [_up(len(bits), 8) * _up(words, _BLOCK) * 8 + _SLACK for bits in chunk]
        if [tiled.size for tiled in self._tiled] != sizes:
            self._tiled = [cupy.empty(size, dtype=np.uint8) for size in sizes]
        for bits, tiled in zip(chunk, self._tiled, strict=True):
            self.gpu.retile(bits, words if n_words is None else n_words, tiled)

    def multiply(self, n_words: int) -> None:
        """Add the products of the chunk that was taken over."""
        self.gpu.count(self._tiled[0], self._tiled[-1], self.tiles, self.counts, n_words)

    def finish(self) -> Any:
        """Return the counts, in the GPU's memory."""
        if self.triangle:
            self.gpu.mirror(self.counts)
        return self.counts


@final
class _Lane:
    """Page-locked memory for a chunk, its place on the GPU, and how far it has come."""

    def __init__(self, n_voters: list[int], width: int) -> None:
        import cupy
        import cupyx

        self.host = [cupyx.empty_pinned((n, width), dtype=np.uint64) for n in n_voters]
        self.device = [cupy.empty((n, width), dtype=np.uint64) for n in n_voters]
        self.sent = cupy.cuda.Event(disable_timing=True)
        self.taken = cupy.cuda.Event(disable_timing=True)

    def fill(self, threads: ThreadPoolExecutor, sources: list[NDArray[np.uint64]]) -> None:
        """Copy words into page-locked memory, when it is free."""
        self.sent.synchronize()
        for source, host in zip(sources, self.host, strict=True):
            step = max(len(source) // 64, 1)
            task = partial(_copy, source, host, step)
            for _ in threads.map(task, range(0, len(source), step)):
                pass

    def send(self, stream: Any) -> None:
        """Send it off, when its place on the GPU is free."""
        stream.wait_event(self.taken)
        for host, device in zip(self.host, self.device, strict=True):
            device.set(host, stream=stream)
        self.sent.record(stream)


def _copy(source: NDArray[np.uint64], host: Any, step: int, first: int) -> None:
    host[first : first + step, : source.shape[1]] = source[first : first + step]


def _stream(panel: Panel, sources: list[NDArray[np.uint64]], compute: Any) -> None:
    """Add all rows of words in the host's memory to a panel."""
    import cupy

    n_words, n_voters = sources[0].shape[1], [len(source) for source in sources]
    width = max(_CHUNK // (8 * sum(n_voters)) // _BLOCK, 1) * _BLOCK
    width = min(width, _MOST_WORDS, _up(n_words, _BLOCK))
    transfer = cupy.cuda.Stream(non_blocking=True)
    lanes = [_Lane(n_voters, width) for _ in range(1 if n_words <= width else 2)]
    with ThreadPoolExecutor() as threads:
        for k, start in enumerate(range(0, n_words, width)):
            lane, words = lanes[k % len(lanes)], slice(start, min(start + width, n_words))
            lane.fill(threads, [source[:, words] for source in sources])
            lane.send(transfer)
            compute.wait_event(lane.sent)
            panel.retile(*lane.device, n_words=words.stop - start)
            lane.taken.record(compute)
            panel.multiply(words.stop - start)
    compute.synchronize()


def _count(
    left: NDArray[np.uint64], right: NDArray[np.uint64], *, triangle: bool
) -> NDArray[np.int64]:
    import cupy

    counts = np.empty((len(left), len(right)), dtype=np.int64)
    if not counts.size or not left.shape[1]:
        return np.zeros_like(counts)
    memory = _gpu(cupy.cuda.Device().id).memory // 4
    step = max(memory // (8 * len(right)) // _TILE, 1) * _TILE
    compute = cupy.cuda.Stream(non_blocking=True)
    with compute:
        for first in range(0, len(left), step):
            rows = slice(first, min(first + step, len(left)))
            columns = slice(first if triangle else 0, len(right))
            sources = [right[columns]] if triangle else [left[rows], right]
            panel = Panel(rows.stop - first, len(sources[-1]), triangle=triangle)
            _stream(panel, sources, compute)
            found = panel.finish()
            counts[rows, columns] = found.get()
            if triangle and rows.stop < len(right):
                counts[rows.stop :, rows] = found[:, rows.stop - first :].T.copy().get()
    return counts


def and_counts(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the bits that row i of `left` and row j of `right` both have set.

    Equivalent to `pacvote.kernels.plain.and_counts`.

    Parameters
    ----------
    left : uint64 array of shape (n_left, n_words)
    right : uint64 array of shape (n_right, n_words)

    Returns
    -------
    int64 array of shape (n_left, n_right)
    """
    return _count(left, right, triangle=False)


def and_counts_symmetric(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return ``and_counts(bits, bits)`` at half the work.

    Parameters
    ----------
    bits : uint64 array of shape (n_voters, n_words)

    Returns
    -------
    int64 array of shape (n_voters, n_voters)
    """
    return _count(bits, bits, triangle=True)


def pack_unequal(
    block: NDArray[np.integer[Any]], labels: NDArray[Any], out: NDArray[np.uint64] | None = None
) -> NDArray[np.uint64]:
    """Pack where each voter's column of `block` differs from `labels`, on the host.

    Equivalent to `pacvote.kernels.plain.pack_unequal`.

    Parameters
    ----------
    block : integer array of shape (n_rows, n_voters)
    labels : integer array of shape (n_rows,), of the dtype of `block`
    out : uint64 array of shape (n_voters, ceil(n_rows / 64)), optional

    Returns
    -------
    uint64 array of shape (n_voters, ceil(n_rows / 64))
    """
    from pacvote.kernels import cpu

    return cpu.pack_unequal(block, labels, out)
