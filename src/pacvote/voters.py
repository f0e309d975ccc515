"""Voters to begin with."""

from __future__ import annotations

from typing import Any

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier


def paper_ensemble() -> list[tuple[str, Any]]:
    """Return the seven classifiers of the paper's heterogeneous ensemble.

    Returns
    -------
    list of (str, classifier)
        For ``MajorityVoteClassifier(paper_ensemble())``: linear discriminant analysis, three
        nearest-neighbour rules, a decision tree, logistic regression and Gaussian naive Bayes,
        with scikit-learn's defaults but for the number of iterations of the regression.
    """
    return [
        ("lda", LinearDiscriminantAnalysis()),
        ("3nn", KNeighborsClassifier(3)),
        ("5nn", KNeighborsClassifier(5)),
        ("5nn_distance", KNeighborsClassifier(5, weights="distance")),
        ("tree", DecisionTreeClassifier()),
        ("logistic", LogisticRegression(max_iter=1000)),
        ("naive_bayes", GaussianNB()),
    ]
