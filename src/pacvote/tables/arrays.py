"""Votes in the arrays of an ``.npz`` file."""

from __future__ import annotations

import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacvote.votes import Votes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    PathLike = str | os.PathLike[str]

UNFOLDED, LARGEST_RATIO = 2**26, 50  # bytes, and how many times the file's own, if that is more


def read_npz(path: PathLike, label: str | None, null: str | None, ignore: Sequence[str]) -> Votes:
    """Read what `read_votes` says of such files."""
    for argument, value in (("label", label), ("null", null), ("ignore", ignore)):
        if value:
            msg = (
                f"`{argument}` {value!r} is for tables with named columns; an .npz file holds "
                "`predictions`, `y` and, where voters have different rows, `validated`"
            )
            raise ValueError(msg)
    with opened(path) as arrays:
        for name in ("predictions", "y"):
            if name not in arrays:
                msg = f"it has no array {name!r}, only {', '.join(arrays) or 'none at all'}"
                raise ValueError(msg)
        predictions, y = arrays["predictions"], arrays["y"]
        if not predictions.dtype.itemsize or not y.dtype.itemsize:  # any number fits in a file
            msg = "it holds labels of no bytes; save them as integers or fixed-width strings"
            raise ValueError(msg)
        return Votes.from_predictions(predictions, y, arrays.get("validated"))


@contextmanager
def opened(
    path: PathLike, argument: str = "path", what: str = "a table of votes"
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open a file of arrays; whatever its content then leads to becomes one line about it."""
    with Path(path).open("rb"):  # a missing file is an OSError
        pass
    try:
        with zipfile.ZipFile(path) as archive:  # else NumPy would take the file for a pickle
            _refuse_bomb(archive, Path(path).stat().st_size)
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except Exception as error:  # the parsers of zip, zlib and npy raise some ten kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "allow_pickle" in reason:
            reason = "it holds Python objects; save labels as integers or fixed-width strings"
        msg = f"`{argument}` {str(path)!r} is not {what}: {reason}"
        raise ValueError(msg) from error


def _refuse_bomb(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse what would unfold to far more than votes do."""
    unfolded = sum(member.file_size for member in archive.infolist())
    if unfolded > max(UNFOLDED, LARGEST_RATIO * size):
        msg = f"{size:,} bytes would unfold to {unfolded:,}; save with np.savez, uncompressed"
        raise ValueError(msg)
