"""Pages, signing in and out."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from opcal.web.labelling.access import COOKIE_SECONDS, address_of
from opcal.web.labelling.desk import Anybody, AtDesk, Desk, Looker
from opcal.web.security import Caller, Refusal

WEB = Path(__file__).parent.parent
router = APIRouter(include_in_schema=False)


@lru_cache(maxsize=1)
def texts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((WEB / "static" / "texts.json").read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(WEB / "templates"), autoescape=True, undefined=StrictUndefined)


def _page(page: str, desk: Desk, caller: Caller | None, **more: Any) -> HTMLResponse:
    leads = caller is not None and caller.role in ("owner", "arbiter")
    looks = leads or desk.session.settings.blind == "none"
    values = {"t": texts(), "caller": caller, "leads": leads, "looks": looks, "page": page, **more}
    # The mark tells the service worker that opcal still lives at this address.
    return HTMLResponse(_templates().get_template(f"{page}.html").render(values), headers={"x-opcal-page": page})


@router.get("/")
def label(desk: AtDesk, caller: Anybody) -> HTMLResponse:
    return _page("label", desk, caller)


@lru_cache(maxsize=1)
def worker() -> str:
    """The service worker; another text, and so a new one for browsers, with every change of what it keeps."""
    static = WEB / "static"
    text = (static / "sw.js").read_text(encoding="utf-8")
    found = hashlib.sha256()
    for path in re.findall(r'"/static/([\w.]+)"', text):
        found.update((static / path).read_bytes())
    return text.replace("VERSION", found.hexdigest()[:16])


@router.get("/sw.js")
def service_worker() -> Response:
    """At the root, for it speaks for the pages there; it holds nothing that is not public."""
    return Response(worker(), media_type="text/javascript")


@router.get("/overview")
def overview(desk: AtDesk, caller: Anybody) -> HTMLResponse:
    if caller.role not in ("owner", "arbiter"):
        raise Refusal(403, "The overview is the owner's.")
    return _page("overview", desk, caller)


@router.get("/map")
def field_map(desk: AtDesk, caller: Looker) -> HTMLResponse:
    return _page("map", desk, caller)


@router.get("/in/{token}")
def enter(token: str, request: Request, desk: AtDesk) -> Response:
    """A personal link. The page that follows is opened by this one, so that the strict cookie goes with it."""
    person = desk.access.by_token(token, address_of(request.scope))
    if person is None:
        raise Refusal(401, "This link is not valid (any more): ask for a new one.")
    response = _page("enter", desk, None, name=person.name)
    response.set_cookie(
        desk.access.cookie_name,
        desk.access.cookie(person),
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.app.state.secure,
    )
    return response


@router.post("/api/sign-out")
def sign_out(desk: AtDesk, caller: Anybody) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(desk.access.cookie_name, httponly=True, samesite="strict")
    return response
