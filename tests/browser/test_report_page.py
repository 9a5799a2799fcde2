"""The report in a real browser: wide, on a phone, in the dark, on paper."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opcal
from opcal.data import load_pneumonia
from opcal.report.facts import Source, gather
from opcal.report.page import page as html_of

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    x = load_pneumonia()
    pool = opcal.Pool.from_arrays(x.features, x.logits, classes=x.classes, ids=x.ids)
    cal = opcal.OperationalCalibrator(costs=9.0).begin(pool, budget=120)
    while len(i := cal.ask(20)):
        cal.tell(i, labels=x.labels[i])
    region = opcal.assess.region(cal, error=0.1)
    i = region.ask(40)
    certificate = opcal.assess.certify(region, i, labels=x.labels[i])
    facts = gather(cal, required=0.8, certificate=certificate, source=Source("Ward 3", annotators={"anna": 160}))
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html_of(facts), encoding="utf-8")
    return file, facts


def test_it_fits_its_width_fetches_nothing_and_shows_its_pictures(opened, look, report, shots):
    opened.goto(report[0].as_uri())
    opened.screenshot(path=shots / f"report-{look}.png", full_page=True)
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0 && i.alt)")
    assert len(opened.query_selector_all("img.plot")) == 4
    assert (opened.fetched, opened.complaints) == ([], [])


def test_no_table_is_cut(opened, look, report):
    opened.goto(report[0].as_uri())
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)"
    assert opened.evaluate(wide) == []


def test_on_paper_it_is_dark_on_light_whatever_the_screen_is(opened, report):
    opened.goto(report[0].as_uri())
    opened.emulate_media(media="print", color_scheme="dark")
    of = "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]"
    assert opened.evaluate(of, ["td", "color"]) == "rgb(0, 0, 0)"
    assert opened.evaluate(of, ["body", "backgroundColor"]) == "rgb(255, 255, 255)"
    assert opened.evaluate(of, ["img.plot", "filter"]) == "none"
    assert opened.evaluate(of, [".range i", "printColorAdjust"]) == "exact"  # else the interval is not printed
    assert opened.evaluate(of, [".group", "breakInside"]) == "avoid"


def test_the_first_screen_holds_the_verdict(opened, look, report):
    opened.goto(report[0].as_uri())
    assert opened.locator(".card").nth(1).bounding_box()["y"] < 800
    assert opened.locator(".card").count() == 4


def test_text_stands_out_from_its_ground(opened, report):
    """WCAG's contrast ratio of 4.5, in every look, for body text, soft text and verdicts."""
    opened.goto(report[0].as_uri())
    for selector in ("p", ".soft", ".card b", "td"):
        assert opened.locator(selector).first.evaluate(CONTRAST) >= 4.5, selector


CONTRAST = """e => {
  const part = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => part(v / 255));
    return .2126 * r + .7152 * g + .0722 * b; };
  const clear = ['rgba(0, 0, 0, 0)', 'transparent'];
  let at = e;
  while (at && clear.includes(getComputedStyle(at).backgroundColor)) at = at.parentElement;
  const ground = at ? getComputedStyle(at).backgroundColor : 'rgb(255,255,255)';
  const [a, b] = [light(getComputedStyle(e).color), light(ground)];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }"""


def test_the_figures_a_reader_sees_are_those_of_the_json(opened, look, report):
    opened.goto(report[0].as_uri())
    seen = opened.eval_on_selector_all("data", "all => all.map(e => [e.value, e.textContent])")
    accuracy = report[1]["accuracy"]
    assert [f"{accuracy['estimate']!r}", f"{accuracy['estimate']:.1%}"] in seen
    assert all(np.isfinite(float(value)) for value, _ in seen)


def test_it_prints_to_a_few_pages(chromium, report, shots):
    page = chromium.new_page()
    page.goto(report[0].as_uri())
    page.pdf(path=shots / "report.pdf", format="A4")
    pages = len(re.findall(rb"/Type /Page\b(?!s)", (shots / "report.pdf").read_bytes()))
    assert 2 <= pages <= 6
    page.close()
