"""Pen-based recognition of handwritten digits, from the UCI repository."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Bunch

_DESCR = """\
Pen-Based Recognition of Handwritten Digits
-------------------------------------------

:Number of samples: 10992
:Number of features: 16, whole numbers from 0 to 100
:Classes: 10, the digits 0 to 9, of 1055 to 1144 samples each
:Missing values: none

44 people wrote digits on a tablet. Each sample is the stroke of one digit, brought to 8 points
at equal distances along it: the features are x and y of these points in their order.

Rows of one writer are not told apart here, so a split at random has the same people on both
sides: errors measured after it are about new digits of these writers, not about new writers.

The rows are those of UCI's training and test file together.

Source: E. Alpaydin and F. Alimoglu (1996). Pen-Based Recognition of Handwritten Digits [Dataset].
UCI Machine Learning Repository. https://doi.org/10.24432/C5MG6K
Licence: Creative Commons Attribution 4.0 International (CC BY 4.0),
https://creativecommons.org/licenses/by/4.0/. Changes: both files in one, stored as .npz.

F. Alimoglu and E. Alpaydin (1996). Methods of Combining Multiple Classifiers Based on Different
Representations for Pen-based Handwritten Digit Recognition. Proceedings of the Fifth Turkish
Artificial Intelligence and Artificial Neural Networks Symposium (TAINN 96).
"""


@overload
def load_pendigits(*, return_X_y: Literal[False] = False) -> Bunch: ...


@overload
def load_pendigits(*, return_X_y: Literal[True]) -> tuple[NDArray[Any], NDArray[Any]]: ...


def load_pendigits(
    *,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load the Pendigits data set (classification), which ships with the package.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or tuple of arrays
        ``data`` of shape (10992, 16), ``target`` of shape (10992,), ``feature_names``,
        ``target_names`` and ``DESCR``, which names source and licence (CC BY 4.0).
    """
    with (
        (files("pacvote.datasets") / "pendigits.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        data, target = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    if return_X_y:
        return data, target
    from sklearn.utils import Bunch  # slow to import, and not needed for arrays

    return Bunch(
        data=data,
        target=target,
        feature_names=[f"{axis}{point}" for point in range(1, 9) for axis in "xy"],
        target_names=np.arange(10),
        DESCR=_DESCR,
    )
