"""What can be read off a session: its status, its answers as a table, its disagreements."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from opcal.session import clock, leases, schema
from opcal.session.standing import Standing, Voice
from opcal.session.store import Store
from opcal.session.values import Disagreement, Said, Status
from opcal.session.wording import said

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator


def status(store: Store) -> Status:
    with store.database.read() as connection:
        leased = leases.count(connection, clock.at(connection))
    with store.standing() as s:
        settled, everything = s.settled(), s.everything()
        return Status(
            name=store.settings.name,
            items=sum(count for count, _ in s.arrivals),
            budget=store.settings.budget,
            asked=len(s.questions),
            answered=s.used,
            labelled=len(settled),
            audited=sum(x.drawn or x.position in s.audited for x in settled),
            open=s.missing,
            leased=leased,
            skipped=sum(q.retired for q in s.questions.values()),
            disputed=len(s.disputed()),
            extra=sum(v.label is not None and not v.arbiter for v in everything) - s.used,
            forgotten=len(s.forgotten),
            annotators=dict(sorted(Counter(v.annotator for v in everything).items())),
            events=s.seq,
            done=s.missing == 0 and (s.places == 0 or s.exhausted),
        )


def answers(store: Store, calibrator: OperationalCalibrator) -> list[dict[str, Any]]:
    with store.database.read() as connection:
        notes = {row.seq: row.text for row in connection.execute(select(schema.note))}
    with store.standing() as standing:
        voices = standing.everything()
        purposes = [_purpose(standing, voice) for voice in voices]
        uniform = _uniform(voices, purposes, set(calibrator.left_out_.tolist()))
    shares = calibrator.inclusion([v.position for v in voices]).tolist()
    return [
        {
            "annotator": voice.annotator,
            "item": voice.item,
            "answer": said(voice.label, store.settings),
            "purpose": purpose,
            "inclusion": _share(purpose, share, voice),
            "uniform": even,
            "time": voice.at,
            "id": voice.id,
            "note": notes.get(voice.seq),
        }
        for voice, purpose, share, even in zip(voices, purposes, shares, uniform, strict=True)
    ]


def _share(purpose: str, share: float, voice: Voice) -> float | None:
    """Of an item that was drawn twice, by another session and by this one, the greater."""
    if purpose == "audit":
        return max(share, voice.inclusion or 0.0) or None
    return 1.0 if purpose == "chosen" else None


def _uniform(voices: list[Voice], purposes: list[str], left_out: set[int]) -> list[bool]:
    """Which answers are of the one uniform sample of the whole pool, that another session may take for one."""
    elsewhere = {v.position for v in voices if v.drawn}
    return [
        purpose == "audit" and (voice.position in elsewhere or voice.position not in left_out)
        for voice, purpose in zip(voices, purposes, strict=True)
    ]


def _purpose(standing: Standing, voice: Voice) -> str:
    """audit: drawn uniformly at random; chosen: by the design; own: nobody asked; arbiter: a decision."""
    if voice.arbiter:
        return "arbiter"
    if voice.drawn or voice.position in standing.audited:
        return "audit"
    return "chosen" if voice.position in standing.questions else "own"


def said_by(store: Store, annotator: str, most: int) -> list[Said]:
    """What an annotator said and what is in force, newest first, with the notes."""
    with store.standing() as standing:
        mine = [v for v in standing.everything() if v.annotator == annotator and not v.arbiter][-most:][::-1]
    with store.database.read() as connection:
        of = schema.note.c.seq.in_([v.seq for v in mine])
        notes = {row.seq: row.text for row in connection.execute(select(schema.note).where(of))}
    return [Said(v.id, v.item, v.label, v.at, notes.get(v.seq)) for v in mine]


def disagreements(store: Store) -> list[Disagreement]:
    with store.standing() as standing:
        found = []
        for position in standing.disputed():
            voices = standing.labels(position)
            opinions = tuple((v.annotator, v.label) for v in voices if v.label is not None)
            found.append(Disagreement(voices[0].item, position, opinions))
    return found
