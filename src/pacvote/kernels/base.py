"""What a counting kernel offers, and which one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Engine = Literal["auto", "cpu", "cuda", "plain"]

# Below this many 64-bit words of work, importing Numba takes longer than NumPy takes to count.
_WORTH_COMPILED_CODE = 1 << 26
# And below this many, starting a GPU takes longer than a processor takes to count.
_WORTH_A_GPU = 1 << 37


class Kernel(Protocol):
    """Exact integer arithmetic on packed bits; every kernel gives the same integers.

    A matrix of bits has one row per voter; bit ``r % 64`` of word ``r // 64`` stands for row ``r``
    of the table.
    """

    def pack_unequal(
        self,
        block: NDArray[np.integer[Any]],
        labels: NDArray[np.integer[Any]],
        out: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint64]:
        """Bit r of voter j: is ``block[r, j]`` unlike ``labels[r]``? Both have one dtype."""

    def and_counts(self, left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Count, for each row of `left` and each of `right`, the bits that both have set."""

    def and_counts_symmetric(self, bits: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Equal ``and_counts(bits, bits)``, at half the work."""


def kernel(engine: str, words: int) -> Kernel:
    """Return the kernel called `engine`; "auto" decides by how many `words` it has to visit."""
    if engine not in get_args(Engine):
        known = ", ".join(map(repr, get_args(Engine)))
        msg = f"`engine` must be one of {known}, got {engine!r}"
        raise ValueError(msg)
    if engine == "cuda" or (engine == "auto" and words >= _WORTH_A_GPU):
        from pacvote.kernels import cuda

        if engine == "cuda":
            cuda.require()
        if cuda.usable():
            return cuda
    if engine == "plain" or (engine == "auto" and words < _WORTH_COMPILED_CODE):
        from pacvote.kernels import plain

        return plain
    from pacvote.kernels import cpu

    return cpu
