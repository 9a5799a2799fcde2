"""The application: routes behind the guard, errors in plain words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

import opcal
from opcal.errors import ConflictingAnswer, NotYours, OpcalError, SessionError, StorageFull, UnknownItem
from opcal.web.labelling import labels, owner, pages
from opcal.web.labelling.access import same_person
from opcal.web.labelling.desk import Desk
from opcal.web.security import SAFE, TELLING, Caller, Guard, Headers, Refusal, Rules, Scope, refuse

OPEN = ("/static/", "/in/", "/favicon.ico", "/sw.js")


def application(desk: Desk) -> FastAPI:
    """All routes, without the guard: for lists and documents."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        desk.live.start()
        yield
        desk.live.stop()

    app = FastAPI(
        title="opcal label", version=opcal.__version__, lifespan=running, docs_url=None, redoc_url=None, debug=False
    )
    app.state.desk, app.state.secure = desk, False
    for part in (pages, labels, owner):
        app.include_router(part.router)
    app.mount("/static", StaticFiles(directory=pages.WEB / "static"))
    app.add_exception_handler(OpcalError, _refused)
    app.add_exception_handler(Refusal, _turned_away)
    app.add_exception_handler(RequestValidationError, _misshapen)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(Exception, _broken)
    return app


def guarded(desk: Desk, origins: frozenset[str]) -> Guard:
    """The application as it is served."""
    app = application(desk)
    app.state.secure = any(origin.startswith("https://") for origin in origins)

    def who(scope: Scope, headers: Headers) -> Caller | None:
        found = desk.access.caller(scope, headers)
        if found is not None:
            same_person(headers, found, scope["method"] in SAFE)
        return found

    return Guard(app, Rules(origins, OPEN), who)


def status_of(error: OpcalError) -> int:
    if isinstance(error, SessionError):
        return 507 if isinstance(error, StorageFull) else 503
    kinds = ((UnknownItem, 404), (NotYours, 403), (ConflictingAnswer, 409))
    return next((status for kind, status in kinds if isinstance(error, kind)), 422)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OpcalError)
    # Errors of storage name files and servers: those are for the terminal.
    words = "The session cannot be written just now; nothing was taken. Send it again."
    told = words if isinstance(error, OSError) else str(error)
    return JSONResponse({"error": told}, status_of(error))


async def _turned_away(request: Request, error: Exception) -> Any:
    assert isinstance(error, Refusal)
    return _Refused(error)


class _Refused:
    """A refusal as a response: the same words and forms as at the door."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await refuse(scope, send, self.refusal)


async def _broken(request: Request, error: Exception) -> Any:
    """The traceback goes to the terminal, not to the page."""
    return _Refused(Refusal(500))


async def _misshapen(request: Request, error: Exception) -> JSONResponse:
    """Which field is wrong, without giving back what came."""
    assert isinstance(error, RequestValidationError)
    told = [f"{'.'.join(map(str, e['loc'][1:])) or e['loc'][0]}: {e['msg']}" for e in error.errors()]
    clean = "; ".join(told).encode("utf-8", "replace").decode()
    return JSONResponse({"error": clean}, 422)


async def _plain(request: Request, error: Exception) -> Any:
    assert isinstance(error, HTTPException)
    return _Refused(Refusal(error.status_code, TELLING.get(error.status_code, "Refused.")))
