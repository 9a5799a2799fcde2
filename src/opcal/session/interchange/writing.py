"""Answers as files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from opcal.errors import InvalidInput
from opcal.session.interchange import label_studio
from opcal.session.values import Settings

COLUMNS = ("annotator", "item", "answer", "purpose", "inclusion", "uniform", "time", "id", "note")
TYPES: dict[str, pa.DataType] = {"inclusion": pa.float64(), "uniform": pa.bool_()}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".json": "label-studio"}


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def write(rows: list[dict[str, Any]], out: Path, settings: Settings, kind: str | None = None) -> None:
    """In the format named, else in that of the file's ending."""
    kind = kind or FORMATS.get(out.suffix.lower())
    if kind is None:
        known = ", ".join(FORMATS)
        raise InvalidInput(f"{out.name}: cannot write {out.suffix or 'what has no ending'}; known are {known}")
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), out)
        return
    text = {
        "csv": lambda: as_csv(rows),
        "jsonl": lambda: "".join(json.dumps(row) + "\n" for row in rows),
        "label-studio": lambda: json.dumps(label_studio.annotated(rows, settings), indent=1),
    }[kind]()
    out.write_text(text, encoding="utf-8")
