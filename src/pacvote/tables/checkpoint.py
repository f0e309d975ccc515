"""How far a count has come, in a file from which it can go on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import time
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from pacvote._files import atomic_write
from pacvote.counts import PairCounts
from pacvote.tables.arrays import opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pacvote.tables.parts import Part

_FORMAT = "pacvote checkpoint 1"
_ARRAYS = ("pair_rows", "pair_errors", "left_errors")
_SHARE = 20  # writing takes at most one part in so many of the time


@final
@dataclass(frozen=True, slots=True)
class Done:
    """The counts of `n_samples` rows: of the first `n_files` files, and `row` rows of the next."""

    counts: PairCounts
    n_files: int = 0
    row: int = 0
    n_samples: int = 0

    @classmethod
    def nothing(cls, parts: Sequence[Part]) -> Done:
        """Begin."""
        voters = parts[0].layout.voters
        return cls(PairCounts.zero(len(voters), voters))


@final
class Checkpoint:
    """A file that holds what is done, and of which table with which options it was."""

    def __init__(self, path: Path, parts: Sequence[Part]) -> None:
        self._path = path
        self._parts = parts
        self._identity = _identity(parts)
        self._due = 0.0

    def load(self) -> Done:
        """Return what is done; nothing, where there is no file yet."""
        if not self._path.exists():
            return Done.nothing(self._parts)
        with opened(self._path, "checkpoint", "a checkpoint of this count") as arrays:
            return self._read(arrays)

    def offer(self, done: Done) -> None:
        """Save, but not so often that it slows the counting down."""
        start = time.monotonic()
        if start >= self._due:
            self.save(done)
            now = time.monotonic()
            self._due = now + _SHARE * (now - start)

    def save(self, done: Done) -> None:
        """Write the file, whole or not at all."""
        data = io.BytesIO()
        arrays = {name: getattr(done.counts, name) for name in _ARRAYS}
        place = np.array([done.n_files, done.row, done.n_samples], dtype=np.int64)
        identity = np.array(json.dumps(self._identity))
        np.savez(data, allow_pickle=False, identity=identity, place=place, **arrays)
        atomic_write(self._path, data.getvalue())

    def _read(self, arrays: Mapping[str, NDArray[Any]]) -> Done:
        self._refuse_other(json.loads(str(arrays["identity"])))
        rows, both, left = (arrays[name] for name in _ARRAYS)
        place = map(int, arrays["place"])
        return Done(PairCounts(rows, both, left, self._parts[0].layout.voters), *place)

    def _refuse_other(self, identity: Any) -> None:
        for name, ours in self._identity.items():
            if not isinstance(identity, dict) or identity.get(name) != ours:
                msg = (
                    f"it was begun with another {name}; give what it was begun with, or remove it "
                    "to begin anew"
                )
                raise ValueError(msg)


def _identity(parts: Sequence[Part]) -> dict[str, str | None]:
    """Return what must be the same to go on; the counts do not depend on anything else."""
    layout = parts[0].layout
    files = [(part.path.name, *astuple(part.stamp)) for part in parts]
    return {
        "kind of file": _FORMAT,
        "version of pacvote": importlib.metadata.version("pacvote"),
        "set of voters": _digest(layout.voters),
        "label": layout.label,
        "null": layout.null,
        "content of the files": _digest(files),
    }


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
