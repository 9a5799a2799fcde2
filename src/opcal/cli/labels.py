"""`opcal export-labels` and `opcal import-labels`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from opcal.cli.sessions import annotator, as_json, opened, session
from opcal.session import interchange


@click.command("export-labels")
@session
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; the ending says the format.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "parquet", "label-studio"]),
    help="Instead of the one that the file's ending says (.json: label-studio).",
)
@as_json
def export_labels(session: str, out: Path | None, kind: str | None, as_json: bool) -> None:
    """All answers in force: annotator, item, answer, purpose, inclusion probability, time, id.

    CSV, JSONL, Parquet, or tasks with annotations as Label Studio imports them. Without --out: CSV.

    \b
    Example:  opcal export-labels ward3 --out answers.csv
    """
    with opened(session) as found:
        rows, settings = found.answers(), found.settings
    if out is not None:
        interchange.write(rows, out, settings, kind)
    if out is None:
        click.echo(json.dumps(rows) if as_json else interchange.as_csv(rows), nl=as_json)
    else:
        click.echo(json.dumps({"rows": len(rows), "out": str(out)}) if as_json else f"{out}: {len(rows)} answers")


@click.command("import-labels")
@session
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@annotator
@as_json
def import_labels(session: str, file: Path, annotator: str, as_json: bool) -> None:
    """Answers from a file that `export-labels` or Label Studio (JSON, JSON-MIN) wrote, or any with item and answer.

    All or nothing: lines that are wrong are listed by their number.

    \b
    Example:  opcal import-labels ward3-again answers.csv
    """
    with opened(session) as found:
        given = interchange.read(file, found, annotator)
        receipts = found.record(given)
    text = f"{len(receipts)} answers stored."
    click.echo(json.dumps({"stored": len(receipts)}) if as_json else text)
