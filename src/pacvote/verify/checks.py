"""What each bound claims, and the checks that a certificate must pass, in their order."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor

from .files import Counts, Paper, require
from .proofs import (
    FINE,
    HALF,
    ONE,
    UNIT,
    ZERO,
    check_grids,
    coalition,
    is_ceiling,
    is_limit,
    mean_of,
    nats,
)
from .uneven import is_dual, is_mean_of_limits, is_trinomial

ASSUMPTIONS = (
    "The validation rows and the future rows are independent draws from one distribution: "
    "no groups, no duplicates by construction, no order in time, no drift.",
    "No voter was influenced by the rows it is validated on, labelled or not, in training, "
    "preprocessing, selection or tuning.",
    "Which voter is validated on which row was decided without looking at that row.",
    "The prior, delta, the bound and its constants were fixed before the validation rows were "
    "seen.",
    "The claim is about the hard vote with exactly these weights; ties may fall either way.",
)
FIXED = "The weights of the vote were fixed before the validation rows were seen."
UNLABELLED = (
    "The unlabelled rows are further independent draws from the same distribution, and influenced "
    "no voter in any way."
)

_THREE = "gibbs lower 1/20, gibbs upper 1/20, tandem upper 9/10"
CLAIMS = {  # quantity, side and share of delta, in the order of their names
    ("fo", "sharp"): "gibbs upper 1",
    ("fo", "paper"): "gibbs upper 1",
    ("tnd", "sharp"): "tandem upper 1",
    ("tnd", "paper"): "tandem upper 1",
    ("cctnd", "sharp"): _THREE,
    ("cctnd", "paper"): "gibbs lower 1/2, gibbs upper 1/2, tandem upper 1/2",
    ("c_bound", "sharp"): _THREE,
    ("c_bound", "paper"): "gibbs lower 1/2, gibbs upper 1/2, tandem lower 1/2, tandem upper 1/2",
    ("ccpbb", "sharp"): "mu_tandem upper 1/2, mu_variance upper 1/2",
    ("ccskl", "sharp"): "none_errs lower 1/20, one_errs lower 1/20, tandem upper 9/10",
    ("two_moment", "sharp"): "gibbs upper 1/2, one_errs upper 1/2",
    ("folds", "sharp"): "gibbs upper 1",
    ("best_voter", "sharp"): "gibbs upper 1",
    ("dis", "sharp"): "gibbs upper 1/2, one_errs lower 1/2",
    ("c1", "sharp"): "gibbs upper 1/2, one_errs lower 1/2",
    ("c2", "sharp"): "mu_tandem upper 1",
    ("binomial", "sharp"): "vote upper 1",
    ("ndraw", "sharp"): "drawn upper 1",
}
_UNLABELLED = {  # claims where unlabelled rows were counted
    ("two_moment", "sharp", True): "disagreement upper 1/2, gibbs upper 1/2",
    ("folds", "sharp", True): "disagreement upper 1/2, gibbs upper 1/2",
}
_BOX = [("tandem", "upper"), ("gibbs", "upper"), ("gibbs", "lower")]
_PARAMETERS = {"c2": {"mu"}, "cctnd": {"mu"}, "ccskl": {"mu"}, "ccpbb": {"mu", "lambda", "gamma"}}
_OWN = {
    "trinomial": is_trinomial,
    "tilts": is_dual,
    "binomials": is_mean_of_limits,
}  # with parameters of their own
_PARAMETERS["ndraw"] = {"draws", "erring"}
_EVEN = {"disagreement", "drawn"}  # on one set of rows, always
_FORMS = {"mu_tandem": "bennett", "mu_variance": "variance", "vote": "binomial"}
_COVERED = {"bennett": {"mu", "gamma"}, "variance": {"mu", "lambda"}}  # by the event's grid


def _formula(paper: Paper, limits: Mapping[tuple[str, str], Fraction]) -> Fraction:
    """Return the bound from its limits; limits that contradict each other claim nothing."""
    bound, mu = paper["bound"], paper["parameters"].get("mu", ZERO)
    c = coalition(paper["weight_integers"]) if paper["constants"] == "sharp" else HALF
    above, below = limits.get(("gibbs", "upper"), ONE), limits.get(("gibbs", "lower"), ZERO)
    t, more = limits.get(("tandem", "upper"), ONE), limits.get(("one_errs", "upper"), ONE)
    one, none = limits.get(("one_errs", "lower"), ZERO), limits.get(("none_errs", "lower"), ZERO)
    if bound in {"ccpbb", "c2"}:
        mean = limits["mu_tandem", "upper"]
        return mean / (HALF - mu) ** 2 if mean > 0 else ONE
    if bound == "cctnd":
        return _cantelli(t, above, below, c, mu, ONE)
    if bound == "ccskl":
        return _cantelli(t, (1 + t - none) / 2, t + one / 2, c, mu, HALF)
    if bound == "c1":
        over, rest = above - above**2 - one / 2, ONE / 4 - one / 2
        return over / rest if above < HALF and rest > 0 and over > 0 else ONE
    if bound == "c_bound":
        return _c_bound(paper, limits, c)
    differ = limits.get(("disagreement", "upper"), more)  # on unlabelled rows, where there are
    both = above + differ / (2 * c)
    values = {"fo": above / c, "best_voter": above / c, "tnd": t / c**2, "two_moment": both}
    values["folds"] = min(above / c, both) if len(limits) > 1 else above / c
    values["dis"] = (above - one / 2) / c**2 if above > one / 2 else ONE
    return values[bound]


def _c_bound(paper: Paper, limits: Mapping[tuple[str, str], Fraction], c: Fraction) -> Fraction:
    t, above, below = (limits[x] for x in _BOX)
    if paper["constants"] == "paper":
        over, rest = t - below**2, ONE / 4 + limits["tandem", "lower"] - above
        return over / rest if above < HALF and rest > 0 and over > 0 else ONE
    g = min(max(t / c, below), above)
    flat = g == t / c or above >= c or t < g**2
    return t / c**2 if flat else (t - g**2) / (c**2 + t - 2 * c * g)


def _cantelli(
    t: Fraction, above: Fraction, below: Fraction, c: Fraction, stated: Fraction, most: Fraction
) -> Fraction:
    """Return the least bound over mu: the lower limit goes with mu >= 0, the upper with mu < 0."""
    values = {ZERO: t / c**2}
    if below < c and t > below**2 and t < c * below:
        mu = min(most, (c * below - t) / (c - below))
        values[mu] = (t - 2 * mu * below + mu * mu) / (c - mu) ** 2
    if above < c and t > c * above:
        mu = (c * above - t) / (c - above)
        values[mu] = (t - 2 * mu * above + mu * mu) / (c - mu) ** 2
    best = min(values, key=values.__getitem__)
    require(stated == best, "mu is not the best one")
    return values[best]


def _check_evidence(paper: Paper, counts: Counts) -> None:
    m, digest = len(counts.voters), hashlib.sha256(json.dumps(counts.voters).encode())
    require(paper["voters"] == counts.voters, "the evidence names other voters")
    require(
        0 < m == len({name for name in counts.voters if type(name) is str}),
        "each voter needs a name of its own",
    )
    for flat in (counts.rows, counts.both, counts.left):
        require(len(flat) == m * m, "the counts are not of all pairs of voters")
        for start in range(0, m * m, m):
            digest.update(array("q", flat[start : start + m]))
    require(paper["n_single"] == min(counts.rows[:: m + 1]), "`n_single` is wrong")
    require(paper["n_pair"] == min(counts.rows), "`n_pair` is wrong")
    _check_unlabelled(counts)
    if counts.n_unlabelled:
        digest.update(array("q", counts.differ))
        digest.update(counts.n_unlabelled.to_bytes(8, "little"))
    require(digest.hexdigest() == paper["evidence_sha256"], "the evidence has another SHA-256")
    for i in range(m):
        _check_voter(counts, i)


def _check_unlabelled(counts: Counts) -> None:
    """Refuse disagreements that no unlabelled rows can give."""
    m, differ, n = len(counts.voters), counts.differ, counts.n_unlabelled
    fits = n >= 0 and len(differ) == m * m * (n > 0)
    fits = fits and all(0 <= x <= n for x in differ) and not any(differ[:: m + 1])
    fits = fits and all(differ[i * m : i * m + m] == differ[i::m] for i in range(m if n else 0))
    require(fits, "the disagreements are not of unlabelled rows")


def _check_voter(counts: Counts, i: int) -> None:
    """Refuse what no table of rows can give."""
    m, lines = len(counts.voters), list(counts.lines(i))
    twins = zip(counts.rows[i::m], counts.both[i::m], strict=True)
    fits, (rows, errors, same, _) = [line[:2] for line in lines] == list(twins), lines[i]
    for n, both, left, right in lines:
        fits = fits and 0 <= both <= left <= errors == same and n <= rows
        fits = fits and 0 <= right - both <= n - left <= rows - errors
    require(fits, f"voter {i} has counts that no table of rows can give")


def _check_weights(paper: Paper, counts: Counts) -> None:
    weights, prior, m = paper["weight_integers"], paper["prior_integers"], len(counts.voters)
    fits = all(type(x) is int and x >= 0 for x in weights + prior)
    total, fits = sum(prior), fits and len(weights) == len(prior) == m
    require(fits and sum(weights) == UNIT, "the weights must be integers that sum to 2^40")
    require(total == UNIT or {*prior} == {1}, "the prior must be ones, or sum to 2^40")
    pairs = list(zip(weights, prior, strict=True))
    require(all(p for w, p in pairs if w), "a voter has weight without prior mass")
    near = all(abs(w * total - p * UNIT) <= m * total for w, p in pairs)
    require(paper["claims"] or near, "weights that claim nothing must be the prior's")


def _is_even(counts: Counts, quantity: str) -> bool:
    """Whether voters, or pairs, count as if all had the least rows: they do, or it is plenty."""
    rows = counts.rows[:: len(counts.voters) + 1 if quantity == "gibbs" else 1]
    return len({*rows}) == 1 or min(rows) > 2**32


def _check_claimed(paper: Paper, counts: Counts) -> None:
    claims, bound = paper["claims"], paper["bound"]
    unlabelled = any(claim["quantity"] == "disagreement" for claim in claims)
    expected = [*ASSUMPTIONS, *[FIXED] * (bound == "binomial"), *[UNLABELLED] * unlabelled]
    require(paper["assumptions"] == expected, "the assumptions are not those published")
    require(0 < paper["delta"] < 1, "delta must lie between 0 and 1")
    require(0 < paper["selection"] <= 1, "the selection must lie between 0 and 1")
    require(all(type(x) is str for x in paper["selected_from"]), "a name is no text")
    require((bound, paper["constants"]) in CLAIMS, "the bound is not among those proven")
    names = _PARAMETERS.get(bound, set()) if claims else set()
    require(paper["parameters"].keys() == names, "the parameters are not those of the bound")
    fields = ("event", "quantity", "side", "inequality", "share")
    ledger, known = [], (bound, paper["constants"], counts.n_unlabelled > 0)
    for row in (_UNLABELLED.get(known) or CLAIMS[known[:2]]).split(", "):
        name, side, share = row.split()
        form = "mixture" if paper["constants"] == "sharp" else "kl_paper"
        form = "trinomial" if bound == "c2" else _FORMS.get(name, form)
        if bound in {"folds", "best_voter"} and name == "gibbs":
            form = "binomials"
        elif form == "mixture" and name not in _EVEN and not _is_even(counts, name):
            form = "tilts"
        own = {
            "trinomial": form,
            "bennett": form,
            "variance": form,
            "binomial": form,
            "kl_paper": name,
        }
        event = own.get(form, f"{name} {side}")
        spent = Fraction(share) * paper["delta"] * paper["selection"]
        ledger.append([event, name, side, form, spent])
    same = not claims or [[claim[name] for name in fields] for claim in claims] == ledger
    require(same, "events, inequalities or shares of delta are not those of the bound")


def _check_parameters(paper: Paper, counts: Counts) -> None:
    gridded = paper["bound"] == "ccpbb"
    for claim in paper["claims"]:
        n = paper["n_single" if claim["quantity"] == "gibbs" else "n_pair"]
        n = counts.n_unlabelled if claim["quantity"] == "disagreement" else n
        require(claim["n_samples"] == n >= 1 + gridded, "`n_samples` is wrong, or too small")
        covered = _COVERED.get(claim["inequality"], ())
        same = claim["parameters"] == {name: paper["parameters"][name] for name in covered}
        require(
            same or claim["inequality"] in _OWN,
            "the parameters of a claim are not those of the certificate",
        )
        require(gridded or claim["grid"] == 1, "a claim has a grid that its bound has not")
    if gridded and paper["claims"]:
        check_grids(paper)


def _check_claims(paper: Paper, counts: Counts) -> None:
    for claim in paper["claims"]:
        name = f"{claim['event']}, {claim['side']}"
        scaled = mean_of(counts, paper["weight_integers"], claim) * FINE
        mean = Fraction(ceil(scaled) if claim["side"] == "upper" else floor(scaled), FINE)
        require(claim["p_hat"] == mean, f"{name}: `p_hat` is not the mean of the evidence")
        nothing = claim["inequality"] == "binomials" and claim["complexity"] == 0
        price = nothing or is_ceiling(claim["complexity"], nats(paper, claim), FINE)
        require(price, f"{name}: `complexity` is not that of weights, prior and share")
        own = _OWN.get(claim["inequality"])
        tight = own(paper, claim, counts) if own else is_limit(paper, claim)
        require(tight, f"{name}: `value` is not the tightest that is proved")


def _check_risk(paper: Paper, _: Counts) -> None:
    limits = {(claim["quantity"], claim["side"]): claim["value"] for claim in paper["claims"]}
    risk = Fraction(ceil(_formula(paper, limits) * UNIT), UNIT) if limits else ONE
    require(paper["exact_risk"] == min(ONE, risk), "the claimed risk is not what is proved")


CHECKS: dict[str, Callable[[Paper, Counts], None]] = {
    "SHA-256, voters and sizes of the evidence": _check_evidence,
    "weights and prior": _check_weights,
    "assumptions, events, inequalities, ledger of delta": _check_claimed,
    "numbers of rows, parameters and grids": _check_parameters,
    "empirical means, complexities and limits": _check_claims,
    "claimed risk": _check_risk,
}
