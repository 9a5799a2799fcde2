"""Label Studio's JSON: tasks that it imports, and the two shapes (JSON, JSON-MIN) that it exports.

The labelling interface is a <Choices name="label" toName="item"> over the classes; `data.item` names the item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opcal.errors import InvalidInput
from opcal.session.values import Settings, Task
from opcal.session.wording import said

ITEM_KEYS = ("item", "item_id", "id")


def tasks(leased: Iterable[Task], settings: Settings) -> list[dict[str, Any]]:
    """Leased items as tasks to import, with the model's prediction where it is not hidden."""
    found = []
    for task in leased:
        made: dict[str, Any] = {"data": {"item": task.item, "payload": task.payload or task.item}}
        if task.predicted is not None:
            named = settings.classes[task.predicted] if settings.classes else str(task.predicted)
            made["predictions"] = [{"model_version": "model", "score": task.confidence, "result": [_choice(named)]}]
        found.append(made)
    return found


def annotated(rows: list[dict[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """Answers as tasks with annotations, one task an item."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        task = found.setdefault(row["item"], {"data": {"item": row["item"]}, "annotations": []})
        skipped = row["answer"] == said(None, settings)
        task["annotations"].append(
            {
                "unique_id": row["id"],
                "completed_by": {"email": row["annotator"]},
                "created_at": row["time"],
                "was_cancelled": skipped,
                "result": [] if skipped else [_choice(row["answer"])],
                "meta": {name: row[name] for name in ("purpose", "inclusion", "uniform")},
            }
        )
    return list(found.values())


def rows(content: Any) -> list[dict[str, Any]]:
    """Annotations of an export, as rows of a table; a task without any gives none."""
    if not isinstance(content, list) or not all(isinstance(task, dict) for task in content):
        raise InvalidInput("no export of Label Studio: expected a list of tasks; export as JSON or JSON-MIN")
    found = []
    for number, task in enumerate(content, 1):
        whole = task.get("annotations", [task])
        for annotation in whole:
            read = _annotation if "annotations" in task else _flat
            found.append(read(task, annotation) | {"line": number})
    return found


def _annotation(task: dict[str, Any], annotation: dict[str, Any]) -> dict[str, Any]:
    meta = annotation.get("meta") or {}
    results = annotation.get("result") or []
    choices = [c for result in results for c in (result.get("value") or {}).get("choices", [])]
    return {
        "item": _item(task.get("data") or {}),
        "answer": "(skip)" if annotation.get("was_cancelled") else _one(choices),
        "annotator": _who(annotation.get("completed_by")),
        "time": annotation.get("created_at"),
        "id": annotation_id(annotation),
        **{name: meta.get(name) for name in ("purpose", "inclusion", "uniform")},
    }


def _flat(task: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    """JSON-MIN: one flat object an annotation."""
    told = task.get("label", task.get("choice"))
    choices = told["choices"] if isinstance(told, dict) else [] if told is None else [told]
    of = {"id": task.get("annotation_id"), "updated_at": task.get("updated_at")}
    return {
        "item": _item({key: task.get(key) for key in ITEM_KEYS}),
        "answer": _one(choices),
        "annotator": _who(task.get("annotator")),
        "time": task.get("created_at"),
        "id": annotation_id(of),
    }


def _item(data: dict[str, Any]) -> str | None:
    return next((str(data[key]) for key in ITEM_KEYS if data.get(key) is not None), None)


def _one(choices: list[Any]) -> str | None:
    if len(choices) > 1:
        raise InvalidInput(f"an annotation has {len(choices)} choices: an item has one class; use a single choice")
    return str(choices[0]) if choices else None


def _who(completed_by: Any) -> str | None:
    """An email where it is told; Label Studio's number of a user as `label-studio 3`."""
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    return f"label-studio {completed_by}" if isinstance(completed_by, int) else completed_by or None


def annotation_id(annotation: dict[str, Any]) -> str | None:
    """The same annotation gives the same id, a changed one another: by webhook and in every export.

    Its number goes first, for that is all that Label Studio says of a deleted one; opcal's own exports have none.
    """
    number, unique = annotation.get("id"), annotation.get("unique_id")
    if number is None and not unique:
        return None
    return f"{unique if number is None else f'label-studio-{number}'}{_changed(annotation)}"


def _changed(annotation: dict[str, Any]) -> str:
    updated = annotation.get("updated_at")
    return f"-{updated}" if updated else ""


def _choice(name: str) -> dict[str, Any]:
    return {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [name]}}
