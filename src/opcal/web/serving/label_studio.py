"""Label Studio's ML backend over a session: it shows opcal's predictions and order, and gives back what people say.

Label Studio asks /health and /setup, then /predict with tasks; it sends annotations to /webhook, once for each webhook
of the project (it makes one itself when the backend is added). It cannot send a bearer token, so the secret, where one
is wanted, is the first part of the path.
"""

from __future__ import annotations

import hmac
import logging
from hashlib import sha256
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from opcal.calibrator import OperationalCalibrator
from opcal.errors import InvalidInput, OpcalError
from opcal.session import Given, Session
from opcal.session.interchange.label_studio import ITEM_KEYS, annotation_id, rows
from opcal.session.wording import meaning
from opcal.web.security import App, Caller, Guard, Headers, Rules, Scope

log = logging.getLogger("opcal.label_studio")
LARGEST_BODY = 16_000_000
CREATED = {"ANNOTATION_CREATED", "ANNOTATION_UPDATED"}
DELETED = "ANNOTATIONS_DELETED"


def backend(session: Session, *, origins: frozenset[str], secret: str | None = None) -> App:
    """The application. With a secret, Label Studio's URL of the backend is http://HOST:PORT/SECRET."""
    prefix = "" if secret is None else f"/{secret}"

    def who(scope: Scope, headers: Headers) -> Caller | None:
        given = sha256(scope["path"].split("/")[1].encode()).digest()
        if secret is not None and not hmac.compare_digest(given, sha256(secret.encode()).digest()):
            return None
        return Caller("label studio", "client", by_cookie=False)

    return Guard(_routes(session, prefix), Rules(origins, (), LARGEST_BODY), who)


def _routes(session: Session, prefix: str) -> FastAPI:
    app = FastAPI(title="opcal for Label Studio", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(OpcalError)
    async def refused(request: Request, error: OpcalError) -> JSONResponse:
        log.error("refused", extra={"opcal": {"error": str(error)}})
        return JSONResponse({"error": str(error)}, 422)

    @app.get(prefix + "/health")
    async def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "opcal"}

    @app.post(prefix + "/setup")
    async def setup(request: Request) -> dict[str, str]:
        """Holds a user's token of Label Studio, which is neither kept nor logged."""
        return {"model_version": version(session)}

    @app.post(prefix + "/predict")
    def predict(body: dict[str, Any]) -> dict[str, Any]:
        tasks = body.get("tasks")
        if not isinstance(tasks, list):
            raise InvalidInput("tasks is missing: this is Label Studio's /predict")
        return {"results": predictions(session, tasks), "model_version": version(session)}

    @app.post(prefix + "/webhook")
    def webhook(body: dict[str, Any]) -> dict[str, Any]:
        return {"stored": taken(session, body)}

    return app


def version(session: Session) -> str:
    return f"opcal-{session.status().labelled}"


def predictions(session: Session, tasks: list[Any]) -> list[dict[str, Any]]:
    """Exactly one a task, in their order; a task that the session does not know gets an empty one.

    The score is low for what opcal would ask next, so that "least certain first" shows tasks in its order; elsewhere it
    is ½ + ½ the calibrated confidence.
    """
    calibrator, settings = session.calibrator(), session.settings
    pool = calibrator.pool_
    queue = {p: rank for rank, p in enumerate(_order(session, calibrator))}
    named = [_item(task) for task in tasks]
    known = sorted(
        {p for item in named if item is not None and pool.has(item) for p in pool.positions([item]).tolist()}
    )
    confidence = dict(zip(known, calibrator.confidence(pool.take(known)).tolist(), strict=True)) if known else {}
    found: list[dict[str, Any]] = []
    for item in named:
        made: dict[str, Any] = {"model_version": version(session), "score": 0.0, "result": []}
        if item is not None and pool.has(item):
            at = int(pool.positions([item])[0])
            ahead = queue.get(at)
            made["score"] = 0.5 + 0.5 * confidence[at] if ahead is None else 0.4 * ahead / max(len(queue), 1)
            at_class = int(pool.predicted[at])
            name = settings.classes[at_class] if settings.classes else str(at_class)
            choice = {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [name]}}
            made["result"] = [choice | {"score": confidence[at]}]
        found.append(made)
    return found


def _order(session: Session, calibrator: OperationalCalibrator) -> list[int]:
    """Positions that the session has asked for and not been told, in its order."""
    return [int(p) for p in calibrator.pending_.tolist()]


def taken(session: Session, body: dict[str, Any]) -> int:
    """An annotation as an answer. The same one twice is one answer, a changed one corrects, a deleted one is undone."""
    action = body.get("action")
    if action == DELETED:
        return sum(_undone(session, a.get("id")) for a in body.get("annotations", []) if isinstance(a, dict))
    if action not in CREATED:
        return 0
    annotation, task = body.get("annotation"), body.get("task")
    if not isinstance(annotation, dict) or not isinstance(task, dict):
        raise InvalidInput("annotation or task is missing: let the webhook send payloads")
    (row,) = rows([{"data": task.get("data") or {}, "annotations": [annotation]}])
    if row["item"] is None:
        raise InvalidInput(f"the task names no item: its data needs one of {', '.join(ITEM_KEYS)}")
    said = meaning(row["answer"] or "skip", session.settings)
    annotator = row["annotator"] or "label-studio"
    session.record([Given(row["item"], annotator=annotator, id=row["id"], **said)])
    return 1


def _undone(session: Session, number: Any) -> int:
    """Every version of an annotation: what a correction had replaced is in force again once that is undone."""
    name, count = f"{annotation_id({'id': number})}-", 0
    while told := [row for row in session.answers() if f"{row['id']}-".startswith(name)]:
        for row in told:
            session.undo(row["annotator"], row["id"], id=f"deleted-{row['id']}")
        count += len(told)
    return count


def _item(task: Any) -> str | None:
    data = task.get("data") if isinstance(task, dict) else None
    if not isinstance(data, dict):
        return None
    return next((str(data[key]) for key in ITEM_KEYS if data.get(key) is not None), None)
