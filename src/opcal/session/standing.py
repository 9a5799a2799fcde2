"""What the log comes to: questions, opinions, budget. A pure fold over the events in their order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from opcal.session.values import Event, Settings
from opcal.session.voting import TIE, outcome


@dataclass
class Question:
    """An item that was asked for."""

    position: int
    item: str
    purpose: str
    """"audit": drawn uniformly at random; "chosen": by the design."""
    inclusion: float
    seq: int
    planned: int
    """Opinions planned when it was asked."""
    predicted: int | None = None
    wanted: int = 0
    filled: int = 0
    """Opinions given that count against the budget."""
    retired: bool = False
    """Somebody could not tell: no further opinion is asked."""
    tallied: tuple[int, int] = (0, 0)
    """What it holds of the budget: opinions given, opinions wanted."""

    @property
    def limit(self) -> int:
        return min(self.wanted, self.filled) if self.retired else self.wanted

    @property
    def used(self) -> int:
        return min(self.filled, self.limit)

    @property
    def missing(self) -> int:
        return max(0, self.limit - self.filled)


@dataclass(frozen=True)
class Voice:
    """What one annotator said of one item, with one event."""

    seq: int
    id: str
    annotator: str
    position: int
    item: str
    label: int | None
    at: str
    drawn: bool | None = None
    inclusion: float | None = None
    predicted: int | None = None
    counted: bool = False
    arbiter: bool = False


@dataclass(frozen=True)
class Settled:
    """An item's label as the calibrator is told."""

    order: int
    position: int
    label: int
    drawn: bool
    weight: float = 1.0


