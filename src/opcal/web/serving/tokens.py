"""Who may ask: bearer tokens, kept and compared as hashes."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from opcal.errors import InvalidInput
from opcal.web.security import Caller, Headers, Limiter, Scope, bearer

ENVIRONMENT = "OPCAL_TOKENS"
SHORTEST = 16


class Tokens:
    """Without any token everybody is let in, which only a server that this machine alone reaches may do."""

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        given = [token.strip() for token in tokens if token.strip() and not token.startswith("#")]
        if any(len(token) < SHORTEST for token in given):
            raise InvalidInput(
                f"a token has fewer than {SHORTEST} characters: make one with "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        self._hashes = [sha256(token.encode()).digest() for token in given]
        self._limiter = Limiter()

    @classmethod
    def read(cls, file: Path | None) -> Tokens:
        """One a line from a file, and those in $OPCAL_TOKENS, separated by commas."""
        found = os.environ.get(ENVIRONMENT, "").split(",")
        if file is not None:
            found += file.read_text(encoding="utf-8").splitlines()
        tokens = cls(found)
        if file is not None and not tokens:
            raise InvalidInput(f"{file} holds no token: write one a line")
        return tokens

    def __len__(self) -> int:
        return len(self._hashes)

    def __call__(self, scope: Scope, headers: Headers) -> Caller | None:
        if not self._hashes:
            return Caller("local", "client", by_cookie=False)
        address = (scope.get("client") or ("unknown", 0))[0]
        self._limiter.check(address)
        token = bearer(headers)
        if token is None:
            return None
        given = sha256(token.encode()).digest()
        if sum(hmac.compare_digest(given, known) for known in self._hashes):  # every one is compared, whichever fits
            return Caller("client", "client", by_cookie=False)
        self._limiter.failed(address)
        return None
