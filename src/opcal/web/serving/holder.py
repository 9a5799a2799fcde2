"""The artefact in force, replaced while requests run: each request takes one and keeps it to its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

from opcal.artifact import Artifact, load
from opcal.errors import ArtifactError

log = logging.getLogger("opcal.serve")
Mark = tuple[int, int, int]


@dataclass(frozen=True)
class Loaded:
    artifact: Artifact
    generation: int


class Holder:
    """Looks at the file every `seconds`; a new one that cannot be read is told and the old one stays."""

    def __init__(self, path: str | Path, *, trusted: str | Path | None = None, seconds: float = 0.5) -> None:
        self.path, self.trusted, self.seconds = Path(path), trusted, seconds
        self.mark = self._mark()
        self.current = Loaded(load(path, trusted=trusted), 1)
        self.failures = 0
        self.stopping = False
        self._stop, self._lock = Event(), Lock()

    @property
    def ready(self) -> bool:
        return not self.stopping

    def start(self) -> None:
        Thread(target=self._follow, name="opcal-reload", daemon=True).start()

    def stopping_now(self) -> None:
        self.stopping = True

    def stop(self) -> None:
        self.stopping_now()
        self._stop.set()

    def reload(self) -> bool:
        """Take the file as it is now; False where it cannot be read, and the old one stays."""
        with self._lock:
            mark = self._mark()
            try:
                found = load(self.path, trusted=self.trusted)
            except ArtifactError as error:
                self.failures += 1
                self.mark = mark
                log.error("reload failed", extra={"opcal": {"error": str(error)}})
                return False
            if found.digest != self.current.artifact.digest:
                self.current = Loaded(found, self.current.generation + 1)
                log.info("reloaded", extra={"opcal": {"artifact": found.digest}})
            self.mark = mark
            return True

    def _follow(self) -> None:
        while not self._stop.wait(self.seconds):
            if self._mark() != self.mark:
                self.reload()

    def _mark(self) -> Mark | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
