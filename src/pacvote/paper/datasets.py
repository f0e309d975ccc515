"""The 17 data sets of the paper's overview: what each must look like, and how to get it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_svmlight_files
from sklearn.model_selection import train_test_split

from pacvote.datasets import load_pendigits

Floats = NDArray[np.float64]
Scaling = Literal["as it is", "from -1 to 1", "from 0 to 1"]

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
VARIABLE = "PACVOTE_DATA"
TEST_SHARE = 0.2
SHARE_DIGITS = 4


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """A data set of the overview table.

    Parameters
    ----------
    name : str
        As the paper spells it.
    stem : str
        Name of the ``.npz`` file, with arrays ``X`` and ``y``.
    n_samples, n_features, n_classes, smallest, largest
        What the file must hold; the last two are shares of classes, to four digits.
    texts : tuple of str
        The same in LIBSVM's text form: files whose rows together are the data set.
    scaling : {"as it is", "from -1 to 1", "from 0 to 1"}
        What LIBSVM did to the columns, and the ``.npz`` file did not.
    openml : int, optional
        Identifier of the same rows at OpenML, which states a checksum of its files.
    pixels : bool
        Whether rows are pictures in 256 shades: squared distances are exact whole numbers, and
        hardly any two are equal.
    """

    name: str
    stem: str
    n_samples: int
    n_features: int
    n_classes: int
    smallest: float
    largest: float
    texts: tuple[str, ...]
    scaling: Scaling = "as it is"
    openml: int | None = None
    pixels: bool = False

    @property
    def source(self) -> str:
        """Where the data come from."""
        if self.texts:
            return LIBSVM + ("binary" if self.n_classes == 2 else "multiclass") + ".html"
        return f"https://www.openml.org/d/{self.openml}" if self.openml else "https://uci.edu"


_ROWS = (
    Spec("Adult", "adult", 32561, 123, 2, 0.2408, 0.7592, ("a1a", "a1a.t")),
    Spec("Cod-RNA", "cod-rna", 59535, 8, 2, 0.3333, 0.6667, ("cod-rna",)),
    Spec("Connect-4", "connect-4", 67557, 126, 3, 0.0955, 0.6583, ("connect-4",)),
    Spec("Fashion", "fashion", 70000, 784, 10, 0.1, 0.1, (), openml=40996, pixels=True),
    Spec("Letter", "letter", 20000, 16, 26, 0.0367, 0.0406, (), openml=6),
    Spec(
        "MNIST", "mnist", 70000, 780, 10, 0.0902, 0.1125,
        ("mnist.scale.bz2", "mnist.scale.t.bz2"), "from 0 to 1", 554, pixels=True,
    ),
    Spec("Mushroom", "mushroom", 8124, 22, 2, 0.4820, 0.5180, ()),
    Spec("Pendigits", "pendigits", 10992, 16, 10, 0.0960, 0.1041, ("pendigits", "pendigits.t")),
    Spec("Phishing", "phishing", 11055, 68, 2, 0.4431, 0.5569, ("phishing",)),
    Spec("Protein", "protein", 24387, 357, 3, 0.2153, 0.4638, ("protein.bz2", "protein.t.bz2")),
    # The overview counts the first file alone; the printed results are those of both.
    Spec(
        "SVMGuide1", "svmguide1-full", 7089, 4, 2, 0.4357, 0.5643, ("svmguide1", "svmguide1.t"),
    ),
    Spec("SVMGuide1-3089", "svmguide1", 3089, 4, 2, 0.3525, 0.6475, ("svmguide1",)),
    Spec(
        "SatImage", "satimage", 6435, 36, 6, 0.0973, 0.2382,
        ("satimage.scale", "satimage.scale.t"), "from -1 to 1",
    ),
    Spec("Sensorless", "sensorless", 58509, 48, 11, 0.0909, 0.0909, ("Sensorless",)),
    Spec(
        "Shuttle", "shuttle", 58000, 9, 7, 0.0002, 0.7860,
        ("shuttle.scale", "shuttle.scale.t"), "from -1 to 1", 40685,
    ),
    Spec("Splice", "splice", 3175, 60, 2, 0.4809, 0.5191, ("splice", "splice.t")),
    Spec("USPS", "usps", 9298, 256, 10, 0.0761, 0.1670, ("usps.bz2", "usps.t.bz2"), openml=41082),
    Spec("w1a", "w1a", 49749, 300, 2, 0.0297, 0.9703, ("w1a", "w1a.t")),
)  # fmt: skip
DATASETS = {spec.name: spec for spec in _ROWS}


class MissingDataError(FileNotFoundError):
    """A data set is neither here nor to be had; the message says what to get, and where."""


def load(
    spec: Spec, data_dir: str | os.PathLike[str] | None = None, *, download: bool = False
) -> tuple[Floats, NDArray[np.int64]]:
    """Load a data set and check it against the overview table.

    Parameters
    ----------
    spec : Spec
        One of ``DATASETS``.
    data_dir : path-like, optional
        Where the files are; by default the directory that ``PACVOTE_DATA`` names.
    download : bool, default=False
        Whether to fetch from OpenML what is not there; scikit-learn compares the checksum.

    Returns
    -------
    X : float64 array of shape (n_samples, n_features)
        The rows without missing entries, scaled as LIBSVM ships them.
    y : int64 array of shape (n_samples,)
        Positions in the sorted labels.
    """
    where = Path(data_dir or os.environ.get(VARIABLE) or ".")
    X, labels, scaled = _read(spec, where, download=download)
    whole = ~np.isnan(X).any(axis=1)
    _, y = np.unique(labels[whole], return_inverse=True)
    X = X[whole]
    _check(spec, X, y)
    return (X if scaled else _scaled(X, spec.scaling)), y.astype(np.int64)


def _read(spec: Spec, where: Path, *, download: bool) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Return rows, labels, and whether the rows are scaled already."""
    table = where / f"{spec.stem}.npz"
    if table.is_file():
        with np.load(table, allow_pickle=False) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"], False
    texts = [where / name for name in spec.texts]
    if texts and all(text.is_file() for text in texts):
        parts = load_svmlight_files([str(text) for text in texts], n_features=spec.n_features)
        X = np.vstack([part.toarray() for part in parts[::2]])
        return X, np.concatenate(parts[1::2]), True
    if spec.name == "Pendigits":
        return *load_pendigits(return_X_y=True), True
    if download and spec.openml:
        return _fetched(spec)
    raise MissingDataError(_missing(spec, where, download=download))


