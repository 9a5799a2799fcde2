"""`opcal assess`: is the model good enough here, and which of several models is better?"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from opcal import assess, costs
from opcal.assess.groups import Group
from opcal.assess.models import FIRST, Duel
from opcal.calibrator import OperationalCalibrator
from opcal.cli.progress import working
from opcal.cli.sessions import as_json, opened, session
from opcal.core.cost_matrix import CostMatrix
from opcal.pool import Pool
from opcal.session import Session

against_option = click.option(
    "--against",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Pool of another model on the same items (same ids); may be given several times.",
)
costs_option = click.option(
    "--costs",
    "costs_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Costs, YAML or JSON. [default: the session's]",
)
level_option = click.option(
    "--level", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True, help="Confidence of the intervals."
)
required_option = click.option(
    "--required", type=click.FloatRange(0, 1), help="The accuracy that you need: adds go, no-go or undecided."
)


@click.command("assess")
@session
@required_option
@level_option
@click.option(
    "--interval",
    type=click.Choice(["asymptotic", "exact", "anytime"]),
    default="asymptotic",
    show_default=True,
    help="exact: without approximation. anytime: look after every label and stop when you like.",
)
@click.option("--by", multiple=True, help='Groups: "predicted", "true", "cluster" or a column of the pool.')
@click.option("--points", type=click.FloatRange(0.1, 50), default=3.0, show_default=True, help="Plan for ± so many.")
@against_option
@click.option("--differing", type=click.IntRange(min=1), help="With --against: so many more items to label.")
@costs_option
@as_json
def command(
    session: str,
    required: float | None,
    level: float,
    interval: str,
    by: tuple[str, ...],
    points: float,
    against: tuple[Path, ...],
    differing: int | None,
    costs_file: Path | None,
    as_json: bool,
) -> None:
    """How accurate the model is here, with an interval, and how good its confidence is. Asks for nothing.

    With --against, which of the models is better, from the same labels, by class and by cluster. With --costs, or
    costs that the session was started with, what to do with the items.

    \b
    Example:  opcal assess ward3 --required 0.85 --by predicted
              opcal assess ward3 --against pool-of-other-model --differing 20
    """
    if differing is not None and not against:
        raise click.UsageError("--differing goes with --against POOL")
    with working("assessing"), opened(session) as found:
        cal = found.calibrator()
        given = read_costs(costs_file, cal.pool_) or cal.costs
        a = assess.accuracy(cal, level=level, interval=interval, required=required)
        facts: dict[str, Any] = {"accuracy": a.as_dict() | {"labels_for": {f"{points:g}": a.labels_for(points)}}}
        facts["by"] = {name: {key: vars(g) for key, g in a.by(name).items()} for name in by}
        facts["quality"] = assess.quality(cal, level=level, crossfit=a.crossfit).as_dict()
        lines = [a.sentence, _plan(a, points), _quality(facts["quality"])]
        lines += [line for name in by for line in _groups(name, a.by(name))]
        if against:
            facts["against"], told = _against(found, cal, against, level, differing, by)
            lines += told
        if given is not None:
            facts["decisions"], told = _decisions(costs.of_pool(given, cal.pool_), cal, a)
            lines += told
    click.echo(json.dumps(facts) if as_json else "\n".join(lines))


def read_costs(file: Path | None, pool: Pool) -> CostMatrix | None:
    """The matrix in a file, for this pool's classes."""
    if file is None:
        return None
    return costs.load(file, costs.class_list(pool))


def _plan(a: assess.Accuracy, points: float) -> str:
    needed = a.labels_for(points)
    return f"± {points:g} points take about {needed:,} labels drawn at random; {a.labels:,} are there."


def _quality(q: dict[str, Any]) -> str:
    if not q["enough"]:
        return f"Quality of the confidence: not enough, {q['labels']} labels drawn at random; 20 are needed at least."
    rows = []
    for name, words in (
        ("brier", "Brier score"),
        ("ece_smooth", "calibration error"),
        ("lce", "LCE"),
        ("aurc", "AURC"),
    ):
        old, new = q["before"][name], q["after"][name]
        rows.append(
            f"  {words:<18} {old['value']:.3f} ({old['lower']:.3f} to {old['upper']:.3f})  →  "
            f"{new['value']:.3f} ({new['lower']:.3f} to {new['upper']:.3f})"
        )
    nothing = f"  acting on nothing would have an LCE of {q['act_on_nothing']:.3f}, on everything "
    return "\n".join(["Confidence, before → after:", *rows, nothing + f"{q['act_on_everything']:.3f}"])


