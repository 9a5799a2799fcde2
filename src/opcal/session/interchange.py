"""Answers out and in: CSV, JSONL, Parquet."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from opcal.errors import BadLines, InvalidInput, OpcalError
from opcal.session.values import Given, Settings
from opcal.session.wording import meaning

if TYPE_CHECKING:
    from opcal.session.session import Session

COLUMNS = ("annotator", "item", "answer", "purpose", "inclusion", "time", "id")
SCHEMA = pa.schema([(name, pa.float64() if name == "inclusion" else pa.string()) for name in COLUMNS])
NAMES = {"item": ("item", "id", "item_id"), "answer": ("answer", "label")}


def rows(session: Session) -> list[dict[str, Any]]:
    """Every answer in force, in order."""
    return session.answers()


def as_csv(found: list[dict[str, Any]]) -> str:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(_table(found), sink)
    return sink.getvalue().decode()


def write(found: list[dict[str, Any]], out: Path) -> None:
    suffix = out.suffix.lower()
    if suffix == ".csv":
        out.write_text(as_csv(found), encoding="utf-8")
    elif suffix == ".jsonl":
        out.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    elif suffix == ".parquet":
        pq.write_table(_table(found), out)
    else:
        raise InvalidInput(
            f"{out.name}: cannot write {suffix or 'what has no ending'}; known are .csv, .jsonl, .parquet"
        )


def read(file: Path, settings: Settings, annotator: str) -> list[Given]:
    """The answers of a file, checked line by line; with any mistake none, and a list of all mistakes."""
    found, first = _lines(file)
    given, problems = [], []
    for number, row in enumerate(found, first):
        try:
            given.append(_given(row, settings, annotator))
        except OpcalError as error:
            problems.append((number, str(error)))
    if problems:
        refuse(file, problems)
    return given


def refuse(file: Path, problems: list[tuple[int, str]]) -> None:
    listed = "\n".join(f"  line {number}: {what}" for number, what in problems[:20])
    more = f"\n  … and {len(problems) - 20} more" if len(problems) > 20 else ""
    raise BadLines(f"{file.name}: nothing was stored, {len(problems)} line(s) are wrong\n{listed}{more}", problems)


def _table(found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(found, schema=SCHEMA)


def _lines(file: Path) -> tuple[list[dict[str, Any]], int]:
    """Rows and the line number of the first."""
    suffix = file.suffix.lower()
    if suffix == ".csv":
        texts = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in (*COLUMNS, "label", "item_id")})
        return pyarrow.csv.read_csv(file, convert_options=texts).to_pylist(), 2
    if suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()], 1
    if suffix == ".parquet":
        return pq.read_table(file).to_pylist(), 1
    raise InvalidInput(f"{file.name}: cannot read {suffix or 'what has no ending'}; known are .csv, .jsonl, .parquet")


def _given(row: dict[str, Any], settings: Settings, annotator: str) -> Given:
    item, answer = row.get("item"), row.get("answer", row.get("label"))
    if item in (None, ""):
        raise InvalidInput("no item: the column item names it")
    if answer in (None, ""):
        raise InvalidInput(f"item {item!r} has no answer: leave the line out, or say skip")
    purpose = row.get("purpose")
    return Given(
        str(item),
        annotator=row.get("annotator") or annotator,
        drawn=None if purpose is None else purpose == "audit",
        at=row.get("time"),
        id=row.get("id") or None,
        arbiter=purpose == "arbiter",
        **meaning(str(answer), settings),
    )
