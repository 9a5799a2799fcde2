"""The door: what it lets in, tried header by header on a server that says yes to everything."""

from __future__ import annotations

import asyncio
import json

import pytest

from opcal.errors import InvalidInput
from opcal.web import security
from opcal.web.security import Caller, Guard, Limiter, Refusal, Rules

OWN = "http://127.0.0.1:8080"
RULES = Rules(security.origins("127.0.0.1", 8080), max_body=1000)


async def yes(scope, receive, send):
    if scope["path"] == "/fails":
        raise RuntimeError("/secret/path")
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": body})


def who(scope, headers):
    if security.bearer(headers) == "token":
        return Caller("program", "client", by_cookie=False)
    return Caller("ann", "annotator") if security.cookie(headers, "opcal") == "good" else None


def knock(method="POST", path="/x", body=(b"",), **headers):
    """Status, headers and body of one request; None takes a header away."""
    given = {"host": "127.0.0.1:8080", "origin": OWN, "cookie": "opcal=good"} | {
        k.replace("_", "-"): v for k, v in headers.items()
    }
    raw = [
        (k.encode(), v.encode("latin-1"))
        for k, vs in given.items()
        if vs is not None
        for v in ([vs] if isinstance(vs, str) else vs)
    ]
    parts = [{"type": "http.request", "body": p, "more_body": i + 1 < len(body)} for i, p in enumerate(body)]
    sent = []

    async def receive():
        return parts.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    asyncio.run(Guard(yes, RULES, who)(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_the_servers_own_page_is_let_in_and_gets_the_safe_headers():
    status, headers, _ = knock(sec_fetch_site="same-origin")
    assert status == 200
    assert b"script-src 'self'" in headers[b"content-security-policy"]
    assert b"unsafe-inline" not in headers[b"content-security-policy"]
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"referrer-policy"] == b"no-referrer"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:8081", "127.0.0.1:8080.evil.example", "", "é", ["127.0.0.1:8080"] * 2],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_host_gets_nothing_not_even_to_read(host, method):
    assert knock(method, host=host)[0] == 403
    assert knock(method, host=None)[0] == 403


CROSS = [
    dict(origin="https://evil.example"),
    dict(origin="null"),
    dict(origin="http://127.0.0.1:8081"),
    dict(origin="https://127.0.0.1:8080"),
    dict(origin="http://127.0.0.1:8080.evil.example"),
    dict(origin="http://["),
    dict(origin="ÿþ"),
    dict(origin=""),
    dict(origin=[OWN, "https://evil.example"]),
    dict(origin="http://localhost:8080"),  # ours as well, but not the page that asked
    dict(sec_fetch_site="cross-site"),
    dict(sec_fetch_site="same-site"),
    dict(sec_fetch_site="none"),
    dict(sec_fetch_site="?!"),
    dict(sec_fetch_site="cross-site", origin=None),
    dict(origin=None),
]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("headers", CROSS, ids=str)
def test_a_write_from_elsewhere_is_refused(method, headers):
    assert knock(method, **headers)[0] == 403


def test_a_program_with_a_token_needs_no_origin_but_lies_about_none():
    alone = dict(cookie=None, authorization="Bearer token")
    assert knock(origin=None, **alone)[0] == 200
    assert knock(origin="https://evil.example", **alone)[0] == 403


@pytest.mark.parametrize("cookie", [None, "opcal=bad", "opcal=good; opcal=bad", "=;;=", "opcal"])
def test_nobody_known_gets_401_on_every_path_that_is_not_open(cookie):
    assert knock(cookie=cookie)[0] == 401
    assert knock("GET", "/static/style.css", cookie=cookie)[0] == 200
    assert knock("GET", "/staticish", cookie=cookie)[0] == 401


def test_a_body_is_limited_whether_its_length_was_declared_or_not():
    assert knock(body=(b"x" * 1000,))[0] == 200
    assert knock(body=(b"x" * 600, b"x" * 600))[0] == 413
    assert knock(content_length="1001")[0] == 413
    assert [knock(content_length=n)[0] for n in ("-1", "9" * 5000, "ten", "²")] == [413] * 4


def test_a_body_that_is_too_large_is_told_the_servers_own_limit():
    for most, words in ((security.MAX_BODY, "at most 1 MB"), (64_000_000, "at most 64 MB")):
        assert words in str(security.Refusal.too_large(most))
    for too_large in ({"body": (b"x" * 600, b"x" * 600)}, {"content_length": "1001"}):
        assert b"at most 0.001 MB" in knock(**too_large)[2]


def test_a_failure_inside_tells_no_path_and_no_traceback():
    with pytest.raises(RuntimeError):  # the server's own log gets it
        knock(path="/fails")
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/fails", "headers": [(b"host", b"127.0.0.1:8080")]}
    with pytest.raises(RuntimeError):
        asyncio.run(Guard(yes, RULES, lambda *_: Caller("a", "owner"))(scope, receive, send))
    assert sent[0]["status"] == 500
    assert "secret" not in json.loads(sent[1]["body"])["error"]


def test_failures_are_limited_by_address_and_forgotten_after_a_while():
    now = [0.0]
    limiter = Limiter(most=3, seconds=60, clock=lambda: now[0])
    for _ in range(3):
        limiter.check("a")
        limiter.failed("a")
    with pytest.raises(Refusal):
        limiter.check("a")
    limiter.check("b")
    now[0] = 61
    limiter.check("a")


def test_failures_are_limited_over_all_addresses_together_as_well():
    now = [0.0]
    limiter = Limiter(most=3, overall=5, seconds=60, clock=lambda: now[0])
    for address in "abcde":
        limiter.check(address)
        limiter.failed(address)
    with pytest.raises(Refusal) as refused:
        limiter.check("f")  # who never failed
    assert refused.value.status == 429
    now[0] = 61
    limiter.check("f")


def test_only_loopback_may_be_bound_without_sign_in():
    for host in ("127.0.0.1", "localhost", "::1", "127.8.9.1"):
        security.refuse_open_bind(host, authenticated=False)
    for host in ("0.0.0.0", "::", "10.0.0.1", "ward3.example.org", ""):
        with pytest.raises(InvalidInput, match="sign in"):
            security.refuse_open_bind(host, authenticated=False)
        security.refuse_open_bind(host, authenticated=True)


def test_names_behind_a_proxy_are_origins_of_their_own():
    found = security.origins("0.0.0.0", 80, names=["https://Ward3.example.org", "other.example:80"])
    assert {"https://ward3.example.org", "http://other.example", "http://127.0.0.1"} <= found
    assert not any("0.0.0.0" in origin for origin in found)
