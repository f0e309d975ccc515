"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

settings.register_profile("ci", derandomize=False, deadline=None)
settings.register_profile("validity", max_examples=1000, derandomize=False, deadline=None)
settings.load_profile(os.environ.get("PACVOTE_HYPOTHESIS", "ci"))


@pytest.fixture
def golden() -> Callable[[str], tuple[NDArray[np.int8], NDArray[np.int8]]]:
    """Predictions (-1: not validated) and labels of a golden case: "a", "d" or "e"."""

    def load(case: str) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        with np.load(Path(__file__).parent / "golden" / f"{case}.npz") as arrays:
            return arrays["predictions"], arrays["y"]

    return load