def _groups(name: str, groups: dict[str, Group]) -> list[str]:
    return [f"By {name}:", *(f"  {key:<18} {group}" for key, group in groups.items())]


def _against(
    found: Session,
    cal: OperationalCalibrator,
    paths: tuple[Path, ...],
    level: float,
    differing: int | None,
    by: tuple[str, ...],
) -> tuple[dict[str, Any], list[str]]:
    """The comparison, with the labels of items drawn for it before, and the items to label next."""
    others = {path.name: Pool.open(path) for path in paths}
    file = found.folder / f"against-{hashlib.sha256(repr(sorted(others)).encode()).hexdigest()[:12]}.json"
    drawn: list[int] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    if differing is not None:
        fresh = assess.disagreements(cal, others, differing + len(drawn))
        drawn += [int(i) for i in fresh if int(i) not in set(drawn)][:differing]
        file.write_text(json.dumps(drawn), encoding="utf-8")
    labelled = dict(zip(cal.answers_.positions.tolist(), cal.answers_.labels.tolist(), strict=True))
    there = [i for i in drawn if i in labelled]
    extra = {"positions": there, "labels": [labelled[i] for i in there]} if there else {}
    compared = assess.compare(cal, others, level=level, **extra)
    kinds = dict.fromkeys(["predicted", "cluster", *(name for name in by if name != "true")])
    winners = {kind: compared.winners(kind) for kind in kinds}
    lines = [compared.sentence, *_winners(winners, level)]
    waiting = [cal.pool_.id_of(i) for i in drawn if i not in labelled]
    if waiting:
        lines.append("Label these, on which the models differ, with `opcal tell`: " + ", ".join(waiting))
    told = {kind: {group: duel.as_dict() for group, duel in groups.items()} for kind, groups in winners.items()}
    return compared.as_dict() | {"by": told, "to_label": waiting}, lines


def _winners(winners: dict[str, dict[str, Duel]], level: float) -> list[str]:
    """The groups where the models differ, those where they differ most first."""
    lines = []
    for kind, groups in winners.items():
        differ = {group: sum(d.differ for d in duel.difference.values()) for group, duel in groups.items()}
        shown = sorted((group for group in groups if differ[group]), key=lambda group: -differ[group])
        words = f"{FIRST}'s prediction" if kind == "predicted" else kind
        lines += [f"Which is better, by {words}:"] if shown else []
        lines += [f"  {group:<18} {groups[group]}" for group in shown]
    if sum(duel.winner is not None for groups in winners.values() for duel in groups.values()):
        lines.append(f"  Each holds with {level:.0%}: among many groups, some may look decided by chance.")
    return lines


def _decisions(matrix: CostMatrix, cal: OperationalCalibrator, a: assess.Accuracy) -> tuple[dict[str, Any], list[str]]:
    made = costs.decisions(matrix, cal.pool_, a.crossfit.fitted)
    names = list(cal.pool_.classes or map(str, range(len(matrix.act))))
    thresholds = {n: float(t) if t <= 1 else None for n, t in zip(names, matrix.thresholds(), strict=True)}
    facts = {
        "counts": made.counts,
        "expected_gain": float(made.expected.mean()),
        "thresholds": thresholds,
        "actions": {cal.pool_.id_of(i): made.names[action] for i, action in enumerate(made.action.tolist())},
    }
    counted = ", ".join(f"{name} {n:,}" for name, n in made.counts.items())
    lines = [f"By the costs: {counted}; expected gain {np.mean(made.expected):.3f} an item."]
    lines += [
        f"  act on {name:<14} " + ("never" if t is None else f"from {t:.3f} on") for name, t in thresholds.items()
    ]
    return facts, lines
