"""Routes of the annotator: what to label, the answer, undo, what I said; the panel beside it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from opcal.session import Given
from opcal.web.labelling import media, shown
from opcal.web.labelling.bodies import AnswerBody, LeaseBody, UndoBody
from opcal.web.labelling.desk import Anybody, AtDesk, Desk
from opcal.web.security import Refusal

router = APIRouter()

ItemId = Annotated[str, Query(min_length=1, max_length=8192)]
MediaId = Annotated[str, Query()]
MEDIA_HEADERS = {
    "cache-control": "private, max-age=86400",
    "content-security-policy": "default-src 'none'; sandbox",
    "content-disposition": "inline",
}


@router.get("/api/me")
def me(desk: AtDesk, caller: Anybody) -> dict[str, Any]:
    """Who I am here, and what session this is."""
    return shown.myself(desk.session, caller)


@router.post("/api/lease")
def lease(body: LeaseBody, desk: AtDesk, caller: Anybody) -> dict[str, Any]:
    """The items that are mine now, at most k; with none, whether anything may still come."""
    # Nobody waits for a refit inside a request: fifty who do would leave no thread for the answers.
    tasks = desk.session.lease(caller.name, body.k, wait=False)
    found = [shown.task(t, desk.session, desk.media) for t in tasks]
    return {"tasks": found, "done": not found and desk.session.status().done}


@router.post("/api/answers")
def answer(body: AnswerBody, desk: AtDesk, caller: Anybody) -> dict[str, Any]:
    """Store one answer; the same request again gives the same receipt."""
    given = Given(annotator=caller.name, **body.model_dump())
    (receipt,) = desk.session.record([given])
    desk.live.wake()
    return shown.receipt(receipt)


@router.post("/api/undo")
def undo(body: UndoBody, desk: AtDesk, caller: Anybody) -> dict[str, Any]:
    """Take back my newest answer, or the one with that id."""
    receipt = desk.session.undo(caller.name, body.answer, id=body.id)
    desk.live.wake()
    return shown.receipt(receipt)


@router.get("/api/mine")
def mine(desk: AtDesk, caller: Anybody, most: Annotated[int, Query(ge=1, le=500)] = 100) -> list[dict[str, Any]]:
    """My answers in force, newest first."""
    return [shown.answer(s, desk.session.settings) for s in desk.session.said_by(caller.name, most)]


@router.get("/api/item")
def item(item: ItemId, desk: AtDesk, caller: Anybody) -> dict[str, Any]:
    """One item as I may see it, to go back to it."""
    return shown.task(desk.session.look(item), desk.session, desk.media)


@router.get("/api/panel")
def panel(desk: AtDesk, caller: Anybody) -> dict[str, Any]:
    """What the labels are worth so far."""
    return desk.live.panel(caller)


@router.get("/api/live")
def live(desk: AtDesk, caller: Anybody) -> StreamingResponse:
    """The panel as server-sent events, again whenever it changes."""
    return StreamingResponse(
        desk.live.follow(caller), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


@router.get("/media")
def image(desk: AtDesk, caller: Anybody, item: MediaId = "") -> Response:
    """The image that an item's payload names, by the item's id alone."""
    return _sent(media.image_of(desk.media, _payload(desk, item)))


@router.get("/thumbnail")
def thumbnail(desk: AtDesk, caller: Anybody, item: MediaId = "") -> Response:
    """The same, small."""
    return _sent(media.thumbnail(desk.media, _payload(desk, item)))


@router.get("/media/{item:path}")
def image_by_path(item: str, desk: AtDesk, caller: Anybody) -> Response:
    """As `/media?item=`; what stands in the path is an item's id, never a path."""
    return image(desk, caller, item)


def _payload(desk: Desk, item: str) -> str:
    pool = desk.session.pool
    if not pool.has(item) or pool.payload is None:
        raise Refusal(404)
    payload = pool.payload[int(pool.positions([item])[0])]
    if payload is None or media.what_it_is(payload) != "image":
        raise Refusal(404)
    return payload


def _sent(image: media.Image) -> Response:
    return Response(image.content, media_type=image.kind, headers=MEDIA_HEADERS)
