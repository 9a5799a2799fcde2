"""Answers, corrections, undo, decisions: each a new event, all of one request or none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sqlalchemy import Connection, insert

from opcal.core.method import WRONG
from opcal.errors import ConflictingAnswer, InvalidInput, NotYours, UnknownItem
from opcal.pool import Pool, names
from opcal.session import leases, log, schema
from opcal.session.standing import Standing
from opcal.session.store import Store
from opcal.session.values import Event, Given, Receipt


class Pools(Protocol):
    @property
    def pool(self) -> Pool: ...


@dataclass(frozen=True)
class Ready:
    """An answer that was checked against the pool."""

    given: Given
    id: str
    annotator: str
    position: int
    label: int | None
    predicted: int | None = None


class Desk:
    """Takes what annotators say."""

    def __init__(self, store: Store, pools: Pools) -> None:
        self._store, self._pools = store, pools

    def record(self, answers: Sequence[Given]) -> list[Receipt]:
        """Store all of them or none. A known id with the same content is no new answer: its receipt comes again."""
        with self._store.standing() as standing:
            asked = dict(standing.asked_item)
        ready = [self._checked(given, asked) for given in answers]
        with self._store.step() as (connection, standing):
            return _record(connection, standing, ready)

    def undo(self, annotator: str, answer: str | None, id: str) -> Receipt:
        """Take back the annotator's newest answer, or the one with this id."""
        with self._store.step() as (connection, standing):
            known = log.with_id(connection, id)
            if known is not None and known.kind == "undo":
                return _receipt(_event_of(connection, known.data["of"]))
            voice = standing.last_of(annotator)
            if answer is not None:
                event = _event_of(connection, answer)
                voice = standing.by_seq(event.seq)
                if voice is not None and voice.annotator != annotator:
                    raise NotYours(f"answer {answer!r} is {voice.annotator}'s: only they can take it back")
            if voice is None:
                raise InvalidInput(
                    f"{annotator} has nothing to take back" if answer is None else f"{answer!r} is undone"
                )
            data = {"undoes": voice.seq, "of": voice.id}
            entry = log.Entry("undo", id, annotator, voice.item, voice.position, data=data)
            log.append(connection, [entry])
            return _receipt(_event_of(connection, voice.id))

    def _checked(self, given: Given, asked: dict[str, int]) -> Ready:
        if not given.annotator:
            raise InvalidInput("annotator is empty: say who answers")
        if given.skip + (given.label is not None) + (given.correct is not None) != 1:
            raise InvalidInput(f"item {given.item!r}: pass one of label=, correct= and skip=True")
        position = asked.get(given.item)
        if position is None:
            position = int(self._pools.pool.positions([given.item])[0])
        label, predicted = self._label(given, position)
        return Ready(given, given.id or uuid.uuid4().hex, given.annotator, position, label, predicted)

    def _label(self, given: Given, position: int) -> tuple[int | None, int | None]:
        if given.skip:
            return None, None
        if given.correct is not None:
            predicted = int(self._pools.pool.predicted[position])
            return (predicted if given.correct else WRONG), predicted
        settings = self._store.settings
        return int(
            names.class_indices("label", np.array([given.label], dtype=object), settings.classes, settings.n_classes)[0]
        ), None


def _record(connection: Connection, standing: Standing, ready: list[Ready]) -> list[Receipt]:
    known = [_known(connection, answer) for answer in ready]
    known = [event or _in_force(connection, standing, answer) for answer, event in zip(ready, known, strict=True)]
    fresh: dict[str, Ready] = {}
    for answer, event in zip(ready, known, strict=True):
        if event is None and (twin := fresh.setdefault(answer.id, answer)) is not answer:
            _same(twin, answer)
    filled: dict[int, int] = {}
    entries = [_entry(standing, answer, filled) for answer in fresh.values()]
    stored = {event.id: event for event in log.append(connection, entries)}
    notes = [{"seq": stored[a.id].seq, "text": a.given.note} for a in fresh.values() if a.given.note]
    if notes:
        connection.execute(insert(schema.note), notes)
    for answer in fresh.values():
        leases.release(connection, [answer.position], None if filled.get(answer.position) else answer.annotator)
    return [_receipt(event or stored[answer.id]) for answer, event in zip(ready, known, strict=True)]


def _entry(standing: Standing, answer: Ready, filled: dict[int, int]) -> log.Entry:
    question, before = standing.questions.get(answer.position), standing.voices(answer.position)
    data: dict[str, object] = {"counted": False}
    if question is not None and not answer.given.arbiter:
        earlier, more = before.get(answer.annotator), filled.get(answer.position, 0)
        data["counted"] = question.missing > more if earlier is None else earlier.counted
        filled[answer.position] = more + (earlier is None)
    told = answer.given
    optional = {"given": told.at, "drawn": told.drawn, "inclusion": told.inclusion, "predicted": answer.predicted}
    data |= {name: value for name, value in optional.items() if value is not None}
    kind = "decide" if answer.given.arbiter else "skip" if answer.label is None else "answer"
    return log.Entry(kind, answer.id, answer.annotator, answer.given.item, answer.position, answer.label, data)


def _known(connection: Connection, answer: Ready) -> Event | None:
    event = log.with_id(connection, answer.id)
    if event is not None and (event.item, event.annotator, event.label) != _content(answer):
        raise ConflictingAnswer(
            f"id {answer.id!r} was used for another answer (item {event.item!r}, {event.annotator}): "
            "make a new id for each answer; only a repeated request has the same one"
        )
    return event


def _in_force(connection: Connection, standing: Standing, answer: Ready) -> Event | None:
    """What this annotator said before, if an answer without an id of its own says just the same."""
    if answer.given.id is not None or answer.given.note is not None or answer.given.arbiter:
        return None
    voice = standing.voices(answer.position).get(answer.annotator)
    return log.with_id(connection, voice.id) if voice is not None and voice.label == answer.label else None


def _same(first: Ready, second: Ready) -> None:
    if _content(first) != _content(second):
        raise ConflictingAnswer(f"id {first.id!r} stands for two answers: make a new id for each")


def _content(answer: Ready) -> tuple[str, str, int | None]:
    return answer.given.item, answer.annotator, answer.label


def _event_of(connection: Connection, id: str) -> Event:
    event = log.with_id(connection, id)
    if event is None:
        raise UnknownItem(f"no answer has the id {id!r}")
    return event


def _receipt(event: Event) -> Receipt:
    item, position, annotator = event.about
    counted = bool(event.data.get("counted"))
    return Receipt(event.seq, event.id, item, position, annotator, event.label, event.at, counted)
