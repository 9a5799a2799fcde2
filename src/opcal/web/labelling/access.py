"""Who may label: one link a person. Links and cookies are made from one secret file, so that a restart keeps both."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock
from time import time
from typing import Any

from opcal.errors import InvalidInput, SessionError
from opcal.web.security import Caller, Headers, Limiter, Refusal, Scope, bearer, cookie

FILE = "access.json"
ROLES = ("owner", "arbiter", "annotator")
COOKIE_SECONDS = 30 * 24 * 3600
LONGEST_NAME = 100


@dataclass(frozen=True)
class Person:
    name: str
    role: str
    """owner: sees and manages all; arbiter: also decides disagreements; annotator: labels."""
    round: int = 1
    """Goes up when the link is renewed; older links and cookies are void."""


class Access:
    """The people of one session and their tokens; the file is readable by its owner alone."""

    def __init__(self, folder: Path, session: str) -> None:
        self._file, self._lock = folder / FILE, RLock()
        self.cookie_name = "opcal_" + hashlib.sha256(session.encode()).hexdigest()[:12]
        self.limiter = Limiter()
        stored = self._read()
        self._secret = bytes.fromhex(stored.get("secret") or secrets.token_hex(32))
        self.port: int | None = stored.get("port")
        """Where it was served last, so that links stay the same."""
        self._people = {p["name"]: Person(**p) for p in stored.get("people", [])}

    @property
    def people(self) -> list[Person]:
        return list(self._people.values())

    def person(self, name: str) -> Person | None:
        return self._people.get(name)

    def add(self, name: str, role: str = "annotator") -> Person:
        """Known people keep their link; another role replaces the old one."""
        name = checked(name)
        if role not in ROLES:
            raise InvalidInput(f"role is {role!r}: expected {', '.join(ROLES)}")
        with self._lock:
            before = self._people.get(name)
            self._people[name] = Person(name, role, before.round if before else 1)
            self._write()
            return self._people[name]

    def renew(self, name: str) -> Person:
        """A new link; the old one, and whoever is signed in with it, is out."""
        with self._lock:
            old = self._people.get(name)
            if old is None:
                raise InvalidInput(f"nobody is called {name!r} here")
            self._people[name] = Person(name, old.role, old.round + 1)
            self._write()
            return self._people[name]

    def served_at(self, port: int) -> None:
        with self._lock:
            if port != self.port:
                self.port = port
                self._write()

    def token(self, person: Person) -> str:
        """256 bits, different for each person and each round."""
        return _text(self._mac("link", person))

    def by_token(self, token: str, address: str) -> Person | None:
        """Whose link this is. Wrong tokens are counted, and after ten a minute their address is refused."""
        self.limiter.check(address)
        found = None
        for person in self.people:
            if hmac.compare_digest(self.token(person).encode(), token.encode("utf-8", "replace")):
                found = person
        if found is None:
            self.limiter.failed(address)
        return found

    def cookie(self, person: Person, now: float | None = None) -> str:
        until = int((now or time()) + COOKIE_SECONDS)
        return f"{_text(person.name.encode())}.{until}.{_text(self._mac(f'cookie {until}', person))}"

    def by_cookie(self, value: str, now: float | None = None) -> Person | None:
        name, _, rest = value.partition(".")
        until, _, mac = rest.partition(".")
        try:
            person = self._people.get(_bytes(name).decode())
        except ValueError:
            return None
        if person is None or not (until.isascii() and until.isdigit() and len(until) < 15):
            return None
        good = hmac.compare_digest(_text(self._mac(f"cookie {int(until)}", person)).encode(), mac.encode())
        return person if good and int(until) > (now or time()) else None

    def caller(self, scope: Scope, headers: Headers) -> Caller | None:
        """By cookie, or by the token of a link as `Authorization: Bearer`; for the guard."""
        value = cookie(headers, self.cookie_name)
        person = None if value is None else self.by_cookie(value)
        if person is not None:
            return Caller(person.name, person.role)
        token = bearer(headers)
        if token is None:
            return None
        person = self.by_token(token, address_of(scope))
        return None if person is None else Caller(person.name, person.role, by_cookie=False)

    def _mac(self, purpose: str, person: Person) -> bytes:
        text = json.dumps([purpose, person.name, person.role, person.round])
        return hmac.digest(self._secret, text.encode(), "sha256")

    def _read(self) -> dict[str, Any]:
        try:
            stored: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise SessionError(f"{self._file} is broken: delete it, and new links are made") from error
        return stored

    def _write(self) -> None:
        content = {"secret": self._secret.hex(), "port": self.port, "people": [asdict(p) for p in self.people]}
        made = self._file.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            json.dump(content, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        made.replace(self._file)


def checked(name: str) -> str:
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(f"the name of an annotator is {name[:LONGEST_NAME]!r}: expected 1 to {LONGEST_NAME} letters")
    return name


def address_of(scope: Scope) -> str:
    client: Iterable[Any] | None = scope.get("client")
    return str(next(iter(client))) if client else ""


def same_person(headers: Headers, caller: Caller, safe: bool) -> None:
    """A page says for whom it speaks: another person may have signed in from the same browser meanwhile."""
    given = headers.get("x-opcal-annotator", [])
    if not given and (safe or not caller.by_cookie):
        return
    from urllib.parse import unquote

    if len(given) != 1 or unquote(given[0]) != caller.name:
        raise Refusal(403, "Somebody else has signed in from this browser: open your own link again.")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
