"""The use cases of a labelling session. All rules live in this room; the command line and the page are thin over it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import URL

from opcal.core.method import IntArray
from opcal.errors import InvalidInput, PoolError
from opcal.pool import Pool
from opcal.session import beginning, clock, leases, log, options, reading
from opcal.session.answering import Desk
from opcal.session.asking import Asker, resume
from opcal.session.backup import backup
from opcal.session.database import Database
from opcal.session.folder import Place
from opcal.session.opinions import Agreement, agreement
from opcal.session.replay import Replay, digest
from opcal.session.snapshots import Snapshot, snapshot
from opcal.session.standing import Question, Standing
from opcal.session.store import Store
from opcal.session.upkeep import Upkeep, arrived_before, dated_before
from opcal.session.values import Disagreement, Event, Given, Label, Receipt, Said, Settings, Status, Task
from opcal.session.worker import Worker

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator

LOW_WATER = 0.5
"""Share of `ahead` below which the queue is refilled."""
LARGEST_BURST = 256


class Session:
    """A labelling session. One object serves any number of threads; any number of processes may have it open.

    What is promised: an answer that was acknowledged (a `Receipt` was returned) survives the end of the process and
    of the machine; the log is only appended to; the same request sent twice is one answer; no item is leased to two
    annotators at once; the budget is never exceeded; the calibrator is a pure function of pool and log.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self.folder = store, folder
        self._lock, self._fitting = RLock(), RLock()
        self._burst = 0
        self._hungry: dict[str, int] = {}
        self._pool: tuple[str, Pool] | None = None
        self._replay = Replay(store.settings, lambda: self.pool)
        self._asker = Asker(store, self._replay)
        self._desk = Desk(store, self)
        self._upkeep = Upkeep(store, folder, lambda: self.pool)
        self._worker = Worker(self.refill)
        self._shown: tuple[Snapshot, OperationalCalibrator] | None = None
        self.background = True
        """Whether a thread refills the queue; short commands switch it off and refill as they ask."""

    @classmethod
    def start(
        cls,
        pool: Pool | str | Path,
        out: str | Path,
        *,
        budget: int | None = None,
        costs: options.Given = None,
        threshold: float = 0.9,
        db: str | None = None,
        seed: int = 0,
        overlap: float = 0.0,
        blind: str = "audit",
        method: str = "auto",
        design: str = "auto",
        audit: float = 0.25,
        **more: Any,
    ) -> Self:
        """A new session in the folder `out`, with a copy of the pool; refused where a session is already.

        `db` is a postgresql:// URL; without it the database is an SQLite file in the folder. `overlap` in [0, 1] is
        the share of items that get a second opinion; 2 or more is the number of opinions on a quarter of the items.
        `costs`: the loss of acting on a wrong prediction, or what a file of `opcal.costs` says (`opcal.costs.read`).
        `blind`: where annotators do not see the prediction, on the "audit" slice, on "all" items or on "none".
        Further settings are those of `Settings` (opinions, disputes, lease_seconds, ahead).
        Returns when the first questions are in the queue.
        """
        of = pool if isinstance(pool, Pool) else Pool.open(pool)
        more |= {"classes": of.classes, "n_classes": of.n_classes}
        settings = options.settings_of(
            budget=budget, costs=costs, threshold=threshold, seed=seed, overlap=overlap, blind=blind,
            method=method, design=design, audit=audit, **more,
        )  # fmt: skip
        options.refuse_unusable(settings, of)
        beginning.begin(of, Path(out), settings, db)
        session = cls.open(out) if db is None else cls._opened(db, Path(out))
        session.refill()
        return session

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """The session in this folder, or the one in this postgresql:// database."""
        place = Place.of(where)
        return cls._opened(place, None) if isinstance(place, str) else cls._opened(place.url, place.folder)

    @classmethod
    def _opened(cls, url: str | URL, folder: Path | None) -> Self:
        database = Database(url)
        try:
            store = Store(database)
        except BaseException:
            database.close()
            raise
        return cls(store, Path(store.about["folder"]) if folder is None else folder)

    @property
    def settings(self) -> Settings:
        """What the session was started with."""
        return self._store.settings

    @property
    def pool(self) -> Pool:
        """All items, those added later at the end. Opened on first use, large arrays memory-mapped."""
        with self._lock:
            while self._pool is None or self._pool[0] != self._store.pool_folder:
                folder = self._store.pool_folder
                try:
                    self._pool = folder, Pool.open(self.folder / folder)
                except PoolError:  # another process may have written it anew just now
                    if self._store.renewed_folder() == folder:
                        raise
            return self._pool[1]

    def lease(self, annotator: str, k: int = 1, *, wait: bool = True) -> list[Task]:
        """The items that this annotator is to label now, at most k; nobody else gets them meanwhile.

        What the annotator holds already comes first, with its lease renewed, so that a repeated request gives the
        same items. Fewer than k come where the budget or the pool ends, or others hold what is left. Never refits
        where the queue has items ready: that is done in the background. Where the queue ran dry it waits for a refit,
        or, with `wait=False`, gives what there is and lets the background refill: come again in a moment.
        """
        _named(annotator)
        if k < 1:
            raise InvalidInput(f"k is {k}: expected how many items to lease, 1 or more")
        while True:
            held, ready, asked = self._take(annotator, k)
            if len(held) < k and self.background and not wait:
                with self._lock:
                    self._hungry[annotator] = ready + self._lacking(k - len(held))
                self._worker.wake()
                break
            if len(held) >= k or self._asker.refill(annotator, ready + self._lacking(k - len(held))) == asked:
                break
        if self.background and ready - len(held) < LOW_WATER * self._ahead:
            self._worker.wake()
        return [self._task(q, annotator) for q in held]

    def answer(
        self,
        annotator: str,
        item: str,
        label: Label = None,
        *,
        correct: bool | None = None,
        skip: bool = False,
        id: str | None = None,
        note: str | None = None,
    ) -> Receipt:
        """Store one answer: a class name or index, `opcal.OUTSIDE`, `correct=` right or wrong, or `skip=True`.

        When it returns, the answer is on the disk. `id` is made by the client: the same request sent again gives the
        same receipt and no second answer. Another answer of the same annotator to the same item corrects the first.
        A late answer, of a lease that ended, is kept. Never refits.
        """
        return self.record([Given(item, label, correct, skip, id, note, annotator)])[0]

    def record(self, answers: Sequence[Given]) -> list[Receipt]:
        """Store many answers, all or none."""
        return self._desk.record(answers)

    def undo(self, annotator: str, answer: str | None = None, *, id: str | None = None) -> Receipt:
        """Take back this annotator's newest answer in force, or the one with this id; gives the answer's receipt.

        Nothing is deleted: the log gets one more event, and the item is asked again. What the answer had corrected is
        in force again.
        """
        _named(annotator)
        return self._desk.undo(annotator, answer, id or uuid.uuid4().hex)

    def status(self) -> Status:
        """Where the session stands now."""
        return reading.status(self._store)

    def events(self, after: int = 0) -> list[Event]:
        """The log past this number, in order."""
        with self._store.database.read() as connection:
            return log.after(connection, after)

    def answers(self) -> list[dict[str, Any]]:
        """Every answer in force, in order, as rows for a table: who, what, why it was asked, with what probability."""
        return reading.answers(self._store, self.calibrator())

    def said_by(self, annotator: str, most: int = 50) -> list[Said]:
        """This annotator's answers in force, newest first, with their notes."""
        return reading.said_by(self._store, annotator, most)

    def look(self, item: str) -> Task:
        """An item as an annotator may see it, without a lease: to go back to an answer, or to look around.

        Where the session is blind on the audit slice, the prediction shows only on items that the design chose: any
        other may be drawn yet.
        """
        position = int(self.pool.positions([item])[0])
        with self._store.standing() as standing:
            question = standing.questions.get(position)
        return self._task(question or Question(position, item, "audit", 0.0, 0, 0), "")

    def knows(self, item: str) -> bool:
        """Whether an item has this id."""
        return self._store.asked(item) or self.pool.has(item)

    def disagreements(self) -> list[Disagreement]:
        """Items whose opinions do not settle them; the calibrator is told nothing of them meanwhile."""
        return reading.disagreements(self._store)

    def resolve(
        self, arbiter: str, item: str, label: Label, *, id: str | None = None, note: str | None = None
    ) -> Receipt:
        """An arbiter's decision on an item: it stands above all opinions, until it is undone. It costs no budget."""
        return self.record([Given(item, label, id=id, note=note, annotator=arbiter, arbiter=True)])[0]

    def agreement(self) -> Agreement:
        """How far the annotators agree, and how often each of them errs, by the items with several opinions."""
        with self._store.standing() as standing:
            return agreement(standing)

    def add_items(self, more: Pool | str | Path) -> int:
        """Append items of the same model to the running session; gives how many.

        Ids, positions, medoids and answers stay. The new items can be asked for from now on, and the audit draws them
        by a permutation of their own, first until they are drawn at the rate of the others.
        """
        event = self._upkeep.add(more if isinstance(more, Pool) else Pool.open(more))
        return int(event.data["added"])

    def forget(
        self,
        items: Sequence[str] = (),
        *,
        older_than: datetime | None = None,
        column: str | None = None,
        features: bool = False,
        reason: str = "",
        by: str = "",
    ) -> list[str]:
        """Erase the payload, the user's columns and the notes of items; gives the ids of those that had any left.

        `older_than` takes items that came into the session before then, or whose own `column` holds an earlier date.
        With `features` their features and logits go too: their labels still count, but teach nothing any more.
        Labels, counts and the log stay; that and what was forgotten is an event of the log. Files that payloads name,
        the pool that the session was started from, and backups are not the session's: erase them yourself.
        """
        if bool(items) == (older_than is not None):
            raise InvalidInput("pass either items or older_than")

        def chosen(pool: Pool, standing: Standing) -> IntArray:
            if older_than is None:
                return pool.positions(items)
            return dated_before(pool, column, older_than) if column else arrived_before(pool, standing, older_than)

        event = self._upkeep.forget(chosen, features=features, reason=reason, by=by)
        return list(event.data["items"])

    def backup(self, out: str | Path, *, db: str | None = None) -> int:
        """A copy of the session as of one moment, made while people label; gives the number of its last event.

        The copy is a session like any other. With `db` it lies in that empty database: the way from SQLite to
        PostgreSQL and back.
        """
        return backup(self._store, self.folder, Path(out), db)

    def calibrator(self) -> OperationalCalibrator:
        """The calibrator of all settled answers: a pure function of pool and log, so that replay gives the same bytes.

        Fitted before it is handed out and shared until an answer comes; read it from any thread, tell it nothing
        (`session.calibrator().anew()` is yours).
        """
        with self._store.standing() as standing:
            at = snapshot(standing)
        with self._fitting:
            if self._shown is None or not self._same(self._shown, at):
                made = self._replay.fresh(at)
                self._replay.tell(made, at.settled)
                resume(made, at)
                made.confidence(self.pool.take([0]))
                self._shown = at, made
            return self._shown[1]

    def _same(self, shown: tuple[Snapshot, OperationalCalibrator], at: Snapshot) -> bool:
        return (shown[0].settled, shown[0].asked) == (at.settled, at.asked) and shown[1].pool_ is self.pool

    def digest(self) -> str:
        """A text that two sessions share exactly when their calibrators know the same and say the same."""
        return digest(self.calibrator())

    def refill(self) -> None:
        """Put questions in the queue until it is full, or enough for those who wait, or the budget ends."""
        with self._lock:
            hungry, self._hungry = self._hungry, {}
        for annotator, wanted in hungry.items():
            self._asker.refill(annotator, wanted)
        self._asker.refill(None, self._ahead)

    def close(self) -> None:
        """Let the background work end and give back the connections. Nothing has to be saved: all is on the disk."""
        self._worker.stop()
        self._store.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def items(self) -> int:
        return len(self.pool)

    @property
    def _ahead(self) -> int:
        return max(self.settings.ahead, self._burst)

    def _lacking(self, k: int) -> int:
        """What to add when the queue ran dry; the more often it did, the more: two thirds of a refit is overhead."""
        if not self.background:
            return k
        self._burst = min(LARGEST_BURST, 2 * self._ahead)
        return max(k, self._ahead)

    def _take(self, annotator: str, k: int) -> tuple[list[Question], int, int]:
        with self._store.step() as (connection, standing):
            held = leases.take(connection, standing, annotator, k, clock.now(connection))
            return held, len(standing.open(annotator)), standing.asked_seq

    def _task(self, question: Question, annotator: str) -> Task:
        pool, blind = self.pool, self.settings.blind
        hidden = blind == "all" or (blind == "audit" and question.purpose == "audit")
        at = question.position
        return Task(
            question.item,
            at,
            None if pool.payload is None else pool.payload[at],
            None if hidden else int(pool.predicted[at]),
            None if hidden else float(pool.confidence[at]),
            hidden,
            question.filled + 1,
            self.settings.lease_seconds,
        )


def _named(annotator: str) -> None:
    if not isinstance(annotator, str) or not annotator.strip():
        raise InvalidInput(f"annotator is {annotator!r}: expected a name")
