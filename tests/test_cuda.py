"""The GPU counts the same bits; without one, asking for it is refused in one line."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from pacvote.counts import count
from pacvote.kernels import base, cpu, cuda, plain

on_gpu = pytest.mark.skipif(not cuda.usable(), reason="needs CuPy and a GPU of capability 8.0")
SIZES = [
    (1, 1, 1), (2, 1, 1), (7, 9, 3), (8, 8, 16), (63, 65, 17), (128, 256, 16), (129, 257, 31),
    (256, 256, 160), (257, 300, 33), (513, 200, 5001), (600, 1000, 1563),
]  # fmt: skip


@pytest.fixture(params=["wgmma", "mma"])
def kernels(request, monkeypatch):
    """Both sets of kernels, where the GPU has both."""
    import cupy

    hopper = request.param == "wgmma"
    if hopper and cupy.cuda.Device().compute_capability != "90":
        pytest.skip("wgmma is an instruction of compute capability 9.0 alone")
    gpu = cuda._Gpu(hopper=hopper)
    monkeypatch.setattr(cuda, "_gpu", lambda _: gpu)


def random_bits(n_voters, n_words, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, (n_voters, n_words), np.uint64)


def full_bits(n_voters, n_words):
    return np.full((n_voters, n_words), 2**64 - 1, np.uint64)


@on_gpu
@pytest.mark.parametrize("make", [random_bits, full_bits])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_gpu_counts_the_same(kernels, size, make):
    left, right = make(size[0], size[2]), make(size[1], size[2])
    assert np.array_equal(cuda.and_counts(left, right), cpu.and_counts(left, right))
    assert np.array_equal(cuda.and_counts_symmetric(right), cpu.and_counts_symmetric(right))
    backwards = right[::-1, ::-1]
    assert np.array_equal(cuda.and_counts(left, backwards), cpu.and_counts(left, backwards))


@on_gpu
@pytest.mark.parametrize("seed", range(20))
def test_any_size(kernels, seed):
    sizes = np.exp(np.random.default_rng(seed).uniform(0, np.log(1500), 3)).astype(int)
    left, right = random_bits(sizes[0], sizes[2], seed), random_bits(sizes[1], sizes[2], seed + 1)
    assert np.array_equal(cuda.and_counts(left, right), cpu.and_counts(left, right))
    assert np.array_equal(cuda.and_counts_symmetric(right), cpu.and_counts_symmetric(right))


@on_gpu
def test_any_chunks_and_panels(kernels, monkeypatch):
    monkeypatch.setattr(cuda, "_CHUNK", 1 << 20)
    left, right = random_bits(300, 2001), random_bits(700, 2001, 1)
    assert np.array_equal(cuda.and_counts(left, right), cpu.and_counts(left, right))
    gpu = cuda._gpu(0)
    monkeypatch.setattr(gpu, "memory", 4 * 8 * 700 * 256)
    assert np.array_equal(cuda.and_counts(left, right), cpu.and_counts(left, right))
    assert np.array_equal(cuda.and_counts_symmetric(right), cpu.and_counts_symmetric(right))


@on_gpu
def test_more_rows_than_int32_holds(kernels):
    import cupy

    n_words = cuda._MOST_WORDS
    panel = cuda.Panel(5, 5, triangle=True)
    bits = cupy.full((5, n_words), 2**64 - 1, dtype=cupy.uint64)
    bits[3] = 0x5555555555555555
    for _ in range(5):
        panel.add(bits)
    share = np.ones((5, 5), dtype=np.int64)
    share[3] = share[:, 3] = 2
    assert 5 * 64 * n_words > 2**32
    assert np.array_equal(cupy.asnumpy(panel.finish()), 5 * 64 * n_words // share)


@on_gpu
def test_engine_cuda():
    rng = np.random.default_rng(0)
    y, votes = rng.integers(0, 3, 5000), rng.integers(0, 3, (5000, 40))
    masks = [None, rng.random((5000, 40)) < 0.5]
    for validated in masks:
        expected = count(votes, y, validated, engine="plain")
        assert count(votes, y, validated, engine="cuda") == expected
    assert base.kernel("auto", 1 << 60) is cuda


@on_gpu
def test_nothing_to_count():
    nothing = np.zeros((3, 0), np.uint64)
    assert (
        cuda.and_counts_symmetric(nothing).tolist() == plain.and_counts(nothing, nothing).tolist()
    )


@pytest.mark.skipif(cuda.usable(), reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(ValueError, match=r"`engine` 'cuda' needs an NVIDIA GPU .* install: pip"):
        count([[1]], [1], engine="cuda")
    assert base.kernel("auto", 1 << 60) is cpu


def test_tiles_cover_each_pair_once():
    for n_left, n_right in ((1, 1), (256, 257), (700, 2600)):
        tiles = cuda._tiles(n_left, n_right, triangle=False)
        assert len(np.unique(tiles, axis=0)) == len(tiles) == -(-n_left // 256) * -(-n_right // 256)
    square = {tuple(tile) for tile in cuda._tiles(5000, 5000, triangle=False).tolist()}
    upper = {tuple(tile) for tile in cuda._tiles(5000, 5000, triangle=True).tolist()}
    assert upper == {(row, column) for row, column in square if row <= column}


def test_rows_are_split_so_that_no_team_waits_long():
    assert cuda._splits(1, 100_000, 66) == 66
    assert cuda._splits(1, 1, 66) == 1
    for n_tiles in (1, 10, 67, 820, 1600):
        parts = cuda._splits(n_tiles, 20_000, 66)
        assert n_tiles * parts / 66 / -(-n_tiles * parts // 66) > 0.9


def test_the_kernels_are_in_the_package():
    assert importlib.util.find_spec("pacvote.kernels.cuda") is not None
    source = cuda.files("pacvote.kernels").joinpath("count.cu").read_text(encoding="utf-8")
    assert "m64n256k256.s32.b1.b1.and.popc" in source
    assert "m16n8k256.row.col.s32.b1.b1.s32.and.popc" in source
