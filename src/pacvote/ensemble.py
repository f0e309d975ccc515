"""A classifier that votes, with a certificate of its error."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted

from pacvote._inputs import default_voters
from pacvote.bags import draw_bags
from pacvote.bounds.base import Bound
from pacvote.bounds.choice import AUTO, choose
from pacvote.bounds.registry import exact_delta, refuse_empty_overlaps, resolve
from pacvote.bounds.shared import tally
from pacvote.certificate import Certificate, certify, vacuous
from pacvote.counts import PairCounts, count
from pacvote.exact import UNIT
from pacvote.fitting import (
    Codes,
    all_tagged,
    fit_voters,
    gather,
    read_rows,
    read_training,
    said,
)
from pacvote.guards import refuse_fit_params, refuse_known_rows, refuse_voter, warn_of_copies
from pacvote.minimize import Solution, Status, minimize
from pacvote.votes import Votes

BOUND_OF_FOLDS = "folds"  # in the place of "cctnd": folds share no row, and so bear no pairs


class MajorityVoteClassifier(ClassifierMixin, _BaseComposition):  # type: ignore[misc]
    """A weighted majority vote that comes with a certificate of its error.

    Each voter is fitted on a random bag of rows and validated on the rows it has not seen. The
    weights minimise a bound on the risk of the vote, and `certificate_` states that bound.

    Parameters
    ----------
    estimator : classifier or list of (str, classifier), default=None
        One classifier, of which `n_estimators` copies vote, or the voters themselves. Default: a
        fully grown tree with ``max_features="sqrt"``, so that the voters are a random forest.
    n_estimators : int, default=100
        Number of copies of one classifier, and the number of folds.
    validation : {"bootstrap", "subsample", "folds"} or float, default="bootstrap"
        Where voters are validated. On the rows outside of a bag drawn with ("bootstrap") or
        without ("subsample") replacement; on fold g, where voter g has all other folds to train
        on ("folds": for a few strong voters, three at best); or all on the same rows, this share
        of the table, while bags are drawn with replacement from the others (float). No split
        looks at labels.
    max_samples : float or int, default=None
        Size of a bag, as a share of the rows or as a count. Default: all rows drawn with
        replacement, half of them without.
    bound : str or Bound, default="cctnd"
        The bound that is minimised and certified, a key of ``BOUNDS`` or a bound object. Folds
        share no row and so bear no bound on pairs: with ``validation="folds"``, "cctnd" stands
        for "folds", which the certificate names, and any other bound on pairs is refused.
        With "auto" the rows that voters have decide, never what they say: `pacvote.bounds.choose`.
    delta : float or Fraction, default=0.05
        Probability with which the certificate may be wrong.
    prior : array-like of shape (n_voters,), default=None
        Weights fixed before any of these rows was seen; uniform by default.
    n_jobs : int, default=None
        Voters to fit or ask at the same time, as in scikit-learn.
    random_state : int, RandomState instance or None, default=None
        Draws the bags, and every ``random_state`` of a voter. With the default `estimator`, the
        trees are those of ``RandomForestClassifier`` with the same `random_state`.
    verbose : int, default=0
        Verbosity of the fit, as in joblib.

    Attributes
    ----------
    estimators_ : list of classifiers
        The fitted voters. A bag with a single class has a ``DummyClassifier`` that says it.
    classes_ : array of shape (n_classes,)
        The labels.
    weights_ : float64 array of shape (n_voters,)
        The weights of the vote: multiples of 2^-40 that sum to 1 exactly.
    votes_ : Votes
        What the voters said of the rows that validate them.
    counts_ : PairCounts
        The same, counted: all that a bound on pairs needs to know.
    solution_ : Solution
        What the last minimisation found, before `prune`.
    certificate_ : Certificate
        The claim: its ``risk`` is the certified error of `predict`.
    n_candidates_ : int
        Classifiers among which this one was chosen by the same rows; it has so little of delta.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Their names, where X was a data frame.

    Notes
    -----
    **Guarantee.** With probability at least ``1 - delta`` over the rows, `predict` errs on at most
    ``certificate_.risk`` of future rows of the same distribution. Rows must be i.i.d.; nothing
    outside of the voters may have been fitted or chosen by these rows: no scaling, no selection
    of features, and no search over settings. After a search such as ``GridSearchCV``, the
    certificate of ``best_estimator_`` does not hold at ``1 - delta``, since it is chosen among
    all candidates by the same rows: ``pacvote.reweight(search, X, y, n_candidates=...)`` issues
    the one that does.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from pacvote import MajorityVoteClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> vote = MajorityVoteClassifier(random_state=0).fit(X, y)
    >>> vote.certificate_.risk < 0.3
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 100,
        validation: Literal["bootstrap", "subsample", "folds"] | float = "bootstrap",
        max_samples: float | None = None,
        bound: str | Bound = "cctnd",
        delta: float | Fraction = 0.05,
        prior: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.validation = validation
        self.max_samples = max_samples
        self.bound = bound
        self.delta = delta
        self.prior = prior
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, unlabelled: Any = None, **fit_params: Any) -> Self:
        """Fit the voters, weigh them, and issue the certificate.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows. Frames reach the voters as frames, unless all voters are trees.
        y : array-like of shape (n_samples,)
            The labels.
        unlabelled : array, sparse matrix or data frame, default=None
            Further rows of the same distribution, that had no part in anything: on how many of
            them two voters differ tightens the bounds "folds" and "two_moment".
        **fit_params : dict
            ``sample_weight`` and ``groups`` are refused, with the reason.

        Returns
        -------
        MajorityVoteClassifier
        """
        names, templates = self._templates()
        bound = self._bound(unlabelled=unlabelled is not None)
        exact_delta(self.delta)
        rows = read_training(self, X, y, templates)
        refuse_fit_params(fit_params, rows.n_samples)
        warn_of_copies(rows.X)
        if unlabelled is not None:
            refuse_known_rows(rows.X, read_rows(self, unlabelled, templates))
        random = check_random_state(self.random_state)
        bags = draw_bags(self.validation, self.max_samples, rows.n_samples, len(templates), random)
        voters = [
            _seeded(clone(template), seed)
            for template, seed in zip(templates, bags.seeds, strict=True)
        ]
        self.estimators_, heard = fit_voters(
            voters, rows, bags, n_jobs=self.n_jobs, verbose=self.verbose
        )
        self.classes_ = rows.classes
        self.n_candidates_ = 1
        said_of_new = None if unlabelled is None else self.votes(unlabelled)
        return self._weigh(gather(heard, rows, names, bags.held_out), bound, said_of_new)

    def _templates(self) -> tuple[Sequence[str], list[Any]]:
        """Return names and unfitted classifiers."""
        if isinstance(self.estimator, list | tuple):
            pairs = list(self.estimator)
            if not pairs or not all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs):
                msg = "`estimator` as a list must hold (name, classifier) pairs, one per voter"
                raise ValueError(msg)
            self._validate_names([name for name, _ in pairs])
        else:
            n_estimators = self.n_estimators
            whole = isinstance(n_estimators, int | np.integer) and n_estimators is not True
            if not whole or n_estimators < 1:
                msg = f"`n_estimators` must be an integer of at least 1, got {n_estimators!r}"
                raise ValueError(msg)
            pairs = [(name, self._copied()) for name in default_voters(n_estimators)]
        for name, voter in {id(voter): (name, voter) for name, voter in reversed(pairs)}.values():
            refuse_voter(name, voter)
        return [name for name, _ in pairs], [voter for _, voter in pairs]

    def _copied(self) -> Any:
        if self.estimator is None:
            return DecisionTreeClassifier(max_features="sqrt")
        return self.estimator

    def _bound(self, *, unlabelled: bool) -> str | Bound:
        folds = self.validation == "folds"
        bound = BOUND_OF_FOLDS if folds and self.bound == "cctnd" else self.bound
        if bound == AUTO:
            return bound
        chosen = resolve(bound)
        if chosen.needs_rows and isinstance(self.validation, str):
            way = "all voters on the same rows; use validation=0.5, or 'cctnd'"
        elif folds and chosen.needs_pairs(unlabelled=unlabelled):
            way = f'rows that two voters share; use {BOUND_OF_FOLDS!r}, or "subsample"'
        else:
            return bound
        msg = f"`bound` {chosen.key!r} with validation={self.validation!r} needs {way}"
        raise ValueError(msg)

    def _weigh(
        self, votes: Votes, bound: str | Bound, unlabelled: NDArray[Any] | None = None
    ) -> Self:
        """Take votes as evidence; find weights and certify them."""
        self.votes_ = votes
        self.counts_ = count(votes, unlabelled=unlabelled)
        return self._minimize(bound, self.delta)

    def _minimize(self, bound: str | Bound, delta: float | Fraction) -> Self:
        delta, selection = exact_delta(delta), Fraction(1, self.n_candidates_)
        chosen = self._choose() if bound == AUTO else resolve(bound)
        self._claim = (chosen, delta)
        evidence = self._evidence()
        nothing = _why_vacuous(self.counts_, chosen)
        if nothing:
            msg = f"the certificate is vacuous (risk 1) and the weights are the prior's: {nothing}"
            warnings.warn(msg, UserWarning, stacklevel=4)
            certificate = vacuous(
                self.counts_, bound=chosen, delta=delta, prior=self.prior, selection=selection
            )
            self.solution_ = Solution(certificate.prior, 1.0, {}, Status.VACUOUS, 0, np.nan)
            return self._take(certificate)
        self.solution_ = minimize(chosen, evidence, delta=delta * selection, prior=self.prior)
        return self._take(self._certified(self.solution_.weights))

    def _choose(self) -> Bound:
        choice = choose(self.votes_ if self.votes_.shared else self.counts_)
        if self.verbose:
            print(choice)
        return choice.bound

    def _evidence(self) -> Votes | PairCounts:
        """Return what the bound in use rests on."""
        return self.votes_ if self._claim[0].needs_rows else self.counts_

    def _certified(self, weights: ArrayLike) -> Certificate:
        bound, delta = self._claim
        return certify(
            self._evidence(),
            bound=bound,
            delta=delta,
            weights=weights,
            prior=self.prior,
            selection=Fraction(1, self.n_candidates_),
        )

    def _take(self, certificate: Certificate) -> Self:
        self.certificate_ = certificate
        self.weights_ = certificate.weights
        return self

    def refit_weights(
        self, *, bound: str | Bound | None = None, delta: float | Fraction | None = None
    ) -> Self:
        """Weigh the voters anew, without fitting them anew.

        Parameters
        ----------
        bound : str or Bound, default=None
            The bound to minimise; by default the one in use.
        delta : float or Fraction, default=None
            Probability with which the certificate may be wrong; by default the one in use.

        Returns
        -------
        MajorityVoteClassifier
            This classifier, with weights for all voters, pruned ones too.

        Guarantee
        ---------
        Each certificate holds on its own. The least of several is a choice by these rows: try k
        bounds at ``delta / k`` each.
        """
        check_is_fitted(self)
        used, paid = self._claim
        return self._minimize(used if bound is None else bound, paid if delta is None else delta)

    def prune(self, *, tol: float | None = None, n_voters: int | None = None) -> Self:
        """Give weight zero to the voters that matter least, and certify the smaller vote.

        Parameters
        ----------
        tol : float, default=None
            How much the certified risk may rise; as many voters as possible are dropped.
        n_voters : int, default=None
            How many voters to keep.

        Returns
        -------
        MajorityVoteClassifier
            This classifier. Dropped voters keep their place in `estimators_`, and are no longer
            asked by `predict`; `refit_weights` brings them back.

        Guarantee
        ---------
        As before pruning: prior, sizes and delta stay those of all voters, since which ones were
        dropped depends on the validation rows (a prior over the kept ones would be unsound).
        """
        check_is_fitted(self)
        if self._claim[0].for_fixed_weights:
            msg = "`prune` would choose weights by the rows, which `bound` forbids; use 'ndraw'"
            raise ValueError(msg)
        if (tol is None) == (n_voters is None):
            msg = f"`tol` or `n_voters` must be given, one of them, got {tol!r} and {n_voters!r}"
            raise ValueError(msg)
        if n_voters is not None:
            return self._take(self._certified(self._largest(n_voters)))
        rise: Any = tol
        if not isinstance(rise, int | float | np.number) or not 0 < rise < math.inf:
            msg = f"`tol` must be a number above 0, a rise of the certified risk, got {tol!r}"
            raise ValueError(msg)
        return self._take(self._fewest(self.certificate_.exact_risk + Fraction(float(rise))))

    def _largest(self, n_voters: int) -> NDArray[np.float64]:
        """Return weights of the largest voters alone."""
        n_weighted = np.count_nonzero(self.weights_)
        given: object = n_voters
        whole = isinstance(given, int | np.integer) and given is not True
        if not whole or not 1 <= n_voters <= n_weighted:
            msg = (
                f"`n_voters` must be an integer from 1 to {n_weighted}, those with weight, "
                f"got {n_voters!r}"
            )
            raise ValueError(msg)
        kept = np.argsort(-self.weights_, kind="stable")[:n_voters]
        weights = np.zeros_like(self.weights_)
        weights[kept] = self.weights_[kept]
        return np.asarray(weights / weights.sum())

    def _fewest(self, limit: Fraction) -> Certificate:
        """Return the certificate of the fewest voters, found by bisection, within the limit."""
        best, low, high = self.certificate_, 1, int(np.count_nonzero(self.weights_))
        while low < high:
            middle = (low + high) // 2
            certificate = self._certified(self._largest(middle))
            if certificate.exact_risk <= limit:
                best, high = certificate, middle
            else:
                low = middle + 1
        return best

    def _said(self, X: Any, voters: Sequence[int]) -> list[Codes]:
        """Return what some voters say, as positions in `classes_`."""
        check_is_fitted(self)
        X = read_rows(self, X, self.estimators_)
        done: list[Codes] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(said)(self.estimators_[voter], X, self.classes_) for voter in voters
        )
        return done

    def _mass(self, X: Any) -> NDArray[np.int64]:
        """Return each row's votes for each class, in units of 2^-40."""
        check_is_fitted(self)
        weights = self.certificate_.weight_numerators
        voters = np.flatnonzero(weights).tolist()
        codes = self._said(X, voters)
        shape = (_num_samples(X), len(self.classes_))
        return tally(zip(codes, weights[voters].tolist(), strict=True), shape)

    def votes(self, X: Any) -> NDArray[Any]:
        """Return what each voter predicts, dropped ones too.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_voters)
        """
        check_is_fitted(self)
        codes = self._said(X, range(len(self.estimators_)))
        return np.asarray(self.classes_[np.stack(codes, axis=1)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict by the weighted majority of the voters' predictions.

        The weights are the certificate's integers, so that a tie is a tie: it goes to the class
        that comes first in `classes_`. The certificate counts every tie as an error.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
        """
        mass = self._mass(X)
        return np.asarray(self.classes_[np.argmax(mass, axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the share of the votes that each class gets.

        The certificate is about `predict`, which takes the largest share, and says nothing about
        these numbers: they are no calibrated probabilities.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return self._mass(X) / UNIT

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Return the parameters, and with `deep` those of the classifiers too."""
        if isinstance(self.estimator, list):
            params: dict[str, Any] = self._get_params("estimator", deep=deep)
            return params
        return dict(super().get_params(deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also of a classifier in a list by ``name__parameter``."""
        self._set_params("estimator", **params)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # skops has no enumerations: the status goes by its name.
        state = dict(super().__getstate__())
        if "solution_" in state:
            found = state["solution_"]
            state["solution_"] = replace(found, status=found.status.name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "solution_" in state:
            kept: Any = state["solution_"]
            self.solution_ = replace(kept, status=Status[kept.status])

    def __sklearn_tags__(self) -> Any:
        """Take what all voters take."""
        tags = super().__sklearn_tags__()
        listed = isinstance(self.estimator, list | tuple)
        voters = [voter for _, voter in self.estimator] if listed else [self._copied()]
        tags.input_tags.sparse = all_tagged(voters, "sparse")
        tags.input_tags.allow_nan = all_tagged(voters, "allow_nan")
        return tags


def _seeded(estimator: Any, seed: int) -> Any:
    """Set every `random_state` of an estimator to a seed."""
    names = [
        name
        for name in estimator.get_params(deep=True)
        if name == "random_state" or name.endswith("__random_state")
    ]
    return estimator.set_params(**dict.fromkeys(names, seed))


def _why_vacuous(counts: PairCounts, bound: Bound) -> str:
    """Return why the counts bear no bound, or nothing."""
    try:
        pairs = bound.needs_pairs(unlabelled=counts.n_unlabelled > 0)
        refuse_empty_overlaps(counts, pairs=pairs)
    except ValueError as error:
        return str(error)
    return ""
