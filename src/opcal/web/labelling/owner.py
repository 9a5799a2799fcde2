"""Routes of the owner and the arbiters: the overview, disagreements, people and their links, the map, export."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from opcal.session.interchange import as_csv
from opcal.session.wording import said
from opcal.web.labelling import fieldmap, overview, shown
from opcal.web.labelling.bodies import DecideBody, PersonBody, RenewBody
from opcal.web.labelling.desk import AtDesk, Desk, Leader, Looker, Owner
from opcal.web.labelling.media import what_it_is
from opcal.web.security import Refusal

router = APIRouter()


@router.get("/api/overview")
def summary(desk: AtDesk, caller: Leader) -> dict[str, Any]:
    """Progress, who did what, agreement, the most confident mistakes, items by cluster."""
    return overview.summary(desk.session)


@router.get("/api/disagreements")
def disagreements(desk: AtDesk, caller: Leader) -> list[dict[str, Any]]:
    """Items whose opinions settle nothing: the arbiter's list."""
    session = desk.session
    return [
        {
            "opinions": [[who, said(label, session.settings)] for who, label in found.opinions],
            "task": shown.task(session.look(found.item), session, desk.media),
        }
        for found in session.disagreements()
    ]


@router.post("/api/decide")
def decide(body: DecideBody, desk: AtDesk, caller: Leader) -> dict[str, Any]:
    """A decision that stands above all opinions."""
    receipt = desk.session.resolve(caller.name, body.item, body.label, id=body.id, note=body.note)
    desk.live.wake()
    return shown.receipt(receipt)


@router.get("/api/export.csv")
def export(desk: AtDesk, caller: Leader) -> Response:
    """Every answer in force."""
    name = {"content-disposition": 'attachment; filename="answers.csv"'}
    return Response(as_csv(desk.session.answers()), media_type="text/csv; charset=utf-8", headers=name)


@router.get("/api/people")
def people(desk: AtDesk, caller: Owner) -> list[dict[str, Any]]:
    """Who may label, with their links."""
    return [_with_link(desk, p.name) for p in desk.access.people]


@router.post("/api/people")
def add_person(body: PersonBody, desk: AtDesk, caller: Owner) -> dict[str, Any]:
    """Let somebody label: gives their link."""
    if (known := desk.access.person(body.name.strip())) is not None and known.role == "owner":
        raise Refusal(409, "That is the owner's name.")
    return _with_link(desk, desk.access.add(body.name, body.role).name)


@router.post("/api/people/renew")
def renew(body: RenewBody, desk: AtDesk, caller: Owner) -> dict[str, Any]:
    """A new link for somebody; the old one is void, and they are signed out."""
    return _with_link(desk, desk.access.renew(body.name).name)


def _with_link(desk: Desk, name: str) -> dict[str, Any]:
    person = desk.access.person(name)
    assert person is not None
    return {**asdict(person), "link": f"/in/{desk.access.token(person)}"}


@router.get("/api/map/points")
def points(desk: AtDesk, caller: Looker) -> Response:
    """Where each item lies, by position: x and y as unsigned 16-bit numbers."""
    return Response(desk.map.points(desk.session.pool), media_type="application/octet-stream")


@router.get("/api/map/colours")
def colours(
    desk: AtDesk, caller: Looker, by: Annotated[str, Query(pattern="^(confidence|correction|answers)$")] = "confidence"
) -> Response:
    """One byte an item: confidence; correction (128 is none); answers (0 none, 1 right, 2 wrong)."""
    if by == "answers":
        content = overview.answered(desk.session)
    else:
        own, after = desk.session.pool.confidence, overview.calibrated(desk.session, desk.live.worth.confidence)
        content = fieldmap.in_8_bits(after if by == "confidence" else 0.5 + (after - own) / 2)
    return Response(content, media_type="application/octet-stream")


@router.get("/api/map/item")
def at(desk: AtDesk, caller: Looker, position: Annotated[int, Query(ge=0, le=2**53)]) -> dict[str, Any]:
    """What lies at a position of the pool."""
    pool = desk.session.pool
    if position >= len(pool):
        raise Refusal(404)
    found = overview.detail(desk.session, position, desk.live.worth.confidence)
    payload = None if pool.payload is None else pool.payload[position]
    kind = what_it_is(payload)
    return {
        **found,
        "kind": kind,
        "text": payload if kind == "text" else None,
        "columns": shown.columns(pool, position),
    }
