"""Files of answers, checked line by line: all of a file is taken, or nothing and every mistake is listed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from opcal.errors import BadLines, InvalidInput, OpcalError, UnknownItem
from opcal.session.interchange import label_studio
from opcal.session.values import Given
from opcal.session.wording import meaning

if TYPE_CHECKING:
    from opcal.session.session import Session

SHOWN = 20
Row = dict[str, Any]
Lines = Iterator[tuple[int, Row | str]]
"""Line numbers with a row, or with what is wrong."""


def read(file: Path, session: Session, annotator: str) -> list[Given]:
    """The answers of a file. The columns item (or item_id) and answer (or label) are needed, the others optional."""
    given: list[Given] = []
    problems: list[tuple[int, str]] = []
    said: dict[tuple[str | None, str], tuple[int, Given]] = {}
    for number, row in _lines(file):
        try:
            if isinstance(row, str):
                raise InvalidInput(row)
            answer = _given(row, session, annotator)
            key = answer.annotator, answer.item
            first, other = said.setdefault(key, (number, answer))
            if other is not answer and not answer.arbiter and _content(other) != _content(answer):
                raise InvalidInput(f"item {answer.item!r} has another answer on line {first}: leave one of them out")
            given.append(answer)
        except OpcalError as error:
            problems.append((number, str(error)))
    if problems:
        _refuse(file, problems)
    return given


def _refuse(file: Path, problems: list[tuple[int, str]]) -> None:
    listed = "\n".join(f"  line {number}: {what}" for number, what in problems[:SHOWN])
    more = f"\n  … and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    lines = "1 line is wrong" if len(problems) == 1 else f"{len(problems)} lines are wrong"
    raise BadLines(f"{file.name}: nothing was stored, {lines}\n{listed}{more}", problems)


def _content(given: Given) -> tuple[object, ...]:
    return given.label, given.correct, given.skip


def _given(row: Row, session: Session, annotator: str) -> Given:
    item, answer, purpose = _item(row, session), _first(row, "answer", "label"), _first(row, "purpose")
    if item is None:
        raise InvalidInput("no item: expected its id in the column item")
    if answer is None:
        raise InvalidInput(f"item {item!r} has no answer: expected it in the column answer; or leave the line out")
    said = meaning(answer, session.settings)
    if not session.knows(item):
        raise UnknownItem(f"no item has the id {item!r}")
    drawn = None if purpose is None else purpose == "audit" and _uniform(row)
    return Given(
        item,
        annotator=_first(row, "annotator") or annotator,
        drawn=drawn,
        inclusion=_share(row) if drawn else None,
        at=_first(row, "time"),
        id=_first(row, "id"),
        note=_first(row, "note"),
        arbiter=purpose == "arbiter",
        **said,
    )


def _item(row: Row, session: Session) -> str | None:
    """As it stands where an item is called so, spaces at its ends included; else without them."""
    whole = next((str(row[name]) for name in ("item", "item_id") if row.get(name) is not None), None)
    return whole if whole is not None and whole.strip() and session.knows(whole) else _first(row, "item", "item_id")


def _uniform(row: Row) -> bool:
    """Whether a random draw is of one uniform sample of the whole pool; a file that does not say means so."""
    told = (_first(row, "uniform") or "true").lower()
    if told not in ("true", "false"):
        raise InvalidInput(f"uniform is {told!r}: expected true or false")
    return told == "true"


def _share(row: Row) -> float | None:
    told = _first(row, "inclusion")
    try:
        share = None if told is None else float(told)
    except ValueError:
        share = -1.0
    if share is not None and not 0 <= share <= 1:
        raise InvalidInput(f"inclusion is {told!r}: expected a probability in [0, 1]")
    return share


def _first(row: Row, *names: str) -> str | None:
    """The first of these columns that says something, as text."""
    for name in names:
        value = row.get(name)
        if value is not None and str(value).strip():
            return str(value).strip()
    return None


def _lines(file: Path) -> Lines:
    readers = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet, ".json": _json}
    suffix = file.suffix.lower()
    if suffix not in readers:
        raise InvalidInput(f"{file.name}: cannot read {suffix or 'what has no ending'}; known are {', '.join(readers)}")
    try:
        return iter(list(readers[suffix](file)))
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:
        if isinstance(error, OpcalError):
            raise
        raise InvalidInput(f"{file.name} cannot be read as {suffix[1:]} ({error}): nothing was stored") from error


def _csv(file: Path) -> Lines:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        table = csv.DictReader(lines, strict=True)
        names = table.fieldnames or []
        if not {"item", "item_id"} & set(names) or not {"answer", "label"} & set(names):
            raise InvalidInput(
                f"{file.name} has the columns {', '.join(names) or 'none'}: expected item and answer in its first line"
            )
        for row in table:
            surplus = None in row
            yield table.line_num, f"it has more than {len(names)} fields" if surplus else row


def _jsonl(file: Path) -> Lines:
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            yield number, f"no JSON ({error})"
            continue
        yield number, row if isinstance(row, dict) else "expected an object with item and answer"


def _parquet(file: Path) -> Lines:
    yield from enumerate(pq.read_table(file).to_pylist(), 1)


def _json(file: Path) -> Lines:
    for row in label_studio.rows(json.loads(file.read_text(encoding="utf-8-sig"))):
        yield row.pop("line"), row
