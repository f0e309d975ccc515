"""Tables of features in files, as arrays: numbers, and categories as codes.

The code of a category is its place among all strings of its column, sorted. That is a way to
write strings in an array of numbers, no encoding: each voter encodes the codes of its own bag
anew, in their order, and so does what it would do with the strings themselves.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import polars as pl

from pacvote.tables.columns import CSV, reading, refuse_empty, scan, suffix_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_MISSING = ("NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")
_TEXT = (pl.String, pl.Categorical, pl.Enum)
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
    """

    target: str
    features: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, frame: pl.DataFrame, target: str) -> Self:
        """Settle which features are numbers."""
        features = tuple(name for name in frame.columns if name != target)
        texts = {name for name in features if frame[name].dtype == pl.String}
        categories = {
            name: tuple(frame[name].drop_nulls().unique().sort())
            for name in features
            if name in texts
        }
        return cls(target, features, categories)

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
        return cls(content["target"], tuple(content["features"]), categories)


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
    present = pl.select(pl.when(~column.is_in(_MISSING)).then(column)).to_series()
    numbers = present.str.strip_chars().cast(pl.Float64, strict=False)
    if numbers.null_count() == present.null_count():
        return numbers.fill_nan(None).rename(column.name)
    return column


def _typed(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if dtype in _TEXT:
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
        if target not in names:
            near = difflib.get_close_matches(target, names, n=1, cutoff=0.0)
            msg = f"`target` {target!r} is no column; did you mean {near[0]!r}?"
            raise ValueError(msg)
        column = lazy.select(target).collect()[target]
    if column.null_count():
        row = int(column.is_null().arg_true()[0]) + 1
        msg = f"target column {target!r} is empty in row {row}; drop rows without a label"
        raise ValueError(msg)
    if suffix_of(path) in CSV and column.str.contains(r"^(?:0|-?[1-9][0-9]{0,17})$").all():
        column = column.cast(pl.Int64)
    if not (column.dtype in _TEXT or column.dtype.is_integer() or column.dtype == pl.Boolean):
        msg = f"target column {target!r} is {column.dtype}; pacvote predicts classes, not numbers"
        raise ValueError(msg)
    return list(column.cast(pl.String) if column.dtype in _TEXT else column)


def _refuse_other_columns(names: Sequence[str], columns: Columns) -> None:
    """Refuse columns that are missing or new, and say which; their order is free."""
    missing = [name for name in columns.features if name not in names]
    new = [name for name in names if name not in (*columns.features, columns.target)]
    if missing or new:
        parts = [f"lacks {_some(missing)}"] if missing else []
        parts += [f"has {_some(new)}, which the model does not know"] if new else []
        msg = f"the table {' and '.join(parts)}; give the columns that the model was fitted on"
        raise ValueError(msg)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
