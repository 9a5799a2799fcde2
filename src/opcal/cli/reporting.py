"""`opcal report`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from opcal.cli.assessing import costs_option, level_option, read_costs, required_option
from opcal.cli.certifying import CERTIFICATE
from opcal.cli.sessions import as_json, opened, session


@click.command("report")
@session
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The page. [default: report.html]")
@click.option("--card", type=click.Path(dir_okay=False, path_type=Path), help="Write a model card too, in Markdown.")
@click.option("--title", help="What the report calls the field. [default: the session folder's name]")
@required_option
@level_option
@costs_option
@as_json
def command(
    session: str,
    out: Path | None,
    card: Path | None,
    title: str | None,
    required: float | None,
    level: float,
    costs_file: Path | None,
    as_json: bool,
) -> None:
    """One self-contained page: verdict, accuracy, before and after, certificate, where it errs, what it rests on.

    \b
    Example:  opcal report ward3 --out report.html --required 0.85
    """
    from opcal.report.card import model_card
    from opcal.report.facts import Source, gather
    from opcal.report.page import page

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        opened(session) as at,
    ):
        task = bar.add_task("fitting", total=None)
        cal, status = at.calibrator(), at.status()
        kept = at.folder / CERTIFICATE
        facts = gather(
            cal,
            source=Source(
                title or at.folder.resolve().name,
                {k: v for k, v in asdict(at.settings).items() if k not in ("classes", "n_classes")},
                status.annotators,
                status.skipped,
                datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            ),
            required=required,
            costs=read_costs(costs_file, cal.pool_),
            certificate=json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None,
            level=level,
            progress=lambda what: bar.update(task, description=what),
        )
        bar.update(task, description="drawing")
        written = [path for path in (out or (None if as_json else Path("report.html")), card) if path is not None]
        for path in written:
            path.write_text(model_card(facts) if path == card else page(facts), encoding="utf-8")
    click.echo(json.dumps(facts) if as_json else "Written: " + ", ".join(str(path) for path in written))
