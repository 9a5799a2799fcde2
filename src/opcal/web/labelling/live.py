"""The side panel, worked out away from the requests, and told to every page that listens."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from opcal.errors import OpcalError
from opcal.session import Session
from opcal.web.labelling.pace import Pace
from opcal.web.labelling.worth import Worth
from opcal.web.security import Caller

LOGGER = logging.getLogger("opcal.label")
LOOK = 2.0
"""Seconds between two looks at the log for what other processes did."""
REST = 3.0
"""After measuring it rests so many times as long as it took: at most a quarter of one core."""
ALIVE = 15.0
PROGRESS = ("answered", "budget", "labelled", "open", "done", "annotators", "seconds_left", "disputed", "skipped")
"""What blind annotators see."""


class Live:
    """One thread counts and one measures; any number of pages wait for what they find."""

    def __init__(self, session: Session) -> None:
        self.session, self.worth = session, Worth()
        self._pace, self._bell, self._over = Pace(), Event(), Event()
        self._lock = Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._stale = Event()
        self._threads = [Thread(target=work, name="opcal panel", daemon=True) for work in (self._watch, self._figure)]
        self._troubles: dict[str, str] = {}
        self.now: dict[str, Any] = {}
        self.version = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        self._bell.set()
        self._stale.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def wake(self) -> None:
        """Something was answered."""
        self._bell.set()

    def panel(self, caller: Caller) -> dict[str, Any]:
        """For one person: only the progress where sessions are blind, for the figures would tell what to expect."""
        now = self.now
        blind = self.session.settings.blind == "all"
        shown = {k: v for k, v in now.items() if k in PROGRESS} if blind else dict(now)
        people = shown.pop("annotators", {})
        return {**shown, "mine": people.get(caller.name, 0), "people": len(people), "hidden": blind}

    async def follow(self, caller: Caller) -> AsyncIterator[str]:
        """Server-sent events: the panel now, and again whenever it changes."""
        changed, seen = asyncio.Event(), -1
        with self._lock:
            self._waiting[changed] = asyncio.get_running_loop()
        try:
            while not self._over.is_set():
                if self.version != seen and self.now:
                    seen = self.version
                    yield f"data: {json.dumps(self.panel(caller))}\n\n"
                changed.clear()
                try:
                    await asyncio.wait_for(changed.wait(), ALIVE)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            with self._lock:
                self._waiting.pop(changed, None)

    def update(self) -> None:
        """Tell everybody now: first how far it is, then what it is worth."""
        self._note()
        self._measure()

    def _note(self) -> None:
        """Cheap, at once after every answer: the figures stay those of before."""
        self._pace.take(self.session.events(self._pace.seen))
        self._tell(self._progress())

    def _measure(self) -> None:
        status = self.session.status()
        left = None if status.budget is None else status.budget - status.answered
        self._tell(self.worth.measure(self.session.calibrator(), left))

    def _progress(self) -> dict[str, Any]:
        status = asdict(self.session.status())
        known = {name: status[name] for name in PROGRESS if name in status} | {"items": status["items"]}
        left = None if status["budget"] is None else max(0, status["budget"] - status["answered"])
        return {**known, "seconds_left": self._pace.seconds_left(left)}

    def _tell(self, found: dict[str, Any]) -> None:
        with self._lock:
            self.now, self.version = {**self.now, **found}, self.version + 1
            for changed, loop in self._waiting.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(changed.set)

    def _watch(self) -> None:
        """How far it is: at once after every answer, and every few seconds what other processes did."""
        while not self._over.is_set():
            self._bell.clear()
            self._tried(self._news)
            self._bell.wait(LOOK)

    def _news(self) -> None:
        if not self.now or self.session.events(self._pace.seen):
            self._note()
            self._stale.set()

    def _figure(self) -> None:
        """What it is worth: as often as measuring leaves the machine to others."""
        while not self._over.is_set():
            self._stale.wait()
            self._stale.clear()
            started = monotonic()
            if not self._over.is_set() and not self._tried(self._measure):
                self._stale.set()
                self._over.wait(LOOK)
            self._over.wait(REST * (monotonic() - started))

    def _tried(self, work: Callable[[], None]) -> bool:
        """Whether it could be done. Whatever goes wrong: labelling goes on, and the next look tries again."""
        name, trouble = work.__name__, ""
        try:
            work()
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
            # Once for each trouble; that a database is busy or full is told to those who label.
            if trouble != self._troubles.get(name) and not isinstance(error, OpcalError):
                LOGGER.error("the panel could not be worked out; labelling goes on", exc_info=error)
        self._troubles[name] = trouble
        return not trouble
