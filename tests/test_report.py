"""The report, opened in a real browser: what it says, and what it must never do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest

from pacvote import (
    BOUNDS,
    Certificate,
    MajorityVoteClassifier,
    PairCounts,
    Verdict,
    Votes,
    certify,
    count,
    evaluate,
    minimize,
    verify,
)
from pacvote._text import shown
from pacvote.certificate import vacuous
from pacvote.cli.app import run
from pacvote.concentration import binomial_upper
from pacvote.report import render, save
from pacvote.report.page import percent, short
from pacvote.report.pictures import Axis

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "\u202etxt.exe\x1b[31m",
    "y" * 300,
    "</style><b>",
    "Ольга",
)
# Every colour pair of text on the page, its own background or that of what it stands in.
CONTRAST = """() => {
  const light = c => {
    const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const back = node => { for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c; }
    return [255, 255, 255]; };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, at = node.parentElement;
    if (!node.data.trim() || !at.checkVisibility()) continue;
    const style = getComputedStyle(at);
    const fore = parse(at instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(fore), light(back(at))].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), node.data.trim().slice(0, 40)]);
  }
  return found; }"""


def voters(n_voters: int, n_rows: int, names: tuple[str, ...] | None = None) -> PairCounts:
    """Counts of voters in five groups that err together, as they often do."""
    rng = np.random.default_rng(0)
    common = (rng.random((n_rows, 5)) < 0.15)[:, rng.integers(0, 5, n_voters)]
    own = rng.random((n_rows, n_voters)) < rng.uniform(0.02, 0.12, n_voters)
    return count(Votes.from_errors(common & (rng.random(own.shape) < 0.6) | own, voters=names))


def issue(kind: str) -> tuple[Certificate, PairCounts]:
    if kind == "few":
        counts = voters(7, 1200, HOSTILE)
        return certify(counts), counts
    counts = voters(500, 2000)
    weights = np.random.default_rng(1).dirichlet(np.ones(500))  # minimising is not at stake here
    return certify(counts, weights=weights), counts


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Certificate, counts and page of seven voters and of five hundred."""
    folder = tmp_path_factory.mktemp("report")
    found = {}
    for kind in ("few", "many"):
        certificate, counts = issue(kind)
        save(folder / f"{kind}.html", certificate, counts, held_out=(500, 21))
        found[kind] = certificate, counts, folder / f"{kind}.html"
    return found


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: `apt-get install chromium` on Debian")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module", params=["few", "many"])
def kind(request):
    return request.param


@pytest.fixture(scope="module", params=[(380, "light"), (1400, "light"), (1400, "dark")], ids=str)
def opened(browser, made, kind, request):
    """An open page, and all that it asked for or said."""
    width, scheme = request.param
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    heard: list[str] = []
    page.on("request", lambda asked: heard.append(asked.url))
    page.on("console", lambda said: heard.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (heard.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    certificate, counts, path = made[kind]
    page.goto(path.as_uri(), wait_until="networkidle")
    yield page, heard, certificate, counts, path
    page.close()


def test_nothing_leaves_the_page_and_nothing_is_wrong_with_it(opened):
    _, heard, *_, path = opened
    assert heard == [path.as_uri()]


def test_no_horizontal_scroll(opened):
    page, *_ = opened
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_headings_are_in_order_and_sections_have_names(opened):
    page, *_ = opened
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = "[...document.querySelectorAll('section,[role=region],[role=img],nav')].filter(e => {"
    unnamed += "const id = e.getAttribute('aria-labelledby');"
    unnamed += "return !(id ? document.getElementById(id) : e.getAttribute('aria-label')) }).length"
    assert page.evaluate(unnamed) == 0
    assert page.evaluate("document.documentElement.lang") == "en"


def test_contrast_is_at_least_aa(opened):
    page, *_ = opened
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    found = page.evaluate(CONTRAST)
    assert len(found) > 150
    assert min(found)[0] >= 4.5, min(found)


def test_pictures_reach_3_to_1(opened):
    page, *_ = opened
    light = """(name) => { const s = document.createElement('i'); s.style.color = `var(--${name})`;
      document.body.append(s); const c = getComputedStyle(s).color.match(/\\d+/g).map(Number);
      s.remove(); return c; }"""

    def luminance(name: str) -> float:
        parts = [v / 255 for v in page.evaluate(light, name)]
        lin = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]

    for name in ("dot", "limit", "own"):
        high, low = sorted((luminance(name), luminance("bg")), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3
    ramp = [luminance(f"h{level}") for level in range(9)]
    assert ramp in (sorted(ramp), sorted(ramp, reverse=True))


def test_a_keyboard_reaches_every_table_that_scrolls(opened):
    page, *_ = opened
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the claim"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.className || document.activeElement.tagName")
        )
    assert "scroll" in reached
    assert (
        page.evaluate(
            "[...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1 "
            "&& getComputedStyle(e).overflowX === 'auto' && e.tabIndex < 0).length"
        )
        == 0
    )


