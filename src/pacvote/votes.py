"""What each voter said, on which rows, as packed bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from pacvote._inputs import check_bool, check_voters, read_only, read_table
from pacvote._packing import Codes, Source, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The evidence: who erred on which labelled row.

    Made by `from_predictions`, `from_errors` or `pacvote.votes_of`. Arrays are read-only.

    Parameters
    ----------
    error_bits : uint64 array of shape (n_voters, ceil(n_samples / 64))
        Bit ``r % 64`` of word ``r // 64``: was the voter validated on row ``r``, and wrong?
        The bits past the last row are zero.
    validation_bits : uint64 array of that shape, or None
        Was the voter validated on the row? None: every voter on every row (shared rows).
    n_samples : int
        Rows of the table.
    voters : tuple of str
        A unique name for each voter.
    vote_codes : unsigned array of shape (n_samples, n_voters), or None
        On shared rows, the position in `classes` of what each voter said.
    label_codes : unsigned array of shape (n_samples,), or None
        On shared rows, the position in `classes` of the label.
    classes : array of shape (n_classes,), or None
        On shared rows, all labels that were given or predicted, sorted.

    Guarantee
    ---------
    The certificates assume that rows are i.i.d. and that whether a voter is validated on a row
    depends neither on the row nor on its label.
    """

    error_bits: NDArray[np.uint64]
    validation_bits: NDArray[np.uint64] | None
    n_samples: int
    voters: tuple[str, ...]
    vote_codes: NDArray[np.unsignedinteger[Any]] | None = None
    label_codes: NDArray[np.unsignedinteger[Any]] | None = None
    classes: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "voters", check_voters(self.voters, len(self.voters)))
        self._check_bits("error_bits", self.error_bits)
        if self.validation_bits is not None:
            self._check_bits("validation_bits", self.validation_bits)
            if (self.error_bits & ~self.validation_bits).any():
                msg = "`error_bits` has an error where `validation_bits` has no validation"
                raise ValueError(msg)
        self._check_codes()
        for name in ("error_bits", "validation_bits", "vote_codes", "label_codes", "classes"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, read_only(array))

    def _check_bits(self, name: str, bits: NDArray[np.uint64]) -> None:
        shape = (len(self.voters), -(-self.n_samples // 64))
        if bits.dtype != np.uint64 or bits.shape != shape or 0 in shape:
            msg = f"`{name}` must be uint64 of shape {shape}, got {bits.dtype} {bits.shape}"
            raise ValueError(msg)
        used = self.n_samples % 64
        if used and (bits[:, -1] >> np.uint64(used)).any():
            msg = f"`{name}` must be zero past row {self.n_samples}; clear the padding bits"
            raise ValueError(msg)

    def _check_codes(self) -> None:
        given = (self.vote_codes, self.label_codes, self.classes)
        if [array is not None for array in given] != [self.shared] * 3:
            msg = (
                "`vote_codes`, `label_codes`, `classes` must be given exactly where rows are shared"
            )
            raise ValueError(msg)
        if self.vote_codes is None or self.label_codes is None or self.classes is None:
            return
        shape = (self.n_samples, self.n_voters)
        for name, codes, expected in (
            ("vote_codes", self.vote_codes, shape),
            ("label_codes", self.label_codes, shape[:1]),
        ):
            if codes.dtype.kind != "u" or codes.shape != expected:
                msg = f"`{name}` must be unsigned {expected}, got {codes.dtype} {codes.shape}"
                raise ValueError(msg)
            if codes.max() >= len(self.classes):
                msg = f"`{name}` has {codes.max()}, but there are {len(self.classes)} `classes`"
                raise ValueError(msg)

    @classmethod
    def from_predictions(
        cls,
        predictions: ArrayLike,
        y: ArrayLike,
        validated: ArrayLike | None = None,
        voters: Sequence[str] | None = None,
    ) -> Self:
        """Compare predictions with labels.

        Parameters
        ----------
        predictions : array, list or data frame of shape (n_samples, n_voters)
            The label that each voter predicts: whole numbers, strings, booleans or categories.
        y : array, list or series of shape (n_samples,)
            The labels, of the same kind.
        validated : boolean array or data frame of shape (n_samples, n_voters), optional
            Where the voter was validated; elsewhere predictions are not looked at. Default:
            everywhere. It must not depend on the rows or their labels.
        voters : sequence of str, optional
            Names; by default the columns of a data frame, else "0", "1", ...

        Returns
        -------
        Votes

        Raises
        ------
        ValueError, TypeError
            For labels that are missing or that cannot be compared exactly, and for shapes that
            do not fit.
        """
        source = Source(predictions, y, validated, voters)
        codes = None if source.mask else Codes(source)
        error_bits, validation_bits = pack(source, codes=codes)
        kept = codes.by_class() if codes else ()
        return cls(error_bits, validation_bits, source.n_samples, source.voters, *kept)

    @classmethod
    def from_errors(
        cls,
        errors: ArrayLike,
        validated: ArrayLike | None = None,
        voters: Sequence[str] | None = None,
    ) -> Self:
        """Take errors as they are, as in a problem whose labels are all False.

        Equivalent to ``Votes.from_predictions(errors, numpy.zeros(n_samples, bool), ...)``.

        Parameters
        ----------
        errors : boolean array of shape (n_samples, n_voters)
            Where each voter errs.
        validated : boolean array of shape (n_samples, n_voters), optional
            Where each voter was validated; elsewhere errors are not looked at.
        voters : sequence of str, optional
            Names, as in `from_predictions`.

        Returns
        -------
        Votes
        """
        table = read_table(errors, "errors")
        check_bool(table, "errors")
        return cls.from_predictions(errors, np.zeros(table.shape[0], bool), validated, voters)

    @property
    def n_voters(self) -> int:
        """Number of voters."""
        return len(self.voters)

    @property
    def shared(self) -> bool:
        """Whether every voter was validated on every row."""
        return self.validation_bits is None

    @property
    def errors(self) -> NDArray[np.bool_]:
        """Where each voter errs, of shape (n_samples, n_voters); False where not validated."""
        return _unpack(self.error_bits, self.n_samples)

    @property
    def validated(self) -> NDArray[np.bool_]:
        """Where each voter was validated, of shape (n_samples, n_voters)."""
        if self.validation_bits is None:
            return np.ones((self.n_samples, self.n_voters), dtype=np.bool_)
        return _unpack(self.validation_bits, self.n_samples)

    @property
    def labels(self) -> NDArray[Any]:
        """The labels `y`; ValueError where rows are not shared."""
        if self.classes is None or self.label_codes is None:
            msg = "`labels` are kept only where all voters share all rows; use your own `y`"
            raise ValueError(msg)
        return np.asarray(self.classes[self.label_codes])


def _unpack(bits: NDArray[np.uint64], n_samples: int) -> NDArray[np.bool_]:
    octets = bits.astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=n_samples, bitorder="little").T.astype(np.bool_)
