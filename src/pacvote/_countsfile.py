"""The file of pair counts: a ``.npz`` that is the same for the same counts and safe to read.

Members are stored, not deflated, so that no file can unfold to more than its own size.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacvote._files import atomic_write

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_FORMAT = "pacvote pair counts"
_VERSION = 1
_HEADER = "header"  # JSON, as bytes


def save(
    path: str | os.PathLike[str],
    voters: tuple[str, ...],
    arrays: Mapping[str, NDArray[np.int64]],
    n_unlabelled: int,
) -> None:
    """Write named arrays of counts."""
    header: dict[str, object] = {"format": _FORMAT, "version": _VERSION, "voters": voters}
    if n_unlabelled:
        header["n_unlabelled"] = n_unlabelled
    members = {_HEADER: np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}
    members |= {name: _smallest(array) for name, array in arrays.items()}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            # A ZipInfo has a fixed date, where a name would be given today's.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    atomic_write(path, data.getvalue())


def _smallest(counts: NDArray[np.int64]) -> NDArray[Any]:
    """Keep one column of equal ones, one row of equal ones, and no more bytes than needed."""
    if (counts == counts[:, :1]).all():
        counts = counts[:, :1]
    if (counts == counts[:1]).all():
        counts = counts[:1]
    dtype = np.min_scalar_type(counts.max()).newbyteorder("<")
    return np.ascontiguousarray(counts, dtype=dtype)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open a file; whatever its content then leads to becomes one line about that file."""
    data = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except Exception as error:  # the parsers of zip, npy and JSON raise some ten kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        msg = f"`path` {str(path)!r} is not a file of pair counts: {reason}"
        raise ValueError(msg) from error


def load(
    archive: zipfile.ZipFile, names: Sequence[str], n_voters: int
) -> dict[str, NDArray[np.int64]]:
    """Read the arrays that `save` has written."""
    expected = sorted(f"{name}.npy" for name in (_HEADER, *names))
    if sorted(archive.namelist()) != expected:
        msg = f"it must hold {', '.join(expected)}"
        raise ValueError(msg)
    shape = (n_voters, n_voters)
    return {name: _matrix(_read(archive, name), shape, name) for name in names}


def _read(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        msg = f"`{name}` is compressed; counts are stored as they are"
        raise ValueError(msg)
    data = archive.read(member)
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        msg = f"`{name}` is not an array of NPY version 1.0"
        raise ValueError(msg)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "iu" or len(data) - file.tell() != math.prod(shape) * dtype.itemsize:
        msg = f"`{name}` declares {dtype} {shape}, which is not what it holds or not integers"
        raise ValueError(msg)
    flat = np.frombuffer(data, dtype=dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def load_header(archive: zipfile.ZipFile) -> tuple[tuple[str, ...], int]:
    """Read the names of the voters and the number of unlabelled rows."""
    if archive.namelist().count(f"{_HEADER}.npy") != 1:
        msg = f"it must hold {_HEADER}.npy, once"
        raise ValueError(msg)
    content = json.loads(_read(archive, _HEADER).tobytes())
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        msg = f"its header does not say {_FORMAT!r}"
        raise ValueError(msg)
    if content.get("version") != _VERSION:
        msg = f"it has version {content.get('version')!r}; this pacvote reads version {_VERSION}"
        raise ValueError(msg)
    voters = content.get("voters")
    if not isinstance(voters, list) or not all(isinstance(name, str) for name in voters):
        msg = "its header must list the names of the voters"
        raise ValueError(msg)
    n_unlabelled = content.get("n_unlabelled", 0)
    if type(n_unlabelled) is not int or not 0 <= n_unlabelled < 2**63:
        msg = "its number of unlabelled rows is none"
        raise ValueError(msg)
    return tuple(voters), n_unlabelled


def _matrix(array: NDArray[Any], shape: tuple[int, int], name: str) -> NDArray[np.int64]:
    if array.size and int(array.max()) > np.iinfo(np.int64).max:
        msg = f"`{name}` exceeds int64"
        raise ValueError(msg)
    if array.ndim != len(shape):
        msg = f"`{name}` must be a matrix, got shape {array.shape}"
        raise ValueError(msg)
    return np.broadcast_to(array.astype(np.int64), shape)
