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
@as_json
def export_labels(session: str, out: Path | None, as_json: bool) -> None:
    """All answers in force: annotator, item, answer, purpose, inclusion probability, time. CSV, JSONL or Parquet.

    \b
    Example:  opcal export-labels ward3 --out answers.csv
    """
    with opened(session) as found:
        rows = interchange.rows(found)
        if out is not None:
            interchange.write(rows, out)
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
    """Answers from a file that `export-labels` wrote, or from any table with the columns item and answer.

    All or nothing: lines that are wrong are listed by their number.

    \b
    Example:  opcal import-labels ward3-again answers.csv
    """
    with opened(session) as found:
        given = interchange.read(file, found.settings, annotator)
        receipts = found.record(given)
    text = f"{len(receipts)} answers stored."
    click.echo(json.dumps({"stored": len(receipts)}) if as_json else text)
