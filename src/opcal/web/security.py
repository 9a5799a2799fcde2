"""The door of every opcal server: who may knock, from where, with how much. One ASGI middleware, shut by default.

Order of the checks: Host (DNS rebinding), size of the body, cross-site writes, then who it is. What an application
does not list as open is closed, so that a new route cannot be forgotten. No answer tells a path or a traceback.
"""

from __future__ import annotations

import ipaddress
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

from opcal.errors import InvalidInput

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = dict[str, list[str]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 1_000_000
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "font-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Sent with every answer; what the application set itself goes before."""
TELLING = {
    401: "You are not signed in: open your own link again.",
    403: "Refused: this request did not come from this server's own page.",
    404: "There is nothing here.",
    405: "This address does not take such a request.",
    429: "Too many attempts: wait a minute.",
    500: "Something went wrong here; nothing was lost. Try again.",
}


class Refusal(Exception):
    """Answered instead of the application."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(status, message)
        self.status, self.message = status, message or TELLING.get(status, "Refused.")

    @classmethod
    def too_large(cls, most: int) -> Refusal:
        """The body has more than `most` bytes, or does not say truly how many."""
        return cls(413, f"Too large: a request may hold at most {megabytes(most)}.")


def megabytes(most: int) -> str:
    return f"{most / 1e6:g} MB"


@dataclass(frozen=True)
class Caller:
    """Who sends a request."""

    name: str
    role: str
    """owner, arbiter or annotator on the labelling page; client of a service."""
    by_cookie: bool = True


@dataclass(frozen=True)
class Rules:
    """What a server lets in."""

    origins: frozenset[str]
    """Such as http://127.0.0.1:8080: where its own pages are, and with that the Hosts that it answers to."""
    open_paths: tuple[str, ...] = ("/static/",)
    """Beginnings of the paths that need no sign-in; those that do not end with / are meant exactly."""
    max_body: int = MAX_BODY

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(origin.split("://", 1)[1] for origin in self.origins)

    def is_open(self, path: str) -> bool:
        return any(path.startswith(p) if p.endswith("/") else path == p for p in self.open_paths)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that is bound to this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_open_bind(host: str, *, authenticated: bool) -> None:
    """A server that asks nobody who they are may be reached from this machine only."""
    if not authenticated and not is_loopback(host):
        raise InvalidInput(
            f"host is {host!r}, which others reach, and nobody is asked to sign in: bind 127.0.0.1, or require tokens"
        )


def origins(host: str, port: int, *, names: Iterable[str] = (), tls: bool = False) -> frozenset[str]:
    """Origins of a server bound to an address: itself, loopback under all its names, and the names given.

    `names` are those under which people reach it: "ward3.example.org", with ":8443" where the port shows, or a whole
    origin ("https://ward3.example.org") where a proxy in front ends TLS.
    """
    scheme = "https" if tls else "http"
    found = {f"{scheme}://{name}:{port}" for name in LOOPBACK}
    if host not in ("0.0.0.0", "::", ""):
        found.add(f"{scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}")
    for name in names:
        found.add((name if "://" in name else f"{scheme}://{name}").rstrip("/").lower())
    default = {"http": ":80", "https": ":443"}
    return frozenset(o.removesuffix(default[o.split("://")[0]]) for o in found) | frozenset(found)


def headers_of(scope: Scope) -> Headers:
    """Lower-case names, values in order; bytes that are no text cannot fail."""
    found: Headers = {}
    for name, value in scope.get("headers", ()):
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return found


def check_host(headers: Headers, rules: Rules) -> None:
    """Only the server's own names: a foreign name that resolves here (DNS rebinding) gets nothing."""
    given = headers.get("host", [])
    if len(given) != 1 or given[0].lower() not in rules.hosts:
        raise Refusal(403, "Refused: this server does not answer to that name.")


def check_origin(method: str, headers: Headers, rules: Rules) -> None:
    """A request that changes something comes from the server's own page, or from a program that is no browser.

    Browsers say where it comes from in `Origin` and `Sec-Fetch-Site`; another port of the same machine is "same-site"
    and is refused like any stranger. A program sends neither; what it needs instead is `check_program`.
    """
    if method in SAFE:
        return
    origin, site = headers.get("origin", []), headers.get("sec-fetch-site", [])
    if len(origin) > 1 or len(site) > 1:
        raise Refusal(403)
    if site and site[0] != "same-origin":
        raise Refusal(403)
    if origin and origin[0].lower() not in rules.origins:
        raise Refusal(403)
    if origin and origin[0].lower().split("://", 1)[1] != headers["host"][0].lower():
        raise Refusal(403)


def check_program(method: str, headers: Headers, caller: Caller) -> None:
    """A cookie alone, without a word on where the request comes from, is not enough to change something."""
    silent = "origin" not in headers and "sec-fetch-site" not in headers
    if method not in SAFE and caller.by_cookie and silent:
        raise Refusal(403)


def bearer(headers: Headers) -> str | None:
    """The token of `Authorization: Bearer …`; None without one."""
    given = headers.get("authorization", [])
    scheme, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def cookie(headers: Headers, name: str) -> str | None:
    """One cookie's value; None where it is missing or given twice with different values."""
    found = set()
    for line in headers.get("cookie", []):
        for part in line.split(";"):
            key, sign, value = part.strip().partition("=")
            if sign and key == name:
                found.add(value)
    return found.pop() if len(found) == 1 else None


@dataclass
class Limiter:
    """At most `most` failures in `seconds` from one address and `overall` from all; a success does not count."""

    most: int = 10
    overall: int = 100
    seconds: float = 60.0
    addresses: int = 10_000
    clock: Callable[[], float] = monotonic
    _failed: dict[str, deque[float]] = field(default_factory=dict)
    _all: deque[float] = field(default_factory=deque)
    _lock: Lock = field(default_factory=Lock)

    def check(self, address: str) -> None:
        with self._lock:
            alone, together = self._recent(self._failed.get(address, deque())), self._recent(self._all)
            if len(alone) >= self.most or len(together) >= self.overall:
                raise Refusal(429)

    def failed(self, address: str) -> None:
        with self._lock:
            if len(self._failed) >= self.addresses:
                self._failed = {a: d for a, d in self._failed.items() if d and d[-1] > self.clock() - self.seconds}
            for recent in (self._failed.setdefault(address, deque()), self._all):
                self._recent(recent).append(self.clock())

    def _recent(self, times: deque[float]) -> deque[float]:
        while times and times[0] <= self.clock() - self.seconds:
            times.popleft()
        return times


Who = Callable[[Scope, Headers], Caller | None]
"""Finds out who sends a request; None for nobody known. May raise `Refusal`."""


class Guard:
    """Stands before an application. `scope["opcal.caller"]` tells it who sends the request."""

    def __init__(self, app: App, rules: Rules, who: Who) -> None:
        self.app, self.rules, self.who = app, rules, who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":  # no websockets here
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": with_headers(message.get("headers", ()))}
            await send(message)

        try:
            self._admit(scope)
            if scope["method"] not in SAFE:
                receive = await whole(receive, self.rules.max_body)
            await self.app(scope, receive, sending)
        except Refusal as refusal:
            if not started:
                await refuse(scope, sending, refusal)
        except Exception:
            if not started:
                await refuse(scope, sending, Refusal(500))
            raise

    def _admit(self, scope: Scope) -> None:
        headers, method = headers_of(scope), scope["method"]
        check_host(headers, self.rules)
        declared = headers.get("content-length", ["0"])[0]
        if not _at_most(declared, self.rules.max_body):
            raise Refusal.too_large(self.rules.max_body)
        check_origin(method, headers, self.rules)
        caller = self.who(scope, headers)
        if caller is None and not self.rules.is_open(scope["path"]):
            raise Refusal(401)
        if caller is not None:
            check_program(method, headers, caller)
        scope["opcal.caller"] = caller


def _at_most(declared: str, most: int) -> bool:
    return declared.isascii() and declared.isdigit() and len(declared) < 16 and int(declared) <= most


async def whole(receive: Receive, most: int) -> Receive:
    """Takes the body in before the application runs, so that a length that was not declared is limited as well."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The connection ended within the request.")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > most:
            raise Refusal.too_large(most)
    waiting: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


def with_headers(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    own = [(name, value) for name, value in given if name.lower() != b"server"]
    names = {name.lower() for name, _ in own}
    return own + [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in names]


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """JSON for programs, a short page for people; the same words."""
    words = refusal.message
    accept = ",".join(headers_of(scope).get("accept", []))
    if "text/html" in accept:
        kind, body = "text/html; charset=utf-8", error_page(refusal.status, words)
    else:
        kind, body = "application/json", json.dumps({"error": words})
    extra = [(b"retry-after", b"60")] if refusal.status == 429 else []
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": [(b"content-type", kind.encode()), *extra],
        }
    )
    await send({"type": "http.response.body", "body": body.encode()})


def error_page(status: int, words: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>opcal: {status}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/style.css">'
        f'<main class="plain"><h1>opcal</h1><p>{words}</p></main></html>'
    )
