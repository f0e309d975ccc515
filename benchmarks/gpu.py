"""Counting on a GPU: against a bf16 matrix product, the rate of the instruction, and a clock.

Without a GPU there is nothing to measure, and the table says so. Counts are compared with those
of the matrix product, which is exact here: fewer rows than 2^24.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.minimizing import synthetic
from pacvote.kernels import cuda
from pacvote.minimize import minimize

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Row = tuple[str, float, str]

N_VOTERS = 10_000
N_WORDS = 1 << 13  # of the matrix product: 2^19 rows
ALL_WORDS = 10_000_000 // 64
SEEN = 200  # pairs whose counts are counted again
ROUNDS = 20_000

# Products of one tile in shared memory, again and again: what the instruction itself can do.
_ISSUE = """
#ifdef HOPPER
extern "C" __global__ void __launch_bounds__(256, 1) issue(int rounds, int *sink) {
    extern __shared__ char memory[];
    for (int i = threadIdx.x; i < (STAGE + 1024) / 4; i += blockDim.x)
        ((u32 *)memory)[i] = (i + 1) * 2654435761u ^ i << 7;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    u32 tile = (shared(memory) + 1023) & ~1023u;
    u64 left = descriptor(tile + threadIdx.x / 128 * (LEFT / 2)), right = descriptor(tile + LEFT);
    int sums[128];
    for (int round = 0; round < rounds; round++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < DEPTH / 32; k++)
            multiply(sums, left + 2 * k, right + 2 * k, k > 0 || round > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    int all = 0;
#pragma unroll
    for (int j = 0; j < 128; j++) all += sums[j];
    sink[blockIdx.x * blockDim.x + threadIdx.x] = all;
}
#endif
"""


def rows() -> list[Row]:
    """Return what was measured, its ratio, and a remark."""
    if not cuda.usable():
        return [("counting on a GPU", math.nan, "not measured: no GPU of capability 8.0 and CuPy")]
    rate, measured = against_products()
    return [*measured, *against_issue(rate), from_host(), *minimising()]


def seconds(work: Callable[[], object], turns: int = 5) -> float:
    """Return the median time of work on the GPU; the first turn warms up."""
    import cupy

    times = []
    for _ in range(turns + 1):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        work()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def random_bits(n_words: int) -> NDArray[np.uint64]:
    """Draw bits of all voters, in many threads."""
    bits = np.empty((N_VOTERS, n_words), np.uint64)

    def fill(voter: int) -> None:
        rng = np.random.default_rng(voter)
        bits[voter] = rng.integers(0, 2**64, n_words, np.uint64)

    with ThreadPoolExecutor() as threads:
        for _ in threads.map(fill, range(N_VOTERS)):
            pass
    return bits


def floats_of(bits: Any) -> Any:
    """Return bits on the GPU as a bf16 matrix."""
    import cupy
    import torch

    floats = torch.empty((len(bits), 64 * bits.shape[1]), dtype=torch.bfloat16, device="cuda")
    for row, words in zip(floats, bits, strict=True):
        row.copy_(torch.from_dlpack(cupy.unpackbits(words.view(cupy.uint8), bitorder="little")))
    torch.cuda.synchronize()
    return floats


def against_products() -> tuple[float, list[Row]]:
    """Compare counts that stay on the GPU with a matrix product of the same bits."""
    import cupy
    import torch

    bits = cupy.asarray(random_bits(N_WORDS))
    floats = floats_of(bits)
    product = torch.mm(floats, floats.T, out_dtype=torch.float32)
    expected = cupy.from_dlpack(product).astype(np.int64)
    panels = [cuda.Panel(N_VOTERS, N_VOTERS, triangle=t) for t in (False, True)]
    panels[0].add(bits, bits)
    panels[1].add(bits)
    assert all((panel.finish() == expected).all() for panel in panels)
    t_floats = seconds(lambda: torch.mm(floats, floats.T, out_dtype=torch.float32))
    t_full = seconds(lambda: panels[0].add(bits, bits))
    t_half = seconds(lambda: panels[1].add(bits))
    again = seconds(lambda: torch.mm(floats, floats.T, out_dtype=torch.float32))
    t_floats = min(t_floats, again)
    n_products = N_VOTERS**2 * N_WORDS * 64.0
    full, half = n_products / t_full, n_products / 2 / t_half
    flops = f"{2 * n_products / t_floats / 1e12:.0f} TFLOP/s, float32 output, equal counts"
    size = f"{N_VOTERS:,} voters x {64 * N_WORDS:,} rows on the GPU"
    return full, [
        ("bf16 product / counting all pairs", t_floats / t_full, f"at least 6.5; {flops}"),
        ("bf16 product / counting, each pair once", t_floats / t_half, size),
        ("bit products, P/s", full / 1e15, f"at least 2.5, aim 3.5; each pair once: {half:.3g}"),
    ]


def against_issue(rate: float) -> list[Row]:
    """Compare with products of one tile that never leaves shared memory."""
    import cupy

    name = "counting, share of the instruction's rate"
    if cupy.cuda.Device().compute_capability != "90":
        return [(name, math.nan, "measured on capability 9.0 only")]
    gpu = cuda._gpu(cupy.cuda.Device().id)
    options = ("-arch=sm_90a", "-DSTAGES=1", "-std=c++17", "-DHOPPER")
    issue = cuda._module(options, _ISSUE).get_function("issue")
    shared = cuda._STAGE + 2048
    issue.max_dynamic_shared_size_bytes = shared
    blocks = 2 * gpu.teams
    sink = cupy.zeros(256 * blocks, dtype=np.int32)
    took = seconds(lambda: issue((blocks,), (256,), (np.int32(ROUNDS), sink), shared_mem=shared))
    assert (sink != 0).any()
    peak = blocks * ROUNDS * 128.0 * 256 * 1024 / took
    return [(name, rate / peak, f"{peak / 1e15:.3g} P/s of one tile in shared memory")]


def from_host() -> Row:
    """Count packed bits in the host's memory, and some pairs again on the host."""
    bits = random_bits(ALL_WORDS)
    cuda.and_counts_symmetric(bits[:, :64])
    start = time.perf_counter()
    counts = cuda.and_counts_symmetric(bits)
    took = time.perf_counter() - start
    pairs = np.random.default_rng(0).integers(0, N_VOTERS, (SEEN, 2))
    for i, j in pairs:
        both = int(np.bitwise_count(bits[i] & bits[j]).sum(dtype=np.int64))
        assert counts[i, j] == counts[j, i] == both
    remark = f"{took:.2f} s for {64 * ALL_WORDS:,} rows, {bits.nbytes / 1e9:.1f} GB; {SEEN} pairs"
    return "from the host's memory / 10 s", took / 10, f"{remark} counted again"


def minimising() -> list[Row]:
    """Find weights of 10,000 voters, in units of the memory of one matrix of floats."""
    counts = synthetic(N_VOTERS)
    found = []
    for key in ("tnd", "cctnd"):
        tracemalloc.start()
        start = time.perf_counter()
        solution = minimize(key, counts)
        took = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1] / (8 * N_VOTERS**2)
        tracemalloc.stop()
        remark = f"matrices of {8 * N_VOTERS**2 / 1e6:.0f} MB beyond the counts; {took:.1f} s"
        remark = f"{remark}, {solution.n_iter} steps, {solution.status.name.lower()}"
        found.append((f"minimise {key}, {N_VOTERS:,} voters, memory", peak, remark))
    return found
