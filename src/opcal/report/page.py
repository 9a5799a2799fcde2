"""The report as one self-contained page: nothing is fetched from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from opcal.report.markup import Html, interval, listed, number, paragraph, percent, section, table, text
from opcal.report.pictures import Picture, example_image, pictures

MEASURES = {
    "brier": "Brier score (squared error)",
    "reliability": "  its reliability part",
    "resolution": "  its resolution part (more is better)",
    "ece": "Calibration error, equal widths",
    "ece_mass": "Calibration error, equal counts",
    "ece_smooth": "Calibration error, smooth",
    "lce": "Loss due to wrong confidence (LCE)",
    "aurc": "Error over all coverages (AURC)",
}
Facts = Mapping[str, Any]


def page(facts: Facts) -> str:
    """The whole page."""
    style = files("opcal.report").joinpath("style.css").read_text(encoding="utf-8")
    drawn = pictures(facts)
    parts = [
        _first_screen(facts),
        _before_and_after(facts),
        _plots(drawn),
        _decisions(facts),
        _certificate(facts),
        _errors(facts),
        _groups(facts),
        _labels(facts),
        section("What this rests on", listed(facts["assumptions"])),
        _provenance(facts),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(facts['name'])}: is the model good enough?</title><style>{style}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _first_screen(facts: Facts) -> Html:
    a, q, certificate = facts["accuracy"], facts["quality"], facts["certificate"]
    made = f" · {facts['made']}" if facts["made"] else ""
    head = f"<header><h1>{escape(facts['name'])}: is the model good enough?</h1>"
    head += f'<p class="soft">opcal {escape(facts["provenance"]["opcal"])}{escape(made)}</p></header>'
    cards = [_accuracy_card(a), _verdict_card(a), _quality_card(q), _certificate_card(certificate)]
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in facts["verdict"])
    return Html(f'{head}<div class="cards">{"".join(cards)}</div>{told}')


def _accuracy_card(a: Facts) -> str:
    left, right = f"{100 * a['lower']:.2f}%", f"{100 * (1 - a['upper']):.2f}%"
    claimed = f"{100 * a['claimed']:.2f}%"
    marks = f'<i style="left:{left};right:{right}"></i><s style="left:{claimed}"></s>'
    bar = f'<div class="range" aria-hidden="true">{marks}</div>'
    return (
        f'<div class="card">Right here<b>{percent(a["estimate"])}</b>{bar}'
        f'<span class="soft">{interval(a["lower"], a["upper"], ".1%")}; the model claims {percent(a["claimed"])}</span>'
        "</div>"
    )


def _verdict_card(a: Facts) -> str:
    words = {"go": "Go", "no-go": "No-go", "undecided": "Undecided", "not asked": "No requirement given"}[a["verdict"]]
    kind = {"go": " good", "no-go": " bad"}.get(a["verdict"], "")
    below = "see opcal assess --required" if a["required"] is None else f"required: {percent(a['required'])}"
    return f'<div class="card">Verdict<b class="words{kind}">{words}</b><span class="soft">{below}</span></div>'


def _quality_card(q: Facts) -> str:
    if not q["enough"]:
        return '<div class="card">Confidence<b class="words">Not enough labels</b></div>'
    old, new = q["before"]["brier"]["value"], q["after"]["brier"]["value"]
    kind = "good" if new <= old else "bad"
    return (
        f'<div class="card">Squared error of confidence<b class="{kind}">{number(new)}</b>'
        f'<span class="soft">before: {number(old)}</span></div>'
    )


def _certificate_card(certificate: Facts | None) -> str:
    if certificate is None:
        hint = '<span class="soft">see opcal certify</span>'
        return f'<div class="card">Certificate<b class="words">None yet</b>{hint}</div>'
    words, kind = ("Certified", " good") if certificate["certified"] else ("Not certified", " bad")
    return (
        f'<div class="card">Certificate<b class="words{kind}">{words}</b><span class="soft">confidence '
        f"{number(certificate['threshold'])} or more: {percent(certificate['coverage'])} of the items</span></div>"
    )


def _before_and_after(facts: Facts) -> Html:
    q = facts["quality"]
    if not q["enough"]:
        return section("Before and after", paragraph(facts["verdict"][1]))
    rows = []
    for name, words in MEASURES.items():
        old, new = q["before"][name], q["after"][name]
        honest = "" if new["honest"] is None else number(new["honest"])
        rows.append(
            (words, number(old["value"]), interval(old["lower"], old["upper"]), number(new["value"]),
             interval(new["lower"], new["upper"]), honest)
        )  # fmt: skip
    head = ("", "before", f"{q['level']:.0%} interval", "after", f"{q['level']:.0%} interval", "if honest")
    nothing, everything = number(q["act_on_nothing"]), number(q["act_on_everything"])
    note = Html(
        f"Measured on {number(q['labels'], 'd')} items drawn at random, each without its own label. “If honest”: what "
        f"an honest confidence would show on so few items by luck. LCE at λ = {number(q['threshold'], '.3g')}: "
        f"acting on nothing would score {nothing}, on everything {everything}."
    )
    return section(
        "Before and after", Html(f'<div class="measures">{table(head, rows)}</div>'), paragraph(note, "soft")
    )


def _plots(drawn: Sequence[Picture]) -> Html:
    shown = "".join(
        f'<figure id="{p.name}"><img class="plot" src="{p.source}" alt="{escape(p.alt)}">'
        f"<figcaption>{escape(p.caption)}</figcaption></figure>"
        for p in drawn
    )
    return section("In pictures", Html(f'<div class="plots">{shown}</div>'))


def _decisions(facts: Facts) -> Html:
    d = facts["decisions"]
    size = facts["labels"]["pool"]
    given = "At the given costs" if d["given"] else "Without costs, from the threshold alone"
    rows = [
        (name, number(n, ",d"), Html(f"{n / size:.1%}"), _limit(d["capacities"][name]))
        for name, n in d["counts"].items()
    ]
    thresholds = [(name, number(value, ".3f", missing="never")) for name, value in list(d["thresholds"].items())[:30]]
    words = Html(f"{given}, the expected gain is {number(d['expected_gain'])} an item.{_measured(d['measured'])}")
    return section(
        "What to do with these items",
        paragraph(words),
        table(("action", "items", "share", "at most"), rows),
        Html("<h3>Act on a prediction from this confidence on</h3>"),
        table(("predicted class", "confidence"), thresholds),
    )


def _measured(m: Facts | None) -> Html:
    if m is None:
        return Html("")
    return Html(
        f" On {number(m['labels'], 'd')} items drawn at random it was {number(m['gain'])} "
        f"({interval(m['gain_lower'], m['gain_upper'])}), and {number(m['regret'])} "
        f"({interval(m['regret_lower'], m['regret_upper'])}) less than with perfect knowledge."
    )


def _limit(capacity: int | None) -> object:
    return "any number" if capacity is None else number(capacity, ",d")


def _certificate(facts: Facts) -> Html:
    c = facts["certificate"]
    if c is None:
        return section(
            "What may be promised",
            paragraph("Nothing has been certified yet. `opcal certify` asks for the labels that it takes."),
        )
    rows = [
        ("confidence from which to act", number(c["threshold"], ".4f")),
        ("items accepted", Html(f"{number(c['accepted'], ',d')} ({percent(c['coverage'])})")),
        ("fresh labels counted, of them wrong", Html(f"{number(c['counted'], 'd')}, {number(c['wrong'], 'd')}")),
        ("shown by this test", number(c["bound"])),
        ("chance of promising wrongly, at most", percent(c["delta"])),
    ]
    return section("What may be promised", paragraph(c["sentence"]), table(("", ""), rows), listed(c["assumptions"]))


def _errors(facts: Facts) -> Html:
    told = "Groups of similar items with the greatest expected error, and items of them: found wrong, or doubtful."
    return section("Where it errs", paragraph(told), *map(_cluster, facts["errors"]))


def _cluster(group: Facts) -> Html:
    title = f"Cluster {escape(group['cluster'])}: {percent(group['expected_error'])} expected to be wrong"
    told = (
        f"{number(group['items'], ',d')} items; the model claims {percent(group['claimed_error'])}; "
        f"{number(group['labels'], 'd')} labelled, {number(group['wrong'], 'd')} of them wrong"
    )
    shown = "".join(_example(e) for e in group["examples"])
    return Html(f'<div class="group"><h3>{title}</h3><p class="soft">{told}</p><ul class="examples">{shown}</ul></div>')


def _example(e: Facts) -> str:
    image = example_image(e["payload"])
    shown = f'<img class="item" src="{image}" alt="item {escape(e["id"])}">' if image else ""
    if not image and e["payload"]:
        shown = f'<div class="soft">{escape(e["payload"][:160])}</div>'
    truth = "not labelled" if e["true"] is None else f"truly {e['true']}"
    return (
        f"<li>{shown}<b>{escape(e['id'])}</b><br>predicted {escape(e['predicted'])}, {escape(truth)}<br>"
        f'<span class="soft">confidence {number(e["before"], ".2f")} → {number(e["after"], ".2f")}</span></li>'
    )


def _groups(facts: Facts) -> Html:
    titles = {"predicted": "by predicted class", "true": "by true class (recall)", "cluster": "by cluster"}
    parts = []
    for name, title in titles.items():
        groups = facts["accuracy"]["by"][name]
        rows = [
            (key, number(g["items"], ",d", missing="unknown"), number(g["labels"], "d"),
             number(g["estimate"], ".1%", missing="not enough"),
             interval(g["lower"], g["upper"], ".1%"))
            for key, g in list(groups.items())[:40]
        ]  # fmt: skip
        parts.append(Html(f"<h3>{title}</h3>"))
        parts.append(table(("", "items", "random labels", "right", "interval"), rows))
    return section("Accuracy in parts", *parts)


def _labels(facts: Facts) -> Html:
    n = facts["labels"]
    rows = [
        ("items", number(n["pool"], ",d")),
        ("labelled", number(n["labels"], ",d")),
        ("drawn at random", number(n["random"], ",d")),
        ("chosen because they teach most", number(n["chosen"], ",d")),
        ("chance of each item to be drawn at random", percent(n["inclusion"])),
        ("design", n["design"]),
        ("skipped", number(n["skipped"], "d")),
        *((f"answers by {who}", number(count, "d")) for who, count in n["annotators"].items()),
    ]
    return section("What was asked, of whom", table(("", ""), rows))


def _provenance(facts: Facts) -> Html:
    p = facts["provenance"]
    rows = [
        *((f"setting {name}", value) for name, value in facts["settings"].items()),
        ("Python", p["python"]),
        *p["libraries"].items(),
        *((f"model {key}", value) for key, value in p["model"].items()),
        ("pool, SHA-256", Html(f"<code>{p['pool_sha256']}</code>")),
        ("answers, SHA-256", Html(f"<code>{p['answers_sha256']}</code>")),
    ]
    kept = escape(json.dumps(facts, indent=1), quote=False)
    return section(
        "Settings, versions, hashes",
        table(("", ""), rows, numeric=9),
        Html(f'<details class="json"><summary>All figures as JSON</summary><pre id="facts">{kept}</pre></details>'),
    )


__all__ = ["page", "text"]
