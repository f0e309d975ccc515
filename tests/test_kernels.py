"""Every kernel counts the same bits, and counts them right."""

from __future__ import annotations

import re
import subprocess
import sys

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacvote.kernels import base, cpu, cuda, plain

SIZES = st.one_of(st.integers(1, 70), st.sampled_from([63, 64, 65, 127, 128, 129, 512, 513]))


def random_bits(seed, n_voters, n_rows):
    bits = np.random.default_rng(seed).random((n_rows, n_voters)) < 0.4
    return bits, plain.pack_unequal(bits.view(np.uint8), np.zeros(n_rows, np.uint8))


@given(st.integers(0, 2**32), st.integers(1, 12), SIZES)
def test_packing_puts_row_r_in_bit_r(seed, n_voters, n_rows):
    bits, packed = random_bits(seed, n_voters, n_rows)
    assert packed.shape == (n_voters, -(-n_rows // 64))
    for voter in range(n_voters):
        number = sum(int(word) << (64 * k) for k, word in enumerate(packed[voter]))
        assert number == sum(1 << int(row) for row in np.flatnonzero(bits[:, voter]))


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.one_of(SIZES, st.sampled_from([4095, 4096, 4097, 40_000])),
    st.sampled_from([np.int8, np.uint8, np.int16, np.int64]),
    st.sampled_from("CF"),
    st.integers(1, 3),
)
def test_packing_is_the_same_compiled(seed, n_voters, n_rows, dtype, order, n_threads):
    rng = np.random.default_rng(seed)
    block = np.asarray(rng.integers(0, 100, (n_rows, n_voters)), dtype=dtype, order=order)
    labels = rng.integers(0, 100, n_rows).astype(dtype)
    expected = plain.pack_unequal(block, labels)
    for given_block in (block, block[:, ::-1]):
        found = cpu.pack_unequal(given_block, labels, n_threads=n_threads)
        assert np.array_equal(found[:: 1 if given_block is block else -1], expected)


def test_packing_shares_rows_among_threads(monkeypatch):
    monkeypatch.setattr(cpu, "_PACK", 1)
    rng = np.random.default_rng(0)
    block, labels = rng.integers(0, 3, (5000, 7), np.int8), rng.integers(0, 3, 5000, np.int8)
    expected = plain.pack_unequal(block, labels)
    assert np.array_equal(cpu.pack_unequal(block, labels, n_threads=3), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
@pytest.mark.parametrize("n_voters", [1, 3, 7, 8, 31, 63, 64, 65, 100, 127, 200])
def test_packing_into_part_of_a_table_writes_all_of_it_and_nothing_else(dtype, n_voters):
    rng = np.random.default_rng(n_voters)
    for n_rows in (1, 63, 64, 65, 511, 512, 513, 1087, 1600):
        # Around the rows and the voters lie others, which are of no account.
        table = rng.integers(0, 2, (n_rows + 9, n_voters + 9)).astype(dtype)
        labels = rng.integers(0, 2, n_rows).astype(dtype)
        inside = slice(4, 4 + n_rows), slice(5, 5 + n_voters)
        block = np.ascontiguousarray(table[inside])
        numbers = [
            sum(int(wrong) << row for row, wrong in enumerate(column != labels))
            for column in block.T
        ]
        for given_block in (block, table[inside], np.asfortranarray(block)):
            for tool in (cpu, plain):
                bits = np.full((n_voters + 2, -(-n_rows // 64) + 2), 7, np.uint64)
                out = bits[1:-1, 1:-1]
                assert tool.pack_unequal(given_block, labels, out) is out
                found = out.astype("<u8").tobytes()
                size = len(found) // n_voters
                assert numbers == [
                    int.from_bytes(found[size * k : size * (k + 1)], "little")
                    for k in range(n_voters)
                ]
                bits[1:-1, 1:-1] = 7
                assert (bits == 7).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), SIZES, SIZES, st.integers(1, 600), st.integers(1, 3))
def test_counts_are_the_same_compiled(seed, n_left, n_right, n_words, n_threads):
    rng = np.random.default_rng(seed)
    left, right = (
        rng.integers(0, 2**64, (n, n_words), np.uint64) for n in (n_left % 140, n_right % 140)
    )
    assert np.array_equal(cpu.and_counts(left, right, n_threads), plain.and_counts(left, right))
    expected = plain.and_counts(left, left)
    assert np.array_equal(cpu.and_counts_symmetric(left, n_threads), expected)
    assert np.array_equal(plain.and_counts_symmetric(left), expected)


def test_counts_over_several_passes(monkeypatch):
    monkeypatch.setattr(cpu, "_SHARED_CACHE", 1)
    bits = np.random.default_rng(1).integers(0, 2**64, (9, 2000), np.uint64)
    assert np.array_equal(cpu.and_counts_symmetric(bits), plain.and_counts(bits, bits))
    assert np.array_equal(cpu.and_counts(bits[:3], bits), plain.and_counts(bits[:3], bits))


@given(st.integers(0, 2**32), st.integers(1, 12), SIZES)
def test_plain_counts_are_right(seed, n_voters, n_rows):
    bits, packed = random_bits(seed, n_voters, n_rows)
    expected = bits.T.astype(np.int64) @ bits.astype(np.int64)
    assert np.array_equal(plain.and_counts(packed, packed), expected)


def test_a_full_word_counts_64():
    bits = np.full((5, 700), 2**64 - 1, np.uint64)
    for tool in (plain, cpu):
        assert (tool.and_counts(bits, bits) == 64 * 700).all()


def test_counting_may_go_on_in_several_threads_at_once():
    from concurrent.futures import ThreadPoolExecutor

    bits = np.random.default_rng(1).integers(0, 2**64, (90, 300), np.uint64)
    expected = plain.and_counts(bits, bits)
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(cpu.and_counts_symmetric, [bits] * 32):
            assert np.array_equal(found, expected)


def test_the_inner_loop_is_vectorised():
    machine = numba.core.codegen.ll.get_host_cpu_features()
    if not machine.get("avx512vpopcntdq"):
        pytest.skip("this processor has no VPOPCNTQ")
    loop = numba.njit(cpu._count_panel.py_func)
    tiles = numba.types.Array(numba.uint64, 5, "C", readonly=True)
    loop.compile((tiles, tiles, numba.uint64[:, ::1], numba.boolean, numba.intp, numba.intp))
    (assembly,) = loop.inspect_asm().values()
    assert len(re.findall(r"vpopcntq\s.*zmm", assembly)) >= 16


def test_engines():
    assert base.kernel("plain", 1 << 60) is plain
    assert base.kernel("cpu", 1) is cpu
    assert base.kernel("auto", 1) is plain
    assert base.kernel("auto", 1 << 60) is (cuda if cuda.usable() else cpu)
    with pytest.raises(
        ValueError, match=r"`engine` must be one of 'auto', 'cpu', 'cuda', 'plain', got"
    ):
        base.kernel("gpu", 1)


def test_small_tables_do_not_wait_for_numba():
    code = (
        "import sys, pacvote.counts as c; c.count([[1, 0]], [1]); sys.exit('numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
