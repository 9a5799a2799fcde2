"""Serve a session: a socket that is bound before a link is shown, then uvicorn."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from opcal.errors import InvalidInput, MissingDependency
from opcal.session import Session
from opcal.web import security
from opcal.web.labelling.access import Access

PORT = 8765


@dataclass(frozen=True)
class Address:
    """Where a server is to be found."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: where it was last, else 8765, else any free one."""
    names: tuple[str, ...] = ()
    """Under which people reach it, where that is not the address itself."""
    certificate: Path | None = None
    key: Path | None = None

    @property
    def tls(self) -> bool:
        return self.certificate is not None


class Server:
    """A session's page, bound to an address. `link` gives each person's way in; `run` serves until it is stopped."""

    def __init__(self, session: Session, address: Address, media: Path | None = None) -> None:
        needed()
        from opcal.web.labelling.app import guarded
        from opcal.web.labelling.desk import Desk

        if address.host in ("0.0.0.0", "::", "") and not address.names:
            raise InvalidInput(
                f"host is {address.host!r}, all addresses of this machine: say under which name people reach it, "
                "e.g. --name ward3.example.org:8765"
            )
        security.refuse_open_bind(address.host, authenticated=True)
        if media is not None and not media.is_dir():
            raise InvalidInput(f"media is {str(media)!r}: expected a folder")
        self.session, self.address = session, address
        self.access = Access(session.folder, session.settings.name)
        self.socket = _bound(address, self.access.port)
        self.port: int = self.socket.getsockname()[1]
        self.access.served_at(self.port)
        self.origins = security.origins(address.host, self.port, names=address.names, tls=address.tls)
        self.desk = Desk(session, self.access, media)
        self.app = guarded(self.desk, self.origins)

    @property
    def base(self) -> str:
        """The address for people."""
        scheme = "https" if self.address.tls else "http"
        if self.address.names:
            name = self.address.names[0].rstrip("/")
            return name if "://" in name else f"{scheme}://{name}"
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"{scheme}://{host}:{self.port}"

    def link(self, name: str) -> str:
        person = self.access.person(name)
        if person is None:
            raise InvalidInput(f"nobody is called {name!r} here")
        return f"{self.base}/in/{self.access.token(person)}"

    def run(self) -> None:
        import sys

        import uvicorn

        # Fits run in threads beside the requests: a request should not wait 5 ms for each of its turns.
        sys.setswitchinterval(0.0005)
        config = uvicorn.Config(
            self.app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=75,
            ssl_certfile=self.address.certificate,
            ssl_keyfile=self.address.key,
        )
        uvicorn.Server(config).run(sockets=[self.socket])


def needed() -> None:
    try:
        import fastapi
        import jinja2
        import PIL
        import uvicorn
    except ImportError as error:
        raise MissingDependency(f"the labelling page needs {error.name}: pip install 'opcal[web]'") from error
    del fastapi, jinja2, PIL, uvicorn


def _bound(address: Address, last: int | None) -> socket.socket:
    if address.port is not None:
        return _bind(address.host, address.port)
    for port in (last, PORT):
        if port is not None:
            try:
                return _bind(address.host, port)
            except InvalidInput:
                continue
    return _bind(address.host, 0)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host.strip("[]"), port))
        made.listen(2048)  # from now on a browser waits until the first answer, and is not refused
    except OSError as error:
        made.close()
        raise InvalidInput(f"{host}:{port} cannot be bound ({error.strerror}): choose another with --port") from error
    return made
