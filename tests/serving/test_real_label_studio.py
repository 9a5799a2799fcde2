"""A real Label Studio beside `opcal label-studio`: tasks in, predictions and order there, annotations back."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import make_case

import opcal
from opcal.session import Session
from opcal.session.interchange import label_studio_tasks, read

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.studio
CASE = make_case(n=60)
CONFIG = (
    '<View><Text name="item" value="$payload"/><Choices name="label" toName="item">'
    + "".join(f'<Choice value="{name}"/>' for name in "abcd")
    + "</Choices></View>"
)
QUIET = {
    **{"COLLECT_ANALYTICS": "false", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": "", "LATEST_VERSION_CHECK": "false"},
    **{"FEATURE_FLAGS_OFFLINE": "true", "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true"},
}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def asked(url, token=None, method="GET", body=None):
    """Status and decoded answer."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Token {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def running(command, log, **options):
    """A process until the end of the block, its output in a file."""
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, **options) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def until(question, seconds=20.0):
    """What a question answers as soon as it answers something true."""
    end = time.monotonic() + seconds
    while not (found := question()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def lives(url):
    try:
        return asked(url)[0] == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """Ask Label Studio: path, method, body."""
    program = os.environ.get("OPCAL_LABEL_STUDIO", "")
    if not Path(program).is_file():
        pytest.skip("Label Studio is not installed: make test-label-studio, or its program in OPCAL_LABEL_STUDIO")
    folder, port, token = tmp_path_factory.mktemp("studio"), free_port(), secrets.token_hex(20)
    own = f"http://127.0.0.1:{port}"
    where = ["--host", own, "--internal-host", "127.0.0.1", "--port", str(port), "--data-dir", str(folder)]
    who = ["--username", "ann@example.org", "--password", secrets.token_hex(8), "--user-token", token]
    command = [str(Path(program).resolve()), "start", "--no-browser", *where, *who]
    with running(command, folder / "log.txt", cwd=folder, env=os.environ | QUIET):
        assert until(lambda: lives(f"{own}/health"), 300), (folder / "log.txt").read_text()[-3000:]
        yield lambda path, method="GET", body=None: asked(own + path, token, method, body)


@pytest.fixture
def backend(tmp_path):
    """The command on a session of 60 items, behind a secret."""
    ids = [f"scan{i}" for i in range(60)]
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits, ids=ids, classes=["a", "b", "c", "d"])
    Session.start(pool, tmp_path / "ward", budget=20, method="paper").close()
    port, secret = free_port(), secrets.token_urlsafe()
    (tmp_path / "secret").write_text(secret)
    more = ["--port", str(port), "--secret-file", str(tmp_path / "secret")]
    start = [sys.executable, "-c", "from opcal.cli import main; main()"]
    command = [*start, "label-studio", str(tmp_path / "ward"), *more]
    url = f"http://127.0.0.1:{port}/{secret}"
    with running(command, tmp_path / "log.txt"), Session.open(tmp_path / "ward") as session:
        session.background = False
        assert until(lambda: lives(f"{url}/health")), (tmp_path / "log.txt").read_text()
        yield session, url


@pytest.fixture
def project(studio, backend):
    """A project of the session's leased tasks and one stranger, with the backend added."""
    session, url = backend
    status, made = studio("/api/projects", "POST", {"title": "ward", "label_config": CONFIG})
    assert status == 201, made
    number = made["id"]
    status, connected = studio("/api/ml", "POST", {"url": url, "project": number, "title": "opcal"})
    assert (status, connected["readable_state"]) == (201, "Connected"), connected
    leased = label_studio_tasks(session.lease("ann", 8), session.settings)
    tasks = [{"data": task["data"]} for task in leased] + [{"data": {"item": "nobody", "payload": "x"}}]
    assert studio(f"/api/projects/{number}/import", "POST", tasks)[1]["task_count"] == 9
    stored = studio(f"/api/tasks?project={number}&fields=all")[1]["tasks"]
    return number, {task["data"]["item"]: task["id"] for task in stored}


def chosen(name):
    return {"result": [{"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [name]}}]}


def answers(session):
    return [(r["item"], r["answer"], r["annotator"]) for r in session.answers()]


def test_predictions_and_opcals_order_arrive_in_label_studio(studio, backend, project):
    (session, _), (number, tasks) = backend, project
    everything = {"selectedItems": {"all": True, "excluded": []}, "project": number}
    status, told = studio(f"/api/dm/actions?id=retrieve_tasks_predictions&project={number}", "POST", everything)
    assert (status, told["processed_items"]) == (200, 9), told
    found = {p["task"]: p for p in studio(f"/api/predictions?project={number}")[1]}
    predicted = dict(zip(session.pool.ids, session.pool.predicted, strict=True))
    for item, task in tasks.items():
        choices = [r["value"]["choices"] for r in found[task]["result"]]
        assert choices == ([] if item == "nobody" else [["abcd"[predicted[item]]]])
        assert found[task]["model_version"] == "opcal-0"
    waiting = [session.pool.id_of(p) for p in session.calibrator().pending_]
    known = sorted((i for i in tasks if i != "nobody"), key=lambda item: found[tasks[item]]["score"])
    assert known == [item for item in waiting if item in tasks]


def test_annotations_arrive_once_are_corrected_skipped_and_taken_back(studio, backend, project, tmp_path):
    (session, url), (number, tasks) = backend, project
    (hook,) = studio(f"/api/webhooks?project={number}")[1]  # made by Label Studio with the backend
    assert (hook["url"], hook["send_payload"], hook["is_active"]) == (f"{url}/webhook", True, True)
    one, two, *_ = (item for item in tasks if item != "nobody")
    made = studio(f"/api/tasks/{tasks[one]}/annotations", "POST", chosen("b"))[1]
    assert until(lambda: answers(session)) == [(one, "b", "label-studio 1")]
    studio(f"/api/annotations/{made['id']}", "PATCH", chosen("c"))
    assert until(lambda: answers(session) == [(one, "c", "label-studio 1")]), answers(session)
    assert studio(f"/api/annotations/{made['id']}", "DELETE")[0] == 204
    assert until(lambda: not answers(session)), answers(session)
    again = {"url": f"{url}/webhook", "project": number, "send_payload": True, "send_for_all_actions": True}
    assert studio("/api/webhooks", "POST", again)[0] == 201  # every event comes twice from here on
    made = studio(f"/api/tasks/{tasks[one]}/annotations", "POST", chosen("b"))[1]
    assert studio(f"/api/tasks/{tasks['nobody']}/annotations", "POST", chosen("b"))[0] == 201
    assert studio(f"/api/tasks/{tasks[two]}/annotations", "POST", {"result": [], "was_cancelled": True})[0] == 201
    studio(f"/api/annotations/{made['id']}", "PATCH", chosen("c"))
    expected = {(one, "c", "label-studio 1"), (two, "skip", "label-studio 1")}
    assert until(lambda: set(answers(session)) == expected), answers(session)
    time.sleep(1)  # the second webhook's
    events = sum(e.kind in ("answer", "skip") for e in session.events())
    status, export = studio(f"/api/projects/{number}/export?exportType=JSON")
    assert (status, len(export)) == (200, 3)
    kept = [task for task in export if task["data"]["item"] != "nobody"]
    (tmp_path / "export.json").write_text(json.dumps(kept))
    session.record(read(tmp_path / "export.json", session, "me"))
    assert sum(e.kind in ("answer", "skip") for e in session.events()) == events == 5
