"""What several benchmarks fit."""

from collections.abc import Sequence

import numpy as np


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return the power of the size that the time grows with."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
