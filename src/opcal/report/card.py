"""A model card: what is known of this model in this field, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def model_card(facts: Mapping[str, Any]) -> str:
    """The card; its figures are those of the report."""
    a, q, d, p = (facts[name] for name in ("accuracy", "quality", "decisions", "provenance"))
    lines = [
        f"# Model card: {facts['name']}",
        "",
        *(f"- {key}: {value}" for key, value in p["model"].items()),
        f"- Calibrated with opcal {p['opcal']}; predictions are unchanged.",
        f"- Pool SHA-256 `{p['pool_sha256']}`, answers SHA-256 `{p['answers_sha256']}`.",
        "",
        "## In this field",
        "",
        *(f"{sentence}\n" for sentence in facts["verdict"]),
        f"| | estimate | {a['level']:.0%} interval |",
        "|---|---|---|",
        f"| accuracy | {a['estimate']:.1%} | {a['lower']:.1%} to {a['upper']:.1%} |",
        *_quality(q),
        "",
        "## Use",
        "",
        "Act on a prediction from this calibrated confidence on:",
        "",
        *(f"- {name}: {'never' if t is None else format(t, '.3f')}" for name, t in d["thresholds"].items()),
        "",
        "## Known to err",
        "",
        *(
            f"- cluster {g['cluster']}: {g['expected_error']:.1%} of {g['items']} items expected"
            for g in facts["errors"]
        ),
        "",
        "## What this rests on",
        "",
        *(f"- {line}" for line in facts["assumptions"]),
    ]
    return "\n".join(lines) + "\n"


def _quality(q: Mapping[str, Any]) -> list[str]:
    if not q["enough"]:
        return [f"| confidence | not enough labels ({q['labels']}) | |"]
    found = []
    for name, words in (("brier", "Brier score"), ("ece_smooth", "calibration error"), ("lce", "LCE")):
        for when in ("before", "after"):
            f = q[when][name]
            found.append(f"| {words}, {when} | {f['value']:.3f} | {f['lower']:.3f} to {f['upper']:.3f} |")
    return found
