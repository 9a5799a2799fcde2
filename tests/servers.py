"""A real PostgreSQL server for tests: a folder of its own, no root, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

QUIET = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def binaries() -> Path | None:
    """Where initdb and pg_ctl are: on the PATH, or in the newest PostgreSQL of a Debian machine."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    libraries = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return libraries[-1].parent if libraries else None


class Postgres:
    """A running server."""

    def __init__(self, bin: Path) -> None:
        self.bin, self.count = bin, 0
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self.user = "nobody" if os.getuid() == 0 else None
        self.name = self.user or pwd.getpwuid(os.getuid()).pw_name
        if self.user:
            shutil.chown(self.folder, self.user)
        self.data = self.folder / "data"
        options = ("-A", "trust", "-U", "opcal", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8")
        self._run("initdb", *options, "-D", self.data)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -h 127.0.0.1 -p {self.port} -c max_connections=200"
        self._run("pg_ctl", "-w", "-D", self.data, "-o", options, "-l", self.folder / "log", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-w", "-D", self.data, "-m", mode, "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, options: str = "") -> str:
        """The URL of a new, empty database."""
        self.count += 1
        name = f"t{self.count}_{time.monotonic_ns()}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def copy(self, name: str | None) -> str:
        """The URL of a new database with the content of another one, to which nobody may be connected."""
        return self.database(f"TEMPLATE {name}")

    def url(self, name: str) -> str:
        return f"postgresql://opcal@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: object) -> None:
        more = {"user": self.user, "extra_groups": []} if self.user else {}
        command = [str(self.bin / program), *map(str, arguments)]
        subprocess.run(command, check=True, cwd=self.folder, **QUIET, **more)
