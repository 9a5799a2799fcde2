"""What requests may hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, StringConstraints


def _storable(text: str) -> str:
    """Text that every database keeps: no zero byte, no half of a surrogate pair."""
    if "\0" in text:
        raise ValueError("holds a zero byte")
    text.encode()
    return text


Id = Annotated[StrictStr, StringConstraints(min_length=1, max_length=200), AfterValidator(_storable)]
Item = Annotated[StrictStr, StringConstraints(min_length=1, max_length=8192), AfterValidator(_storable)]
Words = Annotated[StrictStr, StringConstraints(max_length=10_000), AfterValidator(_storable)]
Name = Annotated[StrictStr, StringConstraints(min_length=1, max_length=100), AfterValidator(_storable)]
Class = Annotated[StrictInt, Field(ge=-1, le=2**31 - 1)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LeaseBody(Body):
    k: Annotated[StrictInt, Field(ge=1, le=64)] = 4


class AnswerBody(Body):
    """One of label (a class by number or name, -1 for outside), correct and skip."""

    id: Id
    item: Item
    label: Class | Item | None = None
    correct: StrictBool | None = None
    skip: StrictBool = False
    note: Words | None = None


class UndoBody(Body):
    id: Id
    answer: Id | None = None


class DecideBody(Body):
    id: Id
    item: Item
    label: Class | Item
    note: Words | None = None


class PersonBody(Body):
    name: Name
    role: StrictStr = "annotator"


class RenewBody(Body):
    name: Name
