"""Refits in the background: a thread that refills the queue when woken."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread


class Worker:
    """Runs `work` soon after each `wake`; failures wait in `failure` and the next wake tries again."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work, self._bell, self._over = work, Event(), Event()
        self._thread: Thread | None = None
        self.failure: Exception | None = None

    def wake(self) -> None:
        self._bell.set()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="opcal refill", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Let the work under way end; nothing of it is lost."""
        self._over.set()
        self._bell.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._bell.wait()
            self._bell.clear()
            if self._over.is_set():
                return
            try:
                self._work()
                self.failure = None
            except Exception as error:  # whoever asks while the queue is empty meets the same one
                self.failure = error
