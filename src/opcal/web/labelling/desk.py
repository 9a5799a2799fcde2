"""What the routes of the labelling page share: the session, its people, its media, the panel."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from opcal.session import Session
from opcal.web.labelling.access import Access
from opcal.web.labelling.fieldmap import FieldMap
from opcal.web.labelling.live import Live
from opcal.web.security import Caller, Refusal

MEDIA = "media"
"""Folder inside a session from which images come unless another is named."""


@dataclass
class Desk:
    """One session being served."""

    session: Session
    access: Access
    media: Path | None = None
    live: Live = field(init=False)
    map: FieldMap = field(default_factory=FieldMap)

    def __post_init__(self) -> None:
        self.live = Live(self.session)
        if self.media is None and (self.session.folder / MEDIA).is_dir():
            self.media = self.session.folder / MEDIA


def desk(request: Request) -> Desk:
    found: Desk = request.app.state.desk
    return found


def caller(request: Request) -> Caller:
    """Whoever the guard let in."""
    found: Caller | None = request.scope.get("opcal.caller")
    if found is None:
        raise Refusal(401)
    return found


def leader(request: Request) -> Caller:
    """The owner or an arbiter."""
    found = caller(request)
    if found.role not in ("owner", "arbiter"):
        raise Refusal(403, "Only the owner of this session may do that.")
    return found


def owner(request: Request) -> Caller:
    found = caller(request)
    if found.role != "owner":
        raise Refusal(403, "Only the owner of this session may do that.")
    return found


def looker(request: Request) -> Caller:
    """Who may see predictions of items before they are labelled: all, where nothing is blind."""
    found = caller(request)
    return found if desk(request).session.settings.blind == "none" else leader(request)


AtDesk = Annotated[Desk, Depends(desk)]
Anybody = Annotated[Caller, Depends(caller)]
Leader = Annotated[Caller, Depends(leader)]
Owner = Annotated[Caller, Depends(owner)]
Looker = Annotated[Caller, Depends(looker)]
