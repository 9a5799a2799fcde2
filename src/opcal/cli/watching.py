"""`opcal watch`: has the field changed, and what to label next?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from opcal.cli.progress import working
from opcal.cli.sessions import as_json, opened, session
from opcal.monitor import Watch, history, look, start_next
from opcal.pool import Pool


@click.command("watch")
@session
@click.argument("pool", metavar="[NEWPOOL]", required=False, type=click.Path(path_type=Path))
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
              help="Probability of any false alarm, over all looks together.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Parquet: each new item, whether outside.")
@click.option("--next", "following", type=click.Path(path_type=Path), help="Folder: start the next round there.")
@click.option("--budget", type=click.IntRange(min=1), default=30, show_default=True, help="Labels of the next round.")
@click.option("--history", "rounds", is_flag=True, help="All rounds and looks so far.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 where the field has changed.")
@as_json
def command(
    session: str,
    pool: Path | None,
    alpha: float,
    out: Path | None,
    following: Path | None,
    budget: int,
    rounds: bool,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Compare a new pool with a session's field: has it changed, what does that cost, which items are like none before?

    With --next, a new session on the new pool starts from the old labels, and asks for the few that matter most.

    \b
    Example:  opcal watch ward3 pool-of-june
              opcal watch ward3 pool-of-june --next ward3-june --budget 20
              opcal watch ward3-june --history
    """
    if (pool is None) != rounds:
        raise click.UsageError("pass NEWPOOL, or --history")
    with working("looking"), opened(session) as found:
        if pool is None:
            told: Any = history(found)
            click.echo(json.dumps(told, indent=1) if as_json else "\n".join(_round(i, r) for i, r in enumerate(told)))
            return
        new = Pool.open(pool)
        seen = look(found, new, alpha=alpha, name=str(pool))
        if out is not None:
            pq.write_table(_items(new, seen), out)
        if following is not None:
            start_next(found, new, following, budget=budget).close()
    told = seen.as_json() | ({"next": str(following)} if following else {})
    click.echo(json.dumps(told, indent=1) if as_json else _readable(seen, session, following))
    if exit_code and seen.alarm:
        sys.exit(1)


def _items(pool: Pool, seen: Watch) -> pa.Table:
    above = seen.posterior.above(0.9)
    columns = {"id": pool.ids, "predicted": pool.predicted, "confidence": seen.confidence, "above_90": above}
    return pa.table(columns | {"outside": seen.outside})


def _readable(seen: Watch, session: str, following: Path | None) -> str:
    a, b = seen.before, seen.now
    low, high = b.accuracy_interval_90
    lines = [
        ("The field has CHANGED" if seen.alarm else "No change was found")
        + f" (p {seen.p:.2g}; look {seen.look} alarms below {seen.level:.2g}).",
        *(f"  {t.name:<18} p {t.p:<8.2g} {t.says}" for t in seen.tests),
        f"  expected accuracy  {a.accuracy:.3f} before, {b.accuracy:.3f} now ({low:.3f} to {high:.3f})",
        f"  expected Brier     {a.brier:.3f} before, {b.brier:.3f} now; of the model's own {b.brier_of_the_model:.3f}",
        f"  outside            {int(seen.outside.sum()):,} of {len(seen.outside):,} items are like none that were seen",
    ]
    if following:
        lines.append(f"Next: opcal ask {following} -n 5   (or opcal label {following})")
    elif seen.alarm:
        lines.append(f"Next: opcal watch {session} NEWPOOL --next FOLDER --budget 30")
    return "\n".join(lines)


def _round(number: int, r: dict[str, Any]) -> str:
    accuracy = r["accuracy_of_audited"]
    line = f"round {number + 1}: {r['session']}, {r['items']:,} items, {r['labelled']} labels" + (
        f" and {r['brought_along']} brought along" if r["brought_along"] else ""
    )
    line += "" if accuracy is None else f", accuracy {accuracy:.3f} on {r['audited']} drawn at random"
    looks = [
        f"    look {k['look']}, {k['time']}, {k['items']:,} items of {k['pool']}: "
        + (f"CHANGED (p {k['p']:.2g})" if k["alarm"] else f"no change (p {k['p']:.2g})")
        + f", expected accuracy {k['now']['accuracy']:.3f}, {k['outside']} outside"
        for k in r["looks"]
    ]
    return "\n".join([line, *looks])
