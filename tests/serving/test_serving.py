"""The service: what it answers, what it refuses, and that a new artefact is taken up without a dropped request."""

from __future__ import annotations

import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.artifact import container
from opcal.artifact.manifest import Layout
from opcal.errors import InvalidInput, OpcalError
from opcal.web import security

uvicorn = pytest.importorskip("uvicorn")

from opcal.web.serving import Holder, application, bodies  # noqa: E402
from opcal.web.serving.tokens import Tokens  # noqa: E402

CASE = make_case(n=160)
Z, H = CASE.features.astype(np.float32), CASE.logits.astype(np.float32)
POOL = opcal.Pool.from_arrays(Z, H, classes=["a", "b", "c", "d"])
TOKEN = "correct-horse-battery-staple"


def fitted(method="paper", answers=40, threshold=0.9):
    calibrator = opcal.OperationalCalibrator(method, threshold=threshold)
    return calibrator.fit(POOL, range(answers), labels=CASE.labels[:answers])


class Server:
    def __init__(self, path, tokens=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.holder = Holder(path, seconds=0.01)
        app = application(self.holder, origins=security.origins("127.0.0.1", self.port), tokens=Tokens(tokens))
        config = uvicorn.Config(app, port=self.port, log_config=None, access_log=False, server_header=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)

    def ask(self, path, body=None, connection=None, **headers):
        """Status, decoded answer, headers."""
        c = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        c.request(method, path, data, {"content-type": "application/json"} | headers)
        answer = c.getresponse()
        content = answer.read()
        if connection is None:
            c.close()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, json.loads(content) if is_json else content, dict(answer.getheaders())

    def stop(self):
        self.server.should_exit = True
        self.thread.join(20)


@pytest.fixture
def path(tmp_path):
    return fitted().save(tmp_path / "x.opcal")


@pytest.fixture
def server(path):
    running = Server(path)
    yield running
    running.stop()


def items(rows):
    return {"features": Z[rows].tolist(), "logits": H[rows].tolist()}


def test_one_item_and_many_get_what_the_artefact_says(server, path):
    loaded = opcal.load(path)
    expected = loaded.posterior(POOL)
    status, many, _ = server.ask("/score", items(slice(0, 30)))
    assert (status, many["artifact"]) == (200, loaded.digest)
    np.testing.assert_allclose(many["confidence"], expected.mean[:30], rtol=0, atol=1e-9)
    np.testing.assert_allclose(many["above"], expected.above(0.9)[:30], rtol=0, atol=1e-9)
    assert many["label"][3] == "abcd"[POOL.predicted[3]]
    status, one, _ = server.ask("/score", items(7))
    assert (status, one["act"]) == (200, bool(expected.mean[7] >= 0.9))
    assert one["confidence"] == pytest.approx(expected.mean[7], abs=1e-9)


def test_safetensors_in_and_out_carry_the_same_bytes(server, path):
    from safetensors.numpy import load, save

    kind = "application/vnd.safetensors"
    body = save({"features": Z, "logits": H})
    status, answer, headers = server.ask("/score", body, **{"content-type": kind, "accept": kind})
    assert (status, headers["opcal-artifact"]) == (200, opcal.load(path).digest)
    np.testing.assert_array_equal(load(answer)["confidence"], opcal.load(path).confidence(POOL))
    assert server.ask("/score", b"no", **{"content-type": kind})[0] == 422


@pytest.mark.parametrize("number", ["1e400", "0.1", "1e-400", "-0.0", "16777217", "1e308", "9223372036854775808"])
def test_with_and_without_orjson_a_request_is_read_alike(number, monkeypatch):
    layout = Layout(1, 2)
    body = f'{{"features": [[{number}], [2]], "logits": [[1, 2.5], [3, 4]]}}'.encode()

    def read():
        try:
            rows = bodies.read(body, "application/json", layout).rows
        except OpcalError as error:
            return str(error)
        return rows.features.tobytes() + rows.logits.tobytes()

    with np.errstate(over="ignore"):
        quick = read()
        monkeypatch.setitem(sys.modules, "orjson", None)
        assert read() == quick


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no object"),
        ({}, "features is missing"),
        ({"features": []}, "expected numbers"),
        ({"features": [1, 2], "logits": [1, 2, 3, 4]}, "2 features"),
        ({"features": Z[0].tolist()}, "pass either logits"),
        ({"features": Z[:2].tolist(), "logits": H[:3].tolist()}, "logits"),
        ({"features": [[1.0, 2.0], [3.0]], "logits": H[:2].tolist()}, "ragged"),
        ({"features": ["a"] * 6, "logits": H[0].tolist()}, "expected numbers"),
        (b'{"features": [NaN,1,1,1,1,1], "logits": [1,2,3,4]}', "nan"),
        ({"features": Z[0].tolist(), "logits": [0.25, 0.25, 0.25, 0.25]}, "probabilities"),
        ({"features": Z[0].tolist(), "logits": H[0].tolist(), "treshold": 1}, "known are"),
        ({"features": Z[0].tolist(), "logits": H[0].tolist(), "threshold": 2}, "threshold"),
        ({"features": Z[0].tolist(), "logits": [True, False, True, 1]}, ""),
    ],
)
def test_what_cannot_be_scored_is_refused_with_the_reason(server, body, says):
    status, answer, _ = server.ask("/score", body)
    if says:
        assert status == 422
        assert says in answer["error"]
    assert status in (200, 422)