def test_numbers_are_those_of_the_certificate_file(opened, tmp_path):
    page, _, certificate, *_ = opened
    certificate.save(tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text(encoding="utf-8")
    content = json.loads(text)
    pairs = page.evaluate(
        "[...document.querySelectorAll('data')].map(d => [d.value, d.textContent])"
    )
    exact = [value for value, _ in pairs]
    expected = [content["exact_risk"], content["delta"], *content["parameters"].values()]
    for claim in content["claims"]:
        expected += [claim[key] for key in ("p_hat", "value", "complexity", "share")]
    fractions = {str(Fraction(value)) for value in expected}
    fractions.add(str(certificate.delta * certificate.selection))
    weights = [str(weight) for weight in sorted(content["weight_integers"], reverse=True)]
    assert set(exact) == fractions | set(weights)
    assert [value for value in exact if value in weights][:10] == weights[:10]
    head = page.inner_text("h1")
    assert f"{ceil(certificate.exact_risk * 10_000) / 100:.2f} %" in head
    assert page.inner_text(".sentence").replace("\xa0", " ") == certificate.claim


def test_limits_are_rounded_to_the_side_that_holds(opened):
    page, _, certificate, *_ = opened
    rows = page.evaluate(
        "[...document.querySelectorAll('#ledger ~ .scroll tbody tr')].map(r => "
        "[...r.cells].map(c => c.innerText))"
    )
    assert len(rows) == len(certificate.claims)
    for row, claim in zip(rows, certificate.claims, strict=True):
        sign, number, _ = row[2].split()
        shown_limit = Fraction(number) / 100
        if claim.side == "upper":
            assert (sign, shown_limit >= claim.value) == ("≤", True)
        else:
            assert (sign, shown_limit <= claim.value) == ("≥", True)
        assert abs(shown_limit - claim.value) < Fraction(1, 10_000)


def test_the_scale_shows_bounds_the_best_voter_and_the_held_out_rows(opened):
    page, _, certificate, counts, _ = opened
    rows = dict(
        page.evaluate(
            "[...document.querySelectorAll('.scale tbody tr')].map(r => "
            "[r.querySelector('bdi').innerText, [...r.cells].slice(1).map(c => c.innerText)])"
        )
    )
    assert rows[certificate.bound][1] == percent(certificate.exact_risk, "upper")
    for key in ("fo", "tnd"):
        value = evaluate(key, counts, certificate.weights).value
        assert rows[key] == ["\N{EN DASH}", percent(value, "upper")]
    exact = binomial_upper(500, 21, Fraction(1, 20))
    assert rows["500 rows held out"] == ["4.20 %", percent(exact, "upper")]
    assert any(name.startswith("best voter") for name in rows)


def test_hostile_names_stay_text(opened, kind):
    page, heard, *_ = opened
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.images.length") == 0
    assert not [line for line in heard if "dialog" in line]
    if kind == "few":
        text = page.inner_text("body")
        for name in HOSTILE[:3]:
            assert name in text
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_the_pairs_are_a_table_of_few_and_a_picture_of_many(opened, kind):
    page, _, _, counts, _ = opened
    if kind == "few":
        cells = page.evaluate(
            "[...document.querySelectorAll('table.heat tbody tr')].map(r => "
            "[...r.cells].slice(1).map(c => +c.innerText))"
        )
        rates = 100 * counts.pair_errors / counts.pair_rows
        assert np.sort(np.ravel(cells)) == pytest.approx(np.sort(np.ravel(rates)), abs=0.051)
        assert cells == np.transpose(cells).tolist()
    else:
        box = page.locator("svg.heat").bounding_box()
        assert box["width"] == pytest.approx(box["height"], abs=1)
        assert box["width"] > 300
        size = page.evaluate("document.querySelector('svg.heat').viewBox.baseVal.width")
        drawn = page.evaluate(
            "[...document.querySelectorAll('svg.heat path')].map(p => p.getAttribute('d')).join('')"
        )
        assert sum(map(int, re.findall(r"h(\d+)", drawn))) == size**2


def test_all_voters_can_be_copied(opened, kind):
    page, _, certificate, counts, _ = opened
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    table = "details table" if kind == "many" else "#voters ~ .scroll table"
    names = page.evaluate(
        f"[...document.querySelectorAll('{table} tbody th bdi')].map(b => b.textContent)"
    )
    assert sorted(names) == sorted(short(shown(name)) for name in counts.voters)
    assert len(names) == len(certificate.voters)


def test_it_prints_on_paper_in_light_colours(browser, made, tmp_path):
    *_, path = made["many"]
    page = browser.new_page(color_scheme="dark")
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert min(page.evaluate(CONTRAST))[0] >= 4.5
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    page.close()


def test_what_is_refuted_says_so(made):
    certificate, counts, _ = made["few"]
    other = PairCounts(counts.pair_rows + 1, counts.pair_errors, counts.left_errors, counts.voters)
    assert "Not verified." not in render(certificate, counts)
    assert "Not verified." in render(certificate, other)


def test_a_vacuous_certificate_promises_nothing(made):
    _, counts, _ = made["few"]
    page = render(vacuous(counts), counts)
    assert "This vote errs on at most" not in page
    assert "This says nothing" in page


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_that_counts_bear_is_reported(made, bound):
    _, counts, _ = made["few"]
    weights = np.full(7, 1 / 7)
    try:
        certificate = certify(counts, bound=bound, weights=weights)
    except (ValueError, TypeError) as error:
        pytest.skip(f"pair counts and given weights do not bear {bound}: {error}")
    page = render(certificate, counts)
    for claim in certificate.claims:
        assert f'<data value="{claim.value}">' in page
    assert percent(certificate.exact_risk, "upper") in page


@pytest.mark.parametrize("n_voters", [1, 2, 12, 13, 41])
def test_any_number_of_voters(n_voters):
    counts = voters(n_voters, 300)
    assert f"{n_voters} voters" in render(vacuous(counts), counts)


def test_the_page_is_the_same_every_time(made):
    certificate, counts, path = made["few"]
    assert render(certificate, counts, held_out=(500, 21)) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("largest", [1e-5, 0.003, 0.0201, 0.2, 0.9, 1.0])
def test_the_axis_ends_past_the_largest_value(largest):
    axis = Axis.to(largest)
    assert largest <= axis.end <= 2 * largest
    assert 2 <= len(axis.ticks) <= 5
    assert axis.ticks[-1][0] == axis.place(axis.end) == 100


def test_percentages():
    third = Fraction(1, 3)
    assert (percent(third, "upper"), percent(third, "lower")) == ("33.34 %", "33.33 %")
    assert percent(Fraction(2, 3)) == "66.67 %"
    assert percent(0.0, "lower") == f"{floor(0):.2f} %"


def test_notebooks_show_cards_whose_texts_stay_text(browser, made):
    certificate, counts, _ = made["few"]
    other = replace(certificate, voters=("<img src=x onerror=alert(1)>\u202e", *HOSTILE[1:]))
    cards = [
        other,
        minimize("tnd", counts),
        verify(certificate, counts),
        verify(other, counts),
        Verdict(ok=False, reasons=("<b>bold</b>",), checked=()),
    ]
    page = browser.new_page()
    page.set_content("".join(card._repr_html_() for card in cards))
    text = page.inner_text("body")
    assert page.evaluate("document.images.length + document.querySelectorAll('b').length") == 0
    assert page.evaluate("document.querySelectorAll('strong').length") == len(cards)
    page.close()
    for words in (other.claim, "'<img src=x onerror=alert(1)>", "Certified, if", "<b>bold</b>"):
        assert words in text
    assert "\u202e" not in text
    assert verify(other, counts).reasons[0] in text
    assert f"Status\t{cards[1].status.name}: {cards[1].status.value}" in text


def test_estimators_keep_the_html_of_scikit_learn():
    assert "sk-estimator" in MajorityVoteClassifier()._repr_html_()


def test_the_commands_write_it(tmp_path, monkeypatch, made, capsys):
    monkeypatch.chdir(tmp_path)
    made["few"][1].save("counts.npz")
    assert run(["certify", "counts.npz", "--out", "c.json", "--report", "r.html"]) == 0
    assert "Report:      r.html" in capsys.readouterr().out
    certificate = Certificate.load("c.json")
    assert certificate.claim.replace("'", "&#39;") in Path("r.html").read_text(
        encoding="utf-8"
    ).replace("\xa0", " ")
    assert run(["certify", "counts.npz", "--out", "c.json", "--report", "r.txt"]) == 2
    assert "`--report` must name a .html file" in capsys.readouterr().err
