"""A model and its data as they were asked for: built here, or anew in each worker of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opcal.errors import ModelError
from opcal.extract.models.choose import as_model, function_of
from opcal.extract.models.options import RunOptions
from opcal.extract.rows import Source
from opcal.extract.sources.choose import as_source
from opcal.extract.sources.roles import Asked


@dataclass(frozen=True)
class Job:
    model: Any
    data: Any
    options: RunOptions
    asked: Asked
    ids: Sequence[Any] | None = None
    payload: Sequence[str] | None = None
    preprocess: str | None = None
    """Where the transform is, as file.py:name."""

    def built(self) -> tuple[Any, Source]:
        options = self.options
        if self.preprocess is not None:
            options = replace(options, transform=_function(self.preprocess))
        model = as_model(self.model, options)
        return model, as_source(self.data, self.asked, model.wants, ids=self.ids, payload=self.payload)


def absolute(job: Job) -> Job:
    """Paths that mean the same in another folder, so that a resumed run may be started from elsewhere."""
    options = job.options
    if options.processor is not None:
        options = replace(options, processor=options.processor.resolve())
    places = {name: _absolute(getattr(job, name)) for name in ("model", "data", "preprocess")}
    return replace(job, options=options, **places)


def _function(text: str) -> Any:
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise ModelError(f"the preprocessing function is {text!r}: write it as file.py:function")
    return function_of(Path(file), name)


def _absolute(thing: Any) -> Any:
    if isinstance(thing, Path):
        return thing.resolve()
    if not isinstance(thing, str):
        return thing
    file, colon, name = thing.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{Path(file).resolve()}:{name}"
    return str(Path(thing).resolve())
