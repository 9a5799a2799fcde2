"""The report: every figure is that of the JSON, nothing is fetched, few labels print no figure."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.report.card import model_card
from opcal.report.facts import Source, gather
from opcal.report.page import page

CASE = make_case(n=240, seed=2)


def calibrated(n=80, audit=0.5, **options):
    pool = opcal.Pool.from_arrays(
        CASE.features, CASE.logits, classes=["<b>one</b>", "two", "three", "four"], payload=["a & b"] * 240
    )
    cal = opcal.OperationalCalibrator(audit=audit, **options).begin(pool, budget=n)
    while len(i := cal.ask(20)):
        cal.tell(i, labels=CASE.labels[i])
    return cal


@pytest.fixture(scope="module")
def facts():
    cal = calibrated(costs=4.0)
    region = opcal.assess.region(cal, error=0.2)
    i = region.ask(20)
    certificate = opcal.assess.certify(region, i, labels=CASE.labels[i])
    source = Source("Ward <3>", {"budget": 80}, {"anna": 50, "ben": 30}, 2, "2026-11-19")
    return gather(cal, required=0.6, certificate=certificate, source=source)


class Numbers(HTMLParser):
    """The values of all <data> elements, what was opened and not closed, and what is fetched."""

    def __init__(self):
        super().__init__()
        self.values, self.open, self.sources, self.alts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        at = dict(attrs)
        if tag == "data":
            self.values.append(float(at["value"]))
        if "src" in at:
            self.sources.append(at["src"])
            self.alts.append(at.get("alt"))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def numbers_in(value):
    if isinstance(value, dict):
        return set().union(set(), *(numbers_in(v) for v in value.values()))
    if isinstance(value, list):
        return set().union(set(), *(numbers_in(v) for v in value))
    return {float(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else set()


def read(html):
    parser = Numbers()
    parser.feed(html)
    assert parser.open == []
    return parser


def test_every_figure_of_the_page_stands_in_the_json(facts):
    known = numbers_in(json.loads(json.dumps(facts)))
    shown = read(page(facts)).values
    assert len(shown) > 60
    assert [v for v in shown if v not in known] == []


def test_the_page_fetches_nothing_and_every_picture_has_words(facts):
    parser = read(page(facts))
    assert all(source.startswith("data:") for source in parser.sources)
    assert all(alt and len(alt) > 60 for alt in parser.alts)
    assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r'src="[^"]*"', "", page(facts)))


def test_names_are_escaped(facts):
    html = page(facts)
    assert "<b>one</b>" not in html
    assert "Ward &lt;3&gt;" in html


def test_the_first_screen_says_accuracy_confidence_and_certificate(facts):
    assert len(facts["verdict"]) == 3
    html = page(facts)
    for sentence in facts["verdict"]:
        assert sentence.split("%")[0] in html.replace("&#x27;", "'")


def test_it_tells_whom_it_asked_and_what_was_skipped(facts):
    html = page(facts)
    assert "answers by anna" in html
    assert "2 asked items were skipped" in html


def test_few_labels_print_no_bare_point():
    few = gather(calibrated(n=16))
    assert few["quality"]["before"]["brier"]["value"] is None
    assert few["reliability"] is None
    html = page(few)
    assert "Not enough labels" in html
    assert "None yet" in html
    read(html)
    assert "not enough labels (8)" in model_card(few)


def test_the_card_says_what_the_report_says(facts):
    card = model_card(facts)
    assert f"{facts['accuracy']['estimate']:.1%}" in card
    assert facts["provenance"]["pool_sha256"] in card
    assert all(sentence in card for sentence in facts["verdict"])


def test_the_same_calibrator_gives_the_same_page():
    one, two = (page(gather(calibrated(n=60))) for _ in range(2))
    assert one == two


def test_the_worst_clusters_are_those_with_the_greatest_expected_error(facts):
    rates = [group["expected_error"] for group in facts["errors"]]
    assert rates == sorted(rates, reverse=True)
    assert sum(group["wrong"] for group in facts["errors"]) > 0
    assert all(e["predicted"] in ("<b>one</b>", "two", "three", "four") for g in facts["errors"] for e in g["examples"])


def test_an_examples_small_image_is_taken_into_the_page(tmp_path):
    from opcal.report.pictures import example_image

    png = tmp_path / "x.png"
    png.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert example_image(str(png)).startswith("data:image/png;base64,")
    (tmp_path / "x.txt").write_text("text")
    assert example_image(str(tmp_path / "x.txt")) is None
    assert example_image("https://example.org/x.png") is None
    assert example_image(str(tmp_path / "missing.png")) is None


def test_decisions_follow_the_costs(facts):
    d = facts["decisions"]
    assert d["given"]
    assert d["thresholds"]["two"] == pytest.approx(0.8)
    assert sum(d["counts"].values()) == 240
    assert np.argmax(d["curve"]["expected"]) == pytest.approx(100 * d["curve"]["best"] / 240, abs=2)