@dataclass
class Standing:
    """Fed with every event once, in order."""

    settings: Settings
    seq: int = 0
    walked: int = 0
    asked_seq: int = 0
    audited: set[int] = field(default_factory=set)
    """Positions that the audit drew: asked for it, or known already when it came to them."""
    folder: str | None = None
    """Where the pool lies now, if it was written anew since the start."""
    parts: list[tuple[int, int]] = field(default_factory=list)
    """Items added later: how many, and how far the audit had walked then."""
    arrivals: list[tuple[int, str]] = field(default_factory=list)
    """How many items came when."""
    forgotten: set[int] = field(default_factory=set)
    """Positions whose payload was erased."""
    erased: set[int] = field(default_factory=set)
    """Positions whose features were erased as well: their labels count, but teach nothing."""
    questions: dict[int, Question] = field(default_factory=dict)
    asked_item: dict[str, int] = field(default_factory=dict)
    used: int = 0
    missing: int = 0
    _said: dict[int, dict[str, list[Voice]]] = field(default_factory=dict)
    _by_seq: dict[int, Voice] = field(default_factory=dict)
    _history: dict[str, list[int]] = field(default_factory=dict)
    _decided: dict[int, list[Voice]] = field(default_factory=dict)
    _open: dict[int, Question] = field(default_factory=dict)

    def take(self, events: Iterable[Event]) -> None:
        steps = {
            "start": self._start,
            "ask": self._ask,
            "answer": self._answer,
            "skip": self._answer,
            "decide": self._decide,
            "undo": self._undo,
            "pool": self._grow,
            "forget": self._forget,
        }
        for event in events:
            if event.seq <= self.seq:
                continue  # another thread was quicker
            steps[event.kind](event)
            self.seq = event.seq

    def open(self, annotator: str) -> list[Question]:
        """Questions that still want an opinion which this annotator has not given, first asked first."""
        mine = (q for q in self._open.values() if annotator not in self.voices(q.position))
        return sorted(mine, key=lambda q: q.seq)

    def open_questions(self) -> list[Question]:
        return list(self._open.values())

    @property
    def places(self) -> int | None:
        """How many more opinions may be asked for; None without a budget."""
        return None if self.settings.budget is None else max(0, self.settings.budget - self.used - self.missing)

    @property
    def exhausted(self) -> bool:
        """Whether every item was asked for or brought along."""
        known = self.questions.keys() | {p for p in self._said if self.labels(p)}
        return len(known) == sum(count for count, _ in self.arrivals)

    def voices(self, position: int) -> dict[str, Voice]:
        """What is in force of what was said of an item, by annotator, "can't tell" included."""
        return {who: said[-1] for who, said in self._said.get(position, {}).items() if said}

    def labels(self, position: int) -> list[Voice]:
        """Opinions in force, in the order given."""
        return sorted((v for v in self.voices(position).values() if v.label is not None), key=lambda v: v.seq)

    def decision(self, position: int) -> Voice | None:
        decided = self._decided.get(position)
        return decided[-1] if decided else None

    def positions(self) -> list[int]:
        """Items of which something was said, lowest position first."""
        return sorted({*self._said, *self._decided})

    def result(self, position: int) -> int | None:
        """The settled label, TIE, or None where nothing is said."""
        if (decided := self.decision(position)) is not None:
            return decided.label
        voices = self.labels(position)
        if not voices:
            return None
        predicted = next((v.predicted for v in voices if v.predicted is not None), None)
        return outcome([v.label for v in voices if v.label is not None], predicted)

    def disputed(self) -> list[int]:
        return [p for p in self.positions() if self.result(p) == TIE]

    def settled(self) -> list[Settled]:
        """What the calibrator is told, in the order of each item's first opinion in force."""
        found = []
        for position in self.positions():
            label = self.result(position)
            if label is None or label == TIE:
                continue
            said = self.labels(position) or [v for v in [self.decision(position)] if v is not None]
            found.append(Settled(said[0].seq, position, label, any(v.drawn for v in said)))
        return sorted(found, key=lambda s: s.order)

    def last_of(self, annotator: str) -> Voice | None:
        """The newest thing that this annotator said and that is in force."""
        history = self._history.get(annotator)
        return self._by_seq[history[-1]] if history else None

    def by_seq(self, seq: int) -> Voice | None:
        """What was said with this event, unless it was taken back."""
        return self._by_seq.get(seq)

    def everything(self) -> list[Voice]:
        """All that is in force, in order."""
        return sorted(
            [v for p in self._said for v in self.voices(p).values()] + [d[-1] for d in self._decided.values() if d],
            key=lambda v: v.seq,
        )

    def _start(self, event: Event) -> None:
        self.arrivals.append((event.data["items"], event.at))

    def _grow(self, event: Event) -> None:
        self.parts.append((event.data["added"], self.walked))
        self.arrivals.append((event.data["added"], event.at))
        self.folder = event.data["folder"]

    def _forget(self, event: Event) -> None:
        self.forgotten.update(event.data["positions"])
        if event.data["features"]:
            self.erased.update(event.data["positions"])
        self.folder = event.data["folder"]

    def _ask(self, event: Event) -> None:
        item, position, _ = event.about
        data = event.data
        question = Question(
            position, item, data["purpose"], data["inclusion"], event.seq, data["wanted"], data["predicted"]
        )
        self.questions[position] = question
        self.audited.update(data.get("passed", ()))
        if data["purpose"] == "audit":
            self.audited.add(position)
        self.asked_item[item] = position
        self.walked, self.asked_seq = max(self.walked, data["walked"]), event.seq
        self._recount(position)

    def _answer(self, event: Event) -> None:
        voice = self._voice(event)
        self._said.setdefault(voice.position, {}).setdefault(voice.annotator, []).append(voice)
        self._remember(voice)

    def _decide(self, event: Event) -> None:
        voice = replace(self._voice(event), arbiter=True)
        self._decided.setdefault(voice.position, []).append(voice)
        self._remember(voice)

    def _remember(self, voice: Voice) -> None:
        self._by_seq[voice.seq] = voice
        self._history.setdefault(voice.annotator, []).append(voice.seq)
        self._recount(voice.position)

    def _undo(self, event: Event) -> None:
        voice = self._by_seq.pop(event.data["undoes"])
        self._history[voice.annotator].remove(voice.seq)
        of = self._decided[voice.position] if voice.arbiter else self._said[voice.position][voice.annotator]
        of.remove(voice)
        self._recount(voice.position)

    def _voice(self, event: Event) -> Voice:
        item, position, annotator = event.about
        data = event.data
        return Voice(
            event.seq,
            event.id,
            annotator,
            position,
            item,
            event.label,
            data.get("given", event.at),
            data.get("drawn"),
            data.get("inclusion"),
            data.get("predicted"),
            bool(data.get("counted")),
        )

    def _recount(self, position: int) -> None:
        """Bring one question up to date, and with it the budget."""
        question = self.questions.get(position)
        if question is None:
            return
        self.used, self.missing = self.used - question.tallied[0], self.missing - question.tallied[1]
        voices = self.voices(position)
        question.filled = sum(v.label is not None and v.counted for v in voices.values())
        question.retired = any(v.label is None for v in voices.values())
        question.wanted = max(question.planned, question.filled + self._one_more(question))
        question.tallied = question.used, question.missing
        self.used, self.missing = self.used + question.tallied[0], self.missing + question.tallied[1]
        if question.missing:
            self._open[position] = question
        else:
            self._open.pop(position, None)

    def _one_more(self, question: Question) -> bool:
        """A tie asks for one more opinion than there are, where a vote decides and the budget has room."""
        if self.settings.disputes != "vote" or question.retired or question.filled < question.planned:
            return False
        if self.result(question.position) != TIE:
            return False
        return self.settings.budget is None or self.used + self.missing + question.filled < self.settings.budget


def opinions_wanted(settings: Settings, item: str) -> int:
    """Which items get more than one opinion: a share of them by lot, fixed by the seed and the item's id."""
    if settings.overlap <= 0:
        return 1
    lot = hashlib.sha256(f"{settings.seed}/{item}".encode()).digest()
    return settings.opinions if int.from_bytes(lot[:8]) / 2**64 < settings.overlap else 1
