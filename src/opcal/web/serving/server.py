"""Runs the service until it is told to stop; requests under way are answered first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opcal.errors import InvalidInput, MissingDependency
from opcal.web.security import origins, refuse_open_bind

PATIENCE = 30
"""Seconds that requests under way may take after SIGTERM."""


def serve(
    artifact: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    tokens: Path | None = None,
    trusted: Path | None = None,
    names: Iterable[str] = (),
    tls: tuple[Path, Path] | None = None,
    reload_seconds: float = 0.5,
) -> None:
    """Blocks. SIGTERM and SIGINT stop it gracefully, SIGHUP reads the artefact again at once."""
    try:
        from opcal.web.serving.app import application
    except ImportError as error:
        raise MissingDependency("serving needs FastAPI and uvicorn: pip install 'opcal[serve]'") from error
    from opcal.web.serving.holder import Holder
    from opcal.web.serving.logs import to_standard_error
    from opcal.web.serving.tokens import Tokens

    known = Tokens.read(tokens)
    refuse_open_bind(host, authenticated=bool(known))
    holder = Holder(artifact, trusted=trusted, seconds=reload_seconds)
    to_standard_error()
    app: Any = application(holder, origins=origins(host, port, names=names, tls=tls is not None), tokens=known)
    signal.signal(signal.SIGHUP, lambda *_: holder.reload())
    certificate: dict[str, Any] = {}
    if tls is not None:
        certificate = {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
    _run(app, host, port, holder.stopping_now, **certificate)


def serve_label_studio(
    session: str, *, host: str = "127.0.0.1", port: int = 9090, names: Iterable[str] = (), secret: str | None = None
) -> None:
    """Blocks, as `serve` does."""
    if secret is not None and (len(secret) < 16 or "/" in secret):
        raise InvalidInput(
            "the secret has fewer than 16 characters or holds a /: make one with secrets.token_urlsafe()"
        )
    refuse_open_bind(host, authenticated=secret is not None)
    try:
        from opcal.web.serving.label_studio import backend
    except ImportError as error:
        raise MissingDependency("serving needs FastAPI and uvicorn: pip install 'opcal[serve]'") from error
    from opcal.session import Session
    from opcal.web.serving.logs import to_standard_error

    with Session.open(session) as found:
        to_standard_error()
        _run(backend(found, origins=origins(host, port, names=names), secret=secret), host, port, lambda: None)


def _run(app: Any, host: str, port: int, stopping: Callable[[], None], **more: Any) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        **more,
    )
    _graceful(stopping)(config).run()


def _graceful(stopping: Callable[[], None]) -> Any:
    """uvicorn's server, that ends with exit code 0 when it was told to stop, and says at once that it is not ready."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            before = {s: signal.signal(s, self.handle_exit) for s in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        def handle_exit(self, sig: int, frame: Any) -> None:
            stopping()
            super().handle_exit(sig, frame)

    return Server
