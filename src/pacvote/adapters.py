"""Votes of ensembles that are fitted already."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from pacvote._inputs import default_voters
from pacvote.bounds.base import Bound
from pacvote.ensemble import MajorityVoteClassifier
from pacvote.fitting import (
    Rowset,
    gather,
    hear_all,
    is_frame,
    positions,
    read_labels,
    read_rows,
)
from pacvote.guards import (
    check_candidates,
    count_candidates,
    refuse_groups,
    refuse_sample_weight,
    refuse_search,
    refuse_unlike_bags,
    warn_of_copies,
)
from pacvote.recovery import (
    Member,
    check_recovered,
    recover_bagging,
    recover_forest,
)
from pacvote.seen import refuse_stratified, refuse_training_rows
from pacvote.votes import Votes

FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
BOOSTED = (AdaBoostClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier)
BOOSTERS = ("xgboost", "lightgbm", "catboost")


def votes_of(
    fitted: Any, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None
) -> Votes:
    """Return what the voters of a fitted ensemble say of rows that they have not seen.

    Parameters
    ----------
    fitted : RandomForestClassifier, ExtraTreesClassifier or BaggingClassifier
        Then X, y are the rows that it was fitted on, and its out-of-bag votes are taken.
        Or a VotingClassifier, a FrozenEstimator, a Pipeline, or a list of classifiers or of
        (name, classifier): then X, y are rows that no voter has seen, drawn without a look at
        labels. A classifier that is not listed goes into a list.
    X : array, sparse matrix or data frame of shape (n_samples, n_features)
        The rows.
    y : array-like of shape (n_samples,)
        The labels.
    groups : array-like of shape (n_samples,), default=None
        Refused unless no two rows share a group.
    sample_weight : array-like of shape (n_samples,), default=None
        Refused.

    Returns
    -------
    Votes

    Raises
    ------
    ValueError, TypeError
        For an ensemble that may have seen what validates it, and for rows that are not those of
        the fit, as far as that can be seen; the message says what to do instead.

    Guarantee
    ---------
    No voter has seen the rows that its votes are taken from, if the ensemble and the rows are
    what they seem to be: compared are numbers of rows, classes in each bag, and leaves that the
    rows reach.
    """
    if _is_search(fitted):
        refuse_search(fitted)
    return _evidence(fitted, X, y, groups, sample_weight).votes


def reweight(
    fitted: Any,
    X: Any,
    y: Any,
    *,
    bound: str | Bound = "cctnd",
    delta: float | Fraction = 0.05,
    prior: ArrayLike | None = None,
    n_candidates: int = 1,
    n_jobs: int | None = None,
    groups: Any = None,
    sample_weight: Any = None,
) -> MajorityVoteClassifier:
    """Weigh and certify the vote of a fitted ensemble, without fitting it anew.

    Parameters
    ----------
    fitted : fitted ensemble, or list of fitted classifiers
        As in `votes_of`; or, with `n_candidates`, a search such as ``GridSearchCV`` over one of
        the ensembles that have out-of-bag rows, or over MajorityVoteClassifier, which is then
        weighed anew by the rows of its own fit. Any other winner of a search has seen all rows
        that the search was given: put it into a list, and give new rows.
    X : array, sparse matrix or data frame of shape (n_samples, n_features)
        The rows that the ensemble was fitted on, or a hold-out, as in `votes_of`.
    y : array-like of shape (n_samples,)
        The labels.
    bound : str or Bound, default="cctnd"
        The bound that is minimised and certified.
    delta : float or Fraction, default=0.05
        Probability with which the certificate may be wrong.
    prior : array-like of shape (n_voters,), default=None
        Weights fixed before any row that validates was seen; uniform by default.
    n_candidates : int, default=1
        How many ensembles were compared on these rows, of which this one was chosen. The
        certificate is issued at ``delta / n_candidates``.
    n_jobs : int, default=None
        Voters to ask at the same time, as in scikit-learn.
    groups : array-like of shape (n_samples,), default=None
        Refused unless no two rows share a group.
    sample_weight : array-like of shape (n_samples,), default=None
        Refused.

    Returns
    -------
    MajorityVoteClassifier
        With the voters of `fitted`. Its ``fit`` would train anew.

    Guarantee
    ---------
    That of `MajorityVoteClassifier`, where `votes_of` gives its own. For a choice among
    `n_candidates` all their certificates hold at once.
    """
    n_candidates = check_candidates(n_candidates)
    if _is_search(fitted):
        if n_candidates == 1:
            refuse_search(fitted)
        check_candidates(n_candidates, count_candidates(fitted))
        fitted = _winner(fitted)
        if type(fitted) is MajorityVoteClassifier:
            return _paid(fitted, n_candidates, bound, delta, prior)
    found = _evidence(fitted, X, y, groups, sample_weight, n_jobs)
    vote = found.owner.set_params(bound=bound, delta=delta, prior=prior)
    vote.estimators_, vote.classes_ = list(found.voters), found.classes
    vote.n_candidates_ = n_candidates
    return vote._weigh(found.votes, bound)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Evidence:
    """Voters, what they said, and a classifier that knows the columns."""

    votes: Votes
    voters: Sequence[Any]
    classes: NDArray[Any]
    owner: MajorityVoteClassifier


def _is_search(fitted: Any) -> bool:
    return isinstance(fitted, BaseEstimator) and "cv_results_" in vars(fitted)


def _winner(search: Any) -> Any:
    """Return the ensemble that a search has chosen and fitted on all rows."""
    winner = vars(search).get("best_estimator_")
    if winner is None:
        msg = (
            f"`fitted` is a {type(search).__name__} with refit=False, which keeps no ensemble; "
            "use refit=True"
        )
        raise ValueError(msg)
    if type(winner) not in (*FORESTS, BaggingClassifier, MajorityVoteClassifier):
        refuse_unlike_bags(search, winner)
    return winner


def _paid(
    winner: MajorityVoteClassifier,
    n_candidates: int,
    bound: str | Bound,
    delta: float | Fraction,
    prior: ArrayLike | None,
) -> MajorityVoteClassifier:
    """Weigh the winner of a search anew, by what its voters said in its own fit."""
    vote = copy.copy(winner).set_params(bound=bound, delta=delta, prior=prior)
    vote.n_candidates_ = n_candidates
    unlabelled = winner.counts_.n_unlabelled > 0
    return vote._minimize(vote._bound(unlabelled=unlabelled), delta)


def _evidence(
    fitted: Any, X: Any, y: Any, groups: Any, sample_weight: Any, n_jobs: int | None = None
) -> _Evidence:
    y = read_labels(y)
    refuse_sample_weight(sample_weight)
    refuse_groups(groups, len(y))
    check_consistent_length(X, y)
    warn_of_copies(X)
    if type(fitted) in (*FORESTS, BaggingClassifier):
        check_is_fitted(fitted)
        return _out_of_bag(fitted, X, y, n_jobs)
    names, voters = _listed(fitted)
    return _held_out(names, voters, X, y, n_jobs)


def _out_of_bag(fitted: Any, X: Any, y: NDArray[Any], n_jobs: int | None) -> _Evidence:
    found = recover_forest(fitted) if type(fitted) in FORESTS else recover_bagging(fitted)
    if len(y) != fitted._n_samples:
        msg = (
            f"`X` has {len(y)} rows, but `fitted` was fitted on {fitted._n_samples}; pass the "
            "whole table of the fit, rows in the same order, or [fitted] and rows it has not seen"
        )
        raise ValueError(msg)
    owner = MajorityVoteClassifier(
        found.template,
        n_estimators=len(found.voters),
        validation="bootstrap" if found.replaced else "subsample",
        max_samples=found.max_samples,
        n_jobs=n_jobs,
    )
    owner.n_features_in_ = fitted.n_features_in_
    if "feature_names_in_" in vars(fitted):
        owner.feature_names_in_ = fitted.feature_names_in_
    X = read_rows(owner, X, found.voters)
    X = np.asarray(X) if is_frame(X) else X
    rows = Rowset(X, _codes(y, fitted.classes_), fitted.classes_)
    check_recovered(found, rows, n_jobs)
    heard = hear_all(found.voters, rows, found.bags, n_jobs)
    votes = gather(heard, rows, default_voters(len(found.voters)), None)
    return _Evidence(votes, found.voters, fitted.classes_, owner)


def _codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.integer[Any]]:
    given = set(np.unique(y).tolist())
    if given != set(classes.tolist()):
        msg = (
            f"`y` has the classes {sorted(given)}, but `fitted` was fitted on {classes.tolist()}; "
            "pass the labels of the fit"
        )
        raise ValueError(msg)
    return positions(y, classes)


def _listed(fitted: Any) -> tuple[Sequence[str], Sequence[Any]]:
    """Return names and voters of what is validated on a hold-out."""
    if isinstance(fitted, list | tuple):
        pairs = [item if isinstance(item, tuple) else (None, item) for item in fitted]
        names = [str(index) if name is None else name for index, (name, _) in enumerate(pairs)]
        voters = [voter for _, voter in pairs]
        for name, voter in zip(names, voters, strict=True):
            _check_voter(name, voter)
        if not voters:
            msg = "`fitted` is an empty list; give at least one fitted classifier"
            raise ValueError(msg)
        return names, voters
    if type(fitted) is VotingClassifier:
        check_is_fitted(fitted)
        names = [name for name, voter in fitted.estimators if voter != "drop"]
        return names, [Member(voter, fitted.le_.classes_) for voter in fitted.estimators_]
    if isinstance(fitted, FrozenEstimator | Pipeline):
        _check_voter("0", fitted)
        return ["0"], [fitted]
    raise _kind_error(fitted)


def _check_voter(name: str, voter: Any) -> None:
    if isinstance(voter, BaseEstimator):
        check_is_fitted(voter)
        if is_classifier(voter):
            return
    elif callable(getattr(voter, "predict", None)):
        return
    msg = f"`fitted` has {name!r}, a {type(voter).__name__}; every voter must be a classifier"
    raise TypeError(msg)


def _kind_error(fitted: Any) -> TypeError:
    kind = type(fitted).__name__
    whole = "certify the whole model as one voter: pass [fitted], and rows that it has not seen"
    if isinstance(fitted, BOOSTED) or type(fitted).__module__.split(".")[0] in BOOSTERS:
        msg = (
            f"`fitted` is a {kind}; its trees are no voters, since each corrects those before it "
            f"on the same rows. Instead {whole}"
        )
        return TypeError(msg)
    if isinstance(fitted, MajorityVoteClassifier):
        msg = "`fitted` is a MajorityVoteClassifier; use its refit_weights, or [fitted] on new rows"
        return TypeError(msg)
    derived = isinstance(fitted, (*FORESTS, BaggingClassifier, VotingClassifier))
    why = (
        "derives from a class whose bags are known, but may draw them by labels" if derived else ""
    )
    msg = f"`fitted` is a {kind}, which {why or 'has no bags that are known here'}; {whole}"
    return TypeError(msg)


def _held_out(
    names: Sequence[str], voters: Sequence[Any], X: Any, y: NDArray[Any], n_jobs: int | None
) -> _Evidence:
    inner = [voter.estimator if isinstance(voter, Member) else voter for voter in voters]
    owner = MajorityVoteClassifier([*zip(names, inner, strict=True)], n_jobs=n_jobs)
    validate_data(owner, X, skip_check_array=True)
    said = [np.asarray(voter.predict(X)) for voter in voters]
    said = [labels[:, 0] if labels.ndim == 2 else labels for labels in said]
    for name, labels in zip(names, said, strict=True):
        _check_kind(name, labels, y)
    votes = Votes.from_predictions(np.stack(said, axis=1), y, voters=names)
    refuse_training_rows(names, inner, X, y, votes.errors.sum(axis=0))
    refuse_stratified(inner, y)
    return _Evidence(votes, voters, _all_classes(voters, said, y), owner)


def _check_kind(name: str, labels: NDArray[Any], y: NDArray[Any]) -> None:
    if (labels.dtype.kind in "OUST") != (y.dtype.kind in "OUST"):
        msg = f"`y` is {y.dtype}, but voter {name!r} predicts {labels.dtype}; use one kind of label"
        raise TypeError(msg)


def _all_classes(
    voters: Sequence[Any], said: Sequence[NDArray[Any]], y: NDArray[Any]
) -> NDArray[Any]:
    """Return every label that occurs, or that a voter says it knows."""
    known = [getattr(_, "classes_", None) for _ in voters]
    known += [_.classes for _ in voters if isinstance(_, Member)]
    parts = [y, *said, *(np.asarray(labels) for labels in known if labels is not None)]
    return np.unique(np.concatenate(parts))