def _fetched(spec: Spec) -> tuple[Floats, NDArray[Any], bool]:
    try:
        found = fetch_openml(data_id=spec.openml, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as error:  # no network; a checksum that differs
        msg = f"{spec.name}: OpenML gave nothing ({error}); {_wanted(spec)}"
        raise MissingDataError(msg) from error
    X = np.asarray(found.data, dtype=np.float64)
    return X[:, : spec.n_features], found.target, False


def _wanted(spec: Spec) -> str:
    files = f"{spec.stem}.npz (arrays X, y)"
    if spec.texts:
        files += f" or {' and '.join(spec.texts)} from {spec.source}"
    return f"put {files} into the data directory"


def _missing(spec: Spec, where: Path, *, download: bool) -> str:
    more = "" if download or not spec.openml else ", or allow a download from OpenML"
    return f"{spec.name}: no {spec.stem}.npz in {str(where)!r}; {_wanted(spec)}{more}"


def _check(spec: Spec, X: Floats, y: NDArray[Any]) -> None:
    """Refuse what is not the data set of the table."""
    shares = np.bincount(y) / len(y)
    found = (*X.shape, len(shares), shares.min(), shares.max())
    table = (spec.n_samples, spec.n_features, spec.n_classes, spec.smallest, spec.largest)
    digits = 0.51 * 10.0**-SHARE_DIGITS
    if any(abs(a - b) > (digits if b < 1 else 0) for a, b in zip(found, table, strict=True)):
        msg = (
            f"`data_dir` has another {spec.name}: N, d, classes, least and largest share are "
            f"{found}, but the table says {table}; get it anew: {spec.source}"
        )
        raise ValueError(msg)


def _scaled(X: Floats, scaling: Scaling) -> Floats:
    """Bring each column to [-1, 1], or the whole table to [0, 1]."""
    if scaling == "as it is":
        return X
    if scaling == "from 0 to 1":
        return np.asarray(X / X.max())
    low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray(2 * (X - low) / np.where(high > low, high - low, 1.0) - 1)


def split(
    y: NDArray[np.int64], random: np.random.RandomState
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those to test on: 80 % and 20 % of each class."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=random
    )
    return train, test
