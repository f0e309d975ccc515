"""Commands about tables of features: fit, predict."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from joblib import parallel_config
from rich.table import Table
from rich.text import Text

from pacvote import BOUNDS
from pacvote._files import atomic_write
from pacvote._text import shown
from pacvote.bounds.choice import AUTO, choose
from pacvote.bounds.registry import resolve
from pacvote.cli.frames import Columns, read_frame, read_target
from pacvote.cli.screen import Screen, check_out, complain, whole, write_report
from pacvote.cli.votes import BoundKey, facts_of, show_beside, show_certificate
from pacvote.fitting import PROGRESS
from pacvote.tables.columns import refuse_unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pacvote.ensemble import MajorityVoteClassifier

Ensemble = Literal["forest", "heterogeneous", "vote-of-forests", "vote-of-boosters"]

_TAKES_MISSING = ("forest", "vote-of-forests", "vote-of-boosters")
_MODEL, _CERTIFICATE, _COUNTS = "model.skops", "certificate.json", "counts.npz"
_REPORT = "report.html"
# What `fit` saves beyond the types that skops trusts by itself.
_TRUSTED = {f"{bound.__module__}.{bound.__qualname__}" for bound in BOUNDS.values()} | {
    "fractions.Fraction",
    "pacvote.certificate.Certificate",
    "pacvote.counts.PairCounts",
    "pacvote.ensemble.MajorityVoteClassifier",
    "pacvote.exact.ExactClaim",
    "pacvote.minimize.Solution",
    "pacvote.votes.Votes",
    "sklearn._loss._loss.CyHalfBinomialLoss",
    "sklearn._loss._loss.CyHalfMultinomialLoss",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.link.MultinomialLogit",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn._loss.loss.HalfMultinomialLoss",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
}


def fit(
    data: Path,
    /,
    *,
    target: str,
    ignore: tuple[str, ...] = (),
    out: Path,
    ensemble: Ensemble = "forest",
    bound: BoundKey | None = None,
    delta: float = 0.05,
    voters: int | None = None,
    seed: int = 0,
    screen: Screen | None = None,
) -> None:
    """Train an ensemble on a table, weigh its voters, and certify their vote.

    Parameters
    ----------
    data
        Table of features and a target: .csv, .tsv, .parquet, .arrow or .feather.
    target
        Column to predict. All others are features.
    ignore
        A column that is neither; may be given several times.
    out
        Directory for the model, its certificate, the counts that it rests on, and a report.
    ensemble
        forest: trees, each validated out of its bag. heterogeneous: seven kinds of classifiers.
        vote-of-forests, vote-of-boosters: a few strong models, each validated on its own fold.
    delta
        Probability with which the certificate may be wrong.
    voters
        How many trees (default 100) or strong models (default 3).
    seed
        Of the bags and of the voters.
    """
    screen = screen or Screen()
    X, y, columns = _read(data, target, ignore, screen)
    if ensemble not in _TAKES_MISSING:
        _refuse_missing(X, columns, ensemble)
    vote = _unfitted(ensemble, columns, bound, delta, voters, seed)
    with whole(out) as part:
        _fit(vote, X, y, screen, n_jobs=-1 if ensemble == "forest" else 1)
        _save(vote, columns, part)
        write_report(screen, part / _REPORT, vote.certificate_, vote.counts_)
    table = Table.grid(padding=(0, 2))
    table.add_row("Rows", f"{len(X):,}")
    table.add_row("Features", Text(shown(f"{len(columns.features)}: {columns}")))
    table.add_row("Classes", f"{len(vote.classes_):,}")
    screen.show(table, "")
    if bound == AUTO:
        screen.line(str(choose(vote.counts_)))
    show_certificate(screen, vote.certificate_)
    show_beside(screen, vote.certificate_, vote.counts_)
    screen.files([("Model, certificate and counts", out), ("Report", out / _REPORT)])
    screen.next("pacvote", "predict", out, f"NEW{data.suffix}", "--out", "predictions.csv")
    screen.result({**facts_of(vote.certificate_), "ensemble": ensemble, "out": str(out)})


def _read(
    data: Path, target: str, ignore: tuple[str, ...], screen: Screen
) -> tuple[NDArray[np.float64], NDArray[Any], Columns]:
    """Return features, labels and what the columns are."""
    with screen.working(f"reading {data.name}"):
        y = np.array(read_target(data, target))
        frame = read_frame(data)
        for name in ignore:
            refuse_unknown("ignore", name, frame.columns)
            if name == target:
                msg = f"`ignore` names {name!r}, which is the target; name other columns"
                raise ValueError(msg)
        columns = Columns.of(frame, target, ignore)
        X = columns.array(frame)
    for doubt in () if screen.quiet else columns.doubts(frame):
        complain(f"note: {doubt}")
    return X, y, columns


def _fit(
    vote: MajorityVoteClassifier,
    X: NDArray[np.float64],
    y: NDArray[Any],
    screen: Screen,
    *,
    n_jobs: int,
) -> None:
    n_voters = len(vote.estimator) if isinstance(vote.estimator, list) else vote.n_estimators
    with (
        screen.working(f"fitting {n_voters} voters on {len(X):,} rows", n_voters) as advance,
        # Threads: processes take seconds to start, and trees do not hold the lock.
        parallel_config("threading", n_jobs=n_jobs),
    ):
        token = PROGRESS.set(advance)
        try:
            vote.fit(X, y)
        finally:
            PROGRESS.reset(token)


def _refuse_missing(X: NDArray[np.float64], columns: Columns, ensemble: Ensemble) -> None:
    for name, column in zip(columns.features, X.T, strict=True):
        n_missing = int(np.isnan(column).sum())
        if n_missing:
            msg = (
                f"column {name!r} is empty in {n_missing} rows, which `ensemble` {ensemble} does "
                f"not take; use {' or '.join(_TAKES_MISSING)}, or fill or drop them"
            )
            raise ValueError(msg)


def _unfitted(
    ensemble: Ensemble,
    columns: Columns,
    bound: str | None,
    delta: float,
    voters: int | None,
    seed: int,
) -> MajorityVoteClassifier:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    from pacvote.ensemble import MajorityVoteClassifier
    from pacvote.voters import paper_ensemble

    strong = ensemble.startswith("vote-of")
    if strong and bound != AUTO and resolve(bound or "folds").needs_pairs():
        msg = (
            f"`bound` {bound!r} is about pairs of voters, but the folds of `ensemble` {ensemble} "
            "share no row; use 'folds'"
        )
        raise ValueError(msg)
    settings: dict[str, Any] = {
        "bound": bound or ("folds" if strong else "cctnd"),
        "validation": "folds" if strong else "bootstrap",
        "delta": delta,
        "random_state": seed,
    }
    if ensemble == "heterogeneous":
        if voters is not None:
            msg = f"`voters` is {voters}, but a heterogeneous ensemble has its seven; leave it out"
            raise ValueError(msg)
        members = [
            (name, _encoded(voter, columns, scaled=True)) for name, voter in paper_ensemble()
        ]
        return MajorityVoteClassifier(members, **settings)
    if ensemble == "forest":
        # Fitted trees ask no encoder where all columns are numbers: the fast way.
        learner: Any = DecisionTreeClassifier(max_features="sqrt") if columns.categories else None
    elif ensemble == "vote-of-forests":
        learner = RandomForestClassifier(n_jobs=-1)
    else:
        learner = HistGradientBoostingClassifier(early_stopping=False)
    learner = _encoded(learner, columns, scaled=False) if columns.categories else learner
    settings["n_estimators"] = (3 if strong else 100) if voters is None else voters
    return MajorityVoteClassifier(learner, **settings)


def _encoded(learner: Any, columns: Columns, *, scaled: bool) -> Any:
    """Put encoders before a learner, to be fitted with it in each bag."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    texts = [k for k, name in enumerate(columns.features) if name in columns.categories]
    numbers = [k for k in range(len(columns.features)) if k not in texts]
    if scaled:
        parts: list[Any] = [
            ("numbers", StandardScaler(), numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        ]
    else:
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        parts = [("numbers", "passthrough", numbers), ("categories", codes, texts)]
    return make_pipeline(ColumnTransformer([part for part in parts if part[2]]), learner)


def _save(vote: MajorityVoteClassifier, columns: Columns, out: Path) -> None:
    import skops.io

    # All that predicts is one file, so that no crash leaves halves of two models.
    atomic_write(out / _MODEL, skops.io.dumps({"vote": vote, "columns": columns.to_json()}))
    vote.counts_.save(out / _COUNTS)
    vote.certificate_.save(out / _CERTIFICATE)


def predict(model: Path, data: Path, /, *, out: Path, screen: Screen | None = None) -> None:
    """Predict with a fitted vote.

    Parameters
    ----------
    model
        Directory that `pacvote fit` has written. Nothing in it is executed.
    data
        Table with the columns of the fit, in any order; the target may be missing.
    out
        Table of predictions to write, .csv or .parquet: one row for each row of the data.
    """
    screen = screen or Screen()
    check_out(out, data, ".csv", ".parquet")
    with screen.working(f"reading {data.name}"):
        vote, columns = _load(model / _MODEL)
        X = columns.array(read_frame(data))
    with screen.working(f"predicting {len(X):,} rows"):
        predictions = vote.predict(X)
    frame = pl.DataFrame({columns.target: predictions.tolist()})
    content = io.BytesIO()
    if out.suffix.lower() == ".csv":
        frame.write_csv(content)
    else:
        frame.write_parquet(content)
    atomic_write(out, content.getvalue())
    screen.line(f"{len(frame):,} rows predicted.")
    screen.line(vote.certificate_.claim)
    screen.files([("Predictions", out)])
    screen.next("pacvote", "verify", model / _CERTIFICATE, model / _COUNTS)
    screen.result({"n_rows": len(frame), "claim": vote.certificate_.claim, "out": str(out)})


def _load(path: Path) -> tuple[MajorityVoteClassifier, Columns]:
    """Load a model of the types that `fit` saves, and of no others."""
    import skops.io

    from pacvote.ensemble import MajorityVoteClassifier

    if not path.is_file():
        msg = f"`model` {os.fspath(path.parent)!r} is no directory that `pacvote fit` has written"
        raise ValueError(msg)
    data = path.read_bytes()
    try:
        strangers = set(skops.io.get_untrusted_types(data=data)) - _TRUSTED
    except Exception as error:
        msg = f"{os.fspath(path)!r} is no model that `pacvote fit` has written"
        raise ValueError(msg) from error
    if strangers:
        msg = f"{os.fspath(path)!r} holds {min(strangers)}, which `pacvote fit` does not save"
        raise ValueError(msg)
    saved = skops.io.loads(data, trusted=sorted(_TRUSTED))
    vote = saved.get("vote") if isinstance(saved, dict) else saved
    if not isinstance(vote, MajorityVoteClassifier) or not isinstance(saved, dict):
        msg = f"{os.fspath(path)!r} holds a {type(vote).__name__}, not what `pacvote fit` saves"
        raise TypeError(msg)
    return vote, _columns(path, saved.get("columns"))


def _columns(path: Path, text: object) -> Columns:
    try:
        return Columns.from_json(str(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{os.fspath(path)!r} does not list the columns of a model: {error}"
        raise ValueError(msg) from error