def test_decisions_follow_the_costs_and_nobody_acts_on_what_is_outside(server):
    status, told, _ = server.ask("/decide", items(slice(0, 60)) | {"costs": 9})
    assert status == 200
    sure = np.array(told["confidence"]) > 0.9
    assert np.array_equal(np.array(told["action"]) == "act", sure)
    offer = {"gain": 1, "loss": 1, "actions": {"person": {"cost": 0.5}}}
    told = server.ask("/decide", items(slice(0, 60)) | {"costs": offer})[1]
    assert set(told["action"]) == {"act", "person"}
    strange = {"features": (Z[:40] * -50 + [900, 0, 0, 0, 0, -5]).tolist(), "logits": (9 * H[:40]).tolist()}
    told = server.ask("/decide", strange | {"costs": 0.2})[1]
    assert sum(told["outside"]) > 20
    assert not any(a == "act" for a, out in zip(told["action"], told["outside"], strict=True) if out)
    assert server.ask("/decide", items(3))[1]["action"] in ("act", "reject")
    status, told, _ = server.ask("/decide", items(3) | {"costs": {"loss": {"a": 1}}})
    assert (status, "costs: loss" in told["error"]) == (422, True)


def test_decisions_go_by_the_artefacts_own_costs_where_a_request_brings_none(tmp_path):
    offer = {"gain": 1, "loss": {"a": 1, "b": 2, "c": 3, "d": 4}, "actions": {"person": {"cost": 0.5}}}
    calibrator = opcal.OperationalCalibrator("paper", costs=opcal.costs.from_dict(offer, list("abcd")))
    server = Server(calibrator.fit(POOL, range(40), labels=CASE.labels[:40]).save(tmp_path / "x.opcal"))
    try:
        own, told = (server.ask("/decide", items(slice(0, 60)) | more)[1] for more in ({}, {"costs": offer}))
        assert own["action"] == told["action"]
        assert own["expected_gain"] == told["expected_gain"]
        assert set(own["action"]) == {"act", "person"}
        assert server.ask("/decide", items(3))[1]["action"] == own["action"][3]
        assert set(server.ask("/decide", items(slice(0, 60)) | {"costs": 1})[1]["action"]) == {"act", "reject"}
        assert set(server.ask("/decide", items(slice(0, 60)) | {"threshold": 0.5})[1]["action"]) == {"act", "reject"}
    finally:
        server.stop()


def test_the_door_is_that_of_every_opcal_server(path):
    server = Server(path, [TOKEN])
    try:
        assert server.ask("/health")[0] == server.ask("/ready")[0] == 200
        assert server.ask("/score", items(0))[0] == server.ask("/metrics")[0] == server.ask("/openapi.json")[0] == 401
        good = {"authorization": f"Bearer {TOKEN}"}
        assert server.ask("/score", items(0), **good)[0] == 200
        assert server.ask("/score", items(0), **good, host="evil.example")[0] == 403
        assert server.ask("/score", items(0), **good, origin="http://evil.example")[0] == 403
        assert server.ask("/nothing", **good)[0] == 404
        wrong = [server.ask("/score", items(0), authorization="Bearer wrong-wrong-wrong-wrong")[0] for _ in range(12)]
        assert (wrong[0], wrong[-1]) == (401, 429)
        headers = server.ask("/health")[2]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    finally:
        server.stop()
    with pytest.raises(InvalidInput, match="fewer than 16"):
        Tokens(["short"])
    with pytest.raises(InvalidInput, match="nobody is asked to sign in"):
        security.refuse_open_bind("0.0.0.0", authenticated=False)


