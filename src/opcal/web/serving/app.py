"""The routes. Each request is judged by the artefact that was in force when it came."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

import opcal
from opcal import costs
from opcal.artifact.artifact import HIGHEST, Artifact, Judged
from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import loss_from_threshold
from opcal.errors import OpcalError
from opcal.web.security import App, Guard, Message, Receive, Rules, Scope, Send
from opcal.web.serving import bodies, schema
from opcal.web.serving.holder import Holder
from opcal.web.serving.metrics import Metrics
from opcal.web.serving.tokens import Tokens

log = logging.getLogger("opcal.serve")
OPEN = ("/health", "/ready")
INLINE = 16
"""Requests of so many items are answered on the spot: handing one to a thread takes .2 ms."""
LARGEST_BODY = 64_000_000


def application(holder: Holder, *, origins: frozenset[str], tokens: Tokens | None = None) -> App:
    """The service behind its door, counted and logged."""
    metrics = Metrics()
    inner = routes(holder, metrics)
    rules = Rules(origins, OPEN, LARGEST_BODY)
    return Counted(Guard(inner, rules, tokens or Tokens()), holder, metrics)


def routes(holder: Holder, metrics: Metrics) -> FastAPI:
    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        holder.start()
        yield
        holder.stop()

    app = FastAPI(title="opcal", version=opcal.__version__, lifespan=life, docs_url=None, redoc_url=None)

    @app.exception_handler(OpcalError)
    async def refused(request: Request, error: OpcalError) -> JSONResponse:
        return JSONResponse(bodies.why(error), 422)

    async def answered(
        request: Request, answer: Callable[[Artifact, bodies.Asked], tuple[Judged, Any]]
    ) -> tuple[Artifact, bodies.Asked, Judged, Any]:
        artifact = holder.current.artifact
        asked = bodies.read(await request.body(), request.headers.get("content-type", ""), artifact.manifest.layout)
        few = len(asked.rows) <= INLINE
        judged, more = answer(artifact, asked) if few else await run_in_threadpool(answer, artifact, asked)
        metrics.judged(judged)
        request.scope["opcal.told"] = {"items": len(asked.rows), "artifact": artifact.digest}
        return artifact, asked, judged, more

    @app.post("/score", openapi_extra=schema.SCORE, response_model=None)
    async def score(request: Request) -> Response:
        """Calibrated confidence of one item or many."""
        artifact, asked, judged, _ = await answered(request, lambda a, x: (a.judged(x.rows, x.threshold), None))
        if bodies.BINARY in request.headers.get("accept", ""):
            return Response(bodies.packed(asked, judged), 200, {"opcal-artifact": artifact.digest}, bodies.BINARY)
        return JSONResponse(bodies.columns(asked, judged, artifact.digest, artifact.classes))

    @app.post("/decide", openapi_extra=schema.DECIDE, response_model=None)
    async def decide(request: Request) -> Response:
        """What to do with one item or many: act on the prediction, or what the costs offer instead."""
        artifact, asked, judged, found = await answered(request, decided)
        told = bodies.columns(asked, judged, artifact.digest, artifact.classes)
        return JSONResponse(told | bodies.single(found, asked.one))

    @app.get("/health")
    async def health() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Requests are welcome: an artefact is loaded and the server is not about to stop."""
        at = holder.current.artifact
        told = {"ready": holder.ready, "artifact": at.digest}
        return JSONResponse(told, 200 if holder.ready else 503)

    @app.get("/metrics")
    async def prometheus() -> PlainTextResponse:
        """Counters in Prometheus' text format."""
        at = holder.current
        text = metrics.text(at.artifact.digest, at.artifact.manifest.method, at.generation, holder.failures)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return app


def decided(artifact: Artifact, asked: bodies.Asked) -> tuple[Judged, dict[str, list[Any]]]:
    """By the request's costs or threshold, else by the artefact's own costs."""
    judged = artifact.judged(asked.rows, asked.threshold)
    given: CostMatrix | float | None = None
    if asked.costs is not None:
        names = artifact.classes or asked.pool.n_classes or int(asked.rows.predicted.max()) + 1
        given = costs.from_dict(asked.costs, names, where="costs: ")
    elif asked.threshold is not None:
        given = loss_from_threshold(min(asked.threshold, HIGHEST))
    found = artifact.decisions(asked.pool, given, judged=judged)
    names_of = [found.names[i] for i in found.action.tolist()]
    return judged, {"action": names_of, "expected_gain": found.expected.tolist()}


class Counted:
    """Around everything, so that refusals are counted and logged as well."""

    def __init__(self, inner: App, holder: Holder, metrics: Metrics) -> None:
        self.inner, self.holder, self.metrics = inner, holder, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        status, started = 500, perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.inner(scope, receive, sending)
        finally:
            seconds = perf_counter() - started
            path = scope["path"] if scope["path"] in schema.PATHS else "other"
            self.metrics.request(path, status, seconds)
            if path not in OPEN:
                told = {"method": scope["method"], "path": path, "status": status, "ms": round(seconds * 1000, 3)}
                log.info("request", extra={"opcal": told | scope.get("opcal.told", {})})
