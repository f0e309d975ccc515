"""The smallest coalition of voters whose errors can make the vote err."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

LARGEST = 25  # heaviest voters whose coalitions are all tried


def smallest_losing(weights: Sequence[int], slack: int = 0) -> int:
    """Return the least sum of some of the weights that is at least half of their total.

    Where the vote errs, voters who hold half the weight err, so they hold at least this. Exact
    for up to 25 positive weights; further ones count as members of every coalition that needs
    them and as no weight of it, so that the result is never too large. ``slack`` is by how much
    the sum of a coalition may be wrong.
    """
    held = sorted((weight for weight in weights if weight), reverse=True)
    half = -(-sum(held) // 2)
    short = half - sum(held[LARGEST:]) - slack
    if short <= 0:
        return half
    left, right = _sums(held[:LARGEST:2]), sorted(_sums(held[1:LARGEST:2]))
    places = ((one, bisect_left(right, short - one)) for one in left)
    least = min(one + right[at] for one, at in places if at < len(right))
    return max(half, least - slack)


def _sums(weights: Sequence[int]) -> set[int]:
    sums = {0}
    for weight in weights:
        sums |= {one + weight for one in sums}
    return sums
