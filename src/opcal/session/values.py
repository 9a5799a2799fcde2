"""What goes in and out of a session: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Label = int | str | None
Blind = Literal["audit", "all", "none"]


@dataclass(frozen=True)
class Settings:
    """What a session was started with; never changed."""

    name: str
    budget: int | None = None
    costs: float | dict[str, Any] | None = None
    """The loss u of acting on a wrong prediction, or what a file of `opcal.costs` says, word for word."""
    threshold: float = 0.9
    method: str = "auto"
    design: str = "auto"
    audit: float = 0.25
    seed: int = 0
    overlap: float = 0.0
    """Share of the items that get more than one opinion."""
    opinions: int = 2
    """How many opinions those get."""
    disputes: str = "vote"
    """What settles a tie: "vote" asks one more person, "arbiter" waits for a decision."""
    blind: str = "audit"
    """Where the model's prediction is hidden: on the audit slice, on "all" items or on "none"."""
    lease_seconds: float = 900.0
    ahead: int = 8
    """How many questions are kept ready."""
    classes: tuple[str, ...] | None = None
    n_classes: int | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"classes": None if self.classes is None else list(self.classes)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Settings:
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in stored.items() if name in known}
        classes = given.get("classes")
        return cls(**given | {"classes": None if classes is None else tuple(classes)})


@dataclass(frozen=True)
class Event:
    """One line of the log. It is never changed and never deleted; `seq` alone gives the order."""

    seq: int
    id: str
    kind: str
    """start, ask, answer, skip, undo, decide, pool, forget."""
    at: str
    """Wall clock, UTC; for people, never for the order."""
    annotator: str | None = None
    item: str | None = None
    position: int | None = None
    label: int | None = None
    """A class, OUTSIDE (-1) or WRONG (-2)."""
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> tuple[str, int, str]:
        """Item, position and annotator of an event that has them."""
        return self.item or "", -1 if self.position is None else self.position, self.annotator or ""


@dataclass(frozen=True)
class Task:
    """One item to label, leased to one annotator."""

    item: str
    position: int
    payload: str | None
    predicted: int | None
    """The model's prediction; None where it is hidden."""
    confidence: float | None
    blind: bool
    opinion: int
    """1 for the first opinion on the item, 2 for the second, ..."""
    seconds: float
    """How long the lease lasts from now."""


@dataclass(frozen=True)
class Given:
    """An answer on its way in. `id` is made by the client, so that a repeated request is one answer."""

    item: str
    label: Label = None
    """A class name or index, `opcal.OUTSIDE`; None with `correct` or `skip`."""
    correct: bool | None = None
    skip: bool = False
    id: str | None = None
    note: str | None = None
    annotator: str | None = None
    drawn: bool | None = None
    """Imported answers: was the item drawn uniformly at random from the whole pool?"""
    inclusion: float | None = None
    """Imported answers: with what probability it was drawn."""
    at: str | None = None
    """Imported answers: when it was given."""
    arbiter: bool = False
    """The answer settles a disagreement."""


@dataclass(frozen=True)
class Receipt:
    """What was stored. The same request gives the same receipt, however often it is sent."""

    seq: int
    id: str
    item: str
    position: int
    annotator: str
    label: int | None
    """None for "can't tell"."""
    at: str
    counted: bool
    """Whether it answers a question of the budget; labels that nobody asked for, and late ones, are kept as well."""


@dataclass(frozen=True)
class Said:
    """An annotator's answer in force."""

    id: str
    item: str
    label: int | None
    """A class, OUTSIDE or WRONG; None for "can't tell"."""
    at: str
    note: str | None = None


@dataclass(frozen=True)
class Disagreement:
    """An item on which the opinions come to no result."""

    item: str
    position: int
    opinions: tuple[tuple[str, int], ...]
    """Annotator and label (a class, OUTSIDE or WRONG), in the order given."""


@dataclass(frozen=True)
class Status:
    """Where a session stands."""

    name: str
    items: int
    budget: int | None
    asked: int
    """Questions put in the queue so far."""
    answered: int
    """Answers that count against the budget."""
    labelled: int
    """Items with a settled label."""
    audited: int
    """Of these, drawn uniformly at random."""
    open: int
    """Opinions still wanted on questions of the queue."""
    leased: int
    skipped: int
    disputed: int
    extra: int
    """Answers beyond the questions: brought along, or late."""
    forgotten: int
    """Items whose payload was erased."""
    annotators: dict[str, int]
    """Answers in force by annotator."""
    events: int
    done: bool
    """Nothing more will be asked."""
