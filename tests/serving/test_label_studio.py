"""The ML backend, by the requests that Label Studio 1.23.0 sends; test_real_label_studio.py runs the real one."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import pytest
from conftest import make_case

import opcal
from opcal.session import Session
from opcal.session.interchange import read
from opcal.web import security

uvicorn = pytest.importorskip("uvicorn")

from opcal.web.serving.label_studio import backend  # noqa: E402

CASE = make_case(n=60)
SECRET = "a-long-and-secret-path"


@pytest.fixture
def studio(tmp_path):
    ids = [f"scan{i}" for i in range(60)]
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits, ids=ids, classes=["a", "b", "c", "d"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Session.start(pool, tmp_path / "ward", budget=20, method="paper") as session:
        session.background = False
        app = backend(session, origins=security.origins("127.0.0.1", port), secret=SECRET)
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.005)

        def ask(path, body=None, secret=SECRET):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            data = None if body is None else json.dumps(body)
            method = "GET" if body is None else "POST"
            connection.request(method, f"/{secret}{path}", data, {"content-type": "application/json"})
            answer = connection.getresponse()
            content = json.loads(answer.read())
            connection.close()
            return answer.status, content

        yield session, ask
        server.should_exit = True
        thread.join(20)


ASKED = {"project": "1.1795132370", "params": {"login": None, "password": None, "context": None}}


def annotation(number, choice, updated="2026-11-02T10:00:00Z", **more):
    """As Label Studio sends it, but for keys that nobody reads."""
    result = [{"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [choice]}}]
    made = {"id": number, "result": result, "was_cancelled": False, "created_at": "2026-11-02T10:00:00Z"}
    who = {"completed_by": 1, "updated_by": 1, "unique_id": f"9962b6c3-eb88-443e-8c46-{number:012}", "prediction": {}}
    return made | who | {"updated_at": updated, "task": 7, "project": 1} | more


def event(number, item, choice, action="ANNOTATION_CREATED", **more):
    task = {"id": 7, "data": {"item": item, "payload": item}}
    return {"action": action, "annotation": annotation(number, choice, **more), "task": task, "project": {"id": 1}}


def test_set_up_and_predictions_give_one_result_a_task_in_order(studio):
    session, ask = studio
    assert ask("/health") == (200, {"status": "UP", "model_class": "opcal"})
    given = {
        "project": "1.1795132370",
        "schema": "<View/>",
        "hostname": "http://h",
        "access_token": "secret",
        "extra_params": None,
    }
    assert ask("/setup", given)[1] == {"model_version": "opcal-0"}
    tasks = [{"id": i, "data": {"item": f"scan{i}"}, "annotations": []} for i in range(60)]
    tasks.append({"id": 99, "data": {"item": "unknown"}})
    status, told = ask("/predict", {"tasks": tasks, "label_config": "<View/>"} | ASKED)
    assert (status, len(told["results"])) == (200, 61)
    assert told["results"][60]["result"] == []
    predicted = session.pool.predicted
    for i, result in enumerate(told["results"][:60]):
        assert result["result"][0]["value"]["choices"] == ["abcd"[predicted[i]]]
    asked = session.calibrator().pending_.tolist()
    lowest = sorted(range(60), key=lambda i: told["results"][i]["score"])[: len(asked)]
    assert lowest == asked


def test_annotations_come_back_once_are_corrected_and_taken_back(studio):
    session, ask = studio
    assert ask("/webhook", event(5, "scan3", "b")) == ask("/webhook", event(5, "scan3", "b")) == (200, {"stored": 1})
    assert [(r["item"], r["answer"]) for r in session.answers()] == [("scan3", "b")]
    ask("/webhook", event(5, "scan3", "c", "ANNOTATION_UPDATED", updated="2026-11-02T11:00:00Z"))
    assert [(r["item"], r["answer"]) for r in session.answers()] == [("scan3", "c")]
    ask("/webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 5}], "project": {"id": 1}})
    assert session.answers() == []  # not the "b" that "c" had corrected either
    assert ask("/webhook", {"action": "PROJECT_UPDATED", "project": {}})[1] == {"stored": 0}


def test_what_came_by_webhook_is_known_when_label_studios_export_is_imported(studio, tmp_path):
    session, ask = studio
    made, skipped = annotation(5, "b"), annotation(6, "b") | {"result": [], "was_cancelled": True}
    ask("/webhook", event(5, "scan3", "b"))
    ask("/webhook", event(6, "scan4", "b") | {"annotation": skipped})
    tasks = [{"id": 7, "data": {"item": f"scan{i}"}, "annotations": [a]} for i, a in ((3, made), (4, skipped))]
    flat = {"id": 7, "item": "scan3", "label": "b", "annotator": 1, "annotation_id": 5}
    for name, content in (("full", tasks), ("min", [flat | {"updated_at": made["updated_at"]}])):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        session.record(read(tmp_path / f"{name}.json", session, "me"))
    assert [(r["item"], r["answer"]) for r in session.answers()] == [("scan3", "b"), ("scan4", "skip")]
    assert sum(e.kind in ("answer", "skip") for e in session.events()) == 2


def test_strangers_unknown_items_and_unknown_labels_are_refused(studio):
    _, ask = studio
    assert ask("/health", secret="guess")[0] == 401
    assert ask("/webhook", event(6, "unknown", "a"))[0] == 422
    status, told = ask("/webhook", event(7, "scan1", "z"))
    assert (status, "none of the classes" in told["error"]) == (422, True)
    assert ask("/predict", {})[0] == 422
