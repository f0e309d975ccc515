"""Tables of features in files, as arrays: numbers, and categories as codes.

The code of a category is its place among all strings of its column, sorted. That is a way to
write strings in an array of numbers, no encoding: each voter encodes the codes of its own bag
anew, in their order, and so does what it would do with the strings themselves.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import polars as pl

from pacvote.tables.columns import (
    CSV,
    MISSING,
    TEXT,
    reading,
    refuse_empty,
    refuse_unknown,
    scan,
    suffix_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_DECIMALS = r"^\s*[-+]?[0-9]*\.[0-9]*[1-9][0-9]*\s*$"
_MOSTLY = 0.5  # of the cells
_FORMAT = "pacvote columns"


@final
@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a model was fitted on.

    Parameters
    ----------
    target : str
        The column that is predicted.
    features : tuple of str
        The others, in their order.
    categories : dict of str to tuple of str
        Those of the features that are no numbers, with their categories, sorted.
    ignored : tuple of str
        Columns that are neither target nor feature, which may be there or not.
    """

    target: str
    features: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    ignored: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pl.DataFrame, target: str, ignored: Sequence[str] = ()) -> Self:
        """Settle which features are numbers."""
        features = tuple(name for name in frame.columns if name not in (target, *ignored))
        if not features:
            msg = f"`target` {target!r} is the only column left; give features beside it"
            raise ValueError(msg)
        categories = {
            name: tuple(frame[name].drop_nulls().unique().sort())
            for name in features
            if frame[name].dtype == pl.String
        }
        return cls(target, features, categories, tuple(ignored))

    def __str__(self) -> str:
        texts = _some(tuple(self.categories))
        numbers = len(self.features) - len(self.categories)
        return f"{numbers} as numbers, {len(self.categories)} as categories" + (
            texts and f" ({texts})"
        )

    def doubts(self, frame: pl.DataFrame) -> Iterator[str]:
        """Yield what is odd about columns that were taken for categories."""
        for name, texts in self.categories.items():
            present = frame[name].drop_nulls()
            numbers = present.str.strip_chars().cast(pl.Float64, strict=False)
            words = present.filter(numbers.is_null() & ~present.is_in(MISSING))
            if 0 < len(words) < _MOSTLY * len(present):
                yield (
                    f"column {name!r} holds numbers and {words[0]!r}, so it was taken for text; "
                    f"leave cells empty where a number is missing, or --ignore {name!r}"
                )
            elif len(texts) > max(20, _MOSTLY * len(present)):
                yield (
                    f"column {name!r} is text that differs in most rows, from which nothing is "
                    f"learnt; if it only names the rows: --ignore {name!r}"
                )

    def array(self, frame: pl.DataFrame) -> NDArray[np.float64]:
        """Return the features; NaN where one is missing, a number of its own for new categories."""
        _refuse_other_columns(frame.columns, self)
        columns = []
        for name in self.features:
            column = frame[name]
            if name in self.categories:
                codes = {text: float(code) for code, text in enumerate(self.categories[name])}
                column = column.cast(pl.String).replace_strict(codes, default=float(len(codes)))
                column = pl.select(pl.when(frame[name].is_not_null()).then(column)).to_series()
            elif column.dtype == pl.String and column.null_count() < len(column):
                first = column.drop_nulls()[0]
                msg = f"column {name!r} was numbers when the model was fitted, now it has {first!r}"
                raise ValueError(msg)
            columns.append(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
        return np.column_stack(columns)

    def to_json(self) -> str:
        """Return the columns as text."""
        return json.dumps({"format": _FORMAT, "version": 1, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` has written."""
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            msg = f"it does not say {_FORMAT!r}"
            raise ValueError(msg)
        categories = {name: tuple(texts) for name, texts in content["categories"].items()}
        names = (tuple(content[key]) for key in ("features", "ignored"))
        return cls(content["target"], next(names), categories, next(names))


def read_frame(path: Path) -> pl.DataFrame:
    """Read a table: numbers where a column holds nothing else, text elsewhere."""
    if suffix_of(path) == ".npz":
        msg = f"`path` {str(path)!r} has no named columns; use .csv, .parquet or .arrow"
        raise ValueError(msg)
    lazy = scan(path)
    with reading(path):
        frame = lazy.collect()
    if not len(frame):
        refuse_empty(path)
    csv = suffix_of(path) in CSV
    return frame.with_columns(_cells(column) if csv else _typed(column) for column in frame)


def _cells(column: pl.Series) -> pl.Series:
    present = pl.select(pl.when(~column.is_in(MISSING)).then(column)).to_series()
    numbers = present.str.strip_chars().cast(pl.Float64, strict=False)
    if numbers.null_count() == present.null_count():
        return numbers.fill_nan(None).rename(column.name)
    return column


def _typed(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if dtype in TEXT:
        return column.cast(pl.String)
    if dtype.is_float():
        return column.fill_nan(None)
    if dtype.is_integer() or dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.UInt8) if dtype == pl.Boolean else column
    msg = f"column {column.name!r} is {dtype}; make it numbers, strings or categories, or drop it"
    raise ValueError(msg)


def read_target(path: Path, target: str) -> list[Any]:
    """Return the labels as they are in the file; those of CSV are text, unless all are integers."""
    lazy = scan(path)
    with reading(path):
        names = lazy.collect_schema().names()
        refuse_unknown("target", target, names)
        column = lazy.select(target).collect()[target]
    if column.null_count():
        row = int(column.is_null().arg_true()[0]) + 1
        msg = f"target column {target!r} is empty in row {row}; drop rows without a label"
        raise ValueError(msg)
    if suffix_of(path) in CSV:
        column = _labels(column)
    if not (column.dtype in TEXT or column.dtype.is_integer() or column.dtype == pl.Boolean):
        msg = (
            f"target column {target!r} is {column.dtype}, such as {column[0]!r}; pacvote predicts "
            "classes, not numbers: name a column of whole numbers, text or booleans"
        )
        raise ValueError(msg)
    if column.n_unique() == 1:
        msg = f"target column {target!r} holds one class only, {column[0]!r}; give rows of others"
        raise ValueError(msg)
    return list(column.cast(pl.String) if column.dtype in TEXT else column)


def _labels(cells: pl.Series) -> pl.Series:
    """Return the labels that cells of a CSV file stand for; numbers with decimals are none."""
    if cells.str.contains(r"^(?:0|-?[1-9][0-9]{0,17})$").all():
        return cells.cast(pl.Int64)
    numbers = cells.str.strip_chars().cast(pl.Float64, strict=False)
    return numbers if numbers.is_not_null().all() and cells.str.contains(_DECIMALS).any() else cells


def _refuse_other_columns(names: Sequence[str], columns: Columns) -> None:
    """Refuse columns that are missing or new, and say which; their order is free."""
    missing = [name for name in columns.features if name not in names]
    known = (*columns.features, columns.target, *columns.ignored)
    new = [name for name in names if name not in known]
    if missing or new:
        parts = [f"lacks {_some(missing)}"] if missing else []
        parts += [f"has {_some(new)}, which the model does not know"] if new else []
        msg = f"the table {' and '.join(parts)}; give the columns that the model was fitted on"
        raise ValueError(msg)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