def test_metrics_count_requests_items_and_what_was_outside(server):
    server.ask("/score", items(slice(0, 20)))
    server.ask("/score", {})
    text = server.ask("/metrics")[1].decode()
    for line in (
        'opcal_requests_total{path="/score",status="200"} 1',
        'opcal_requests_total{path="/score",status="422"} 1',
        "opcal_items_total 20",
        "opcal_confidence_count 20",
        'opcal_confidence_bucket{le="+Inf"} 20',
        "opcal_artifact_generation 1",
    ):
        assert line in text
    assert f'digest="{server.holder.current.artifact.digest}"' in text


def test_openapi_describes_every_route(server):
    described = server.ask("/openapi.json")[1]
    assert set(described["paths"]) == {"/score", "/decide", "/health", "/ready", "/metrics"}
    asked = described["paths"]["/score"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "features" in asked["required"]


@pytest.mark.parametrize("reloads", [3, pytest.param(20, marks=pytest.mark.crash)])
def test_no_request_fails_or_mixes_two_artefacts_while_they_are_replaced(reloads, tmp_path):
    """An answer's numbers are those of the artefact that it names."""
    known = {}
    for name, calibrator in (("a", fitted(answers=20)), ("b", fitted(answers=90))):
        loaded = opcal.load(calibrator.save(tmp_path / name))
        known[loaded.digest] = loaded.confidence(POOL)
    contents = [container.read(tmp_path / name) for name in ("a", "b")]
    live = tmp_path / "live.opcal"
    container.write(live, contents[0].manifest, contents[0].arrays)
    server, wrong, seen = Server(live), [], set()
    stop = threading.Event()

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        for k in range(reloads * (125 if reloads > 3 else 40)):
            rows = slice((k + number) % 100, (k + number) % 100 + 5)
            status, told, _ = server.ask("/score", items(rows), connection)
            if status != 200 or not np.allclose(told["confidence"], known[told["artifact"]][rows], atol=1e-12):
                wrong.append((status, told))
            seen.add(told["artifact"])
        connection.close()

    def replacer():
        for k in range(reloads):
            c = contents[(k + 1) % 2]
            container.write(live, c.manifest, c.arrays)
            if stop.wait(0.15):
                return

    threads = [threading.Thread(target=client, args=(n,)) for n in range(4)] + [threading.Thread(target=replacer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    server.stop()
    assert wrong == []
    assert seen == set(known)


def test_a_broken_new_file_is_told_and_the_old_artefact_stays(server, path, caplog):
    digest = server.holder.current.artifact.digest
    with caplog.at_level(logging.ERROR, "opcal.serve"):
        path.write_bytes(b"broken")
        while not server.holder.failures:
            time.sleep(0.01)
    assert "reload failed" in caplog.text
    assert server.ask("/score", items(0))[1]["artifact"] == digest
    assert b"\nopcal_reload_failures_total 0" not in server.ask("/metrics")[1]


def test_the_command_serves_logs_lines_and_stops_gracefully(path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from opcal.cli import main; main()", "serve", str(path), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        asking = Server.__new__(Server)
        asking.port = port
        for _ in range(600):
            try:
                asking.ask("/ready")
                break
            except OSError:
                time.sleep(0.05)
        assert asking.ask("/score", items(1))[0] == 200
        process.send_signal(signal.SIGHUP)
        os.kill(process.pid, signal.SIGTERM)
        lines = process.stderr.read().splitlines()
        assert process.wait(20) == 0
    told = [json.loads(line) for line in lines if line.startswith("{")]
    (request,) = [t for t in told if t["event"] == "request"]
    assert (request["path"], request["status"], request["items"]) == ("/score", 200, 1)
    assert not any("correct-horse" in line for line in lines)
