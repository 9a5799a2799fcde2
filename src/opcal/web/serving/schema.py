"""What OpenAPI says of the bodies: `bodies` reads them, which is quicker on rows of numbers than a model class."""

from __future__ import annotations

from typing import Any

PATHS = {"/score", "/decide", "/health", "/ready", "/metrics", "/openapi.json"}
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 1}
_ROWS = {"type": "array", "items": _NUMBERS, "minItems": 1}


def _or_many(one: dict[str, Any], many: dict[str, Any], said: str) -> dict[str, Any]:
    return {"oneOf": [one, many], "description": said}


_ITEM: dict[str, Any] = {
    "features": _or_many(_NUMBERS, _ROWS, "The model's representation of one item, or one row for each of many."),
    "logits": _or_many(_NUMBERS, _ROWS, "The model's logits, as many items as features; never probabilities."),
    "confidence": _or_many({"type": "number"}, _NUMBERS, "Instead of logits, where the artefact has none."),
    "predicted": _or_many(
        {"type": "integer"}, {"type": "array", "items": {"type": "integer"}}, "Class number, with confidence."
    ),
    "threshold": {"type": "number", "minimum": 0, "maximum": 1, "description": "Instead of the artefact's own."},
}
_COSTS = {
    "oneOf": [{"type": "number", "minimum": 0}, {"type": "object"}],
    "description": "The loss u of acting on a wrong prediction (a right one gains 1), or what a costs file holds. "
    "Without it, the artefact's own costs.",
}


def _value(kind: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [kind, {"type": "array", "items": kind}]}


_ANSWER: dict[str, Any] = {
    "confidence": _value({"type": "number", "minimum": 0, "maximum": 1}),
    "sd": _value({"type": "number"}),
    "above": _value({"type": "number"}),
    "act": _value({"type": "boolean"}),
    "outside": _value({"type": "boolean"}),
    "predicted": _value({"type": "integer"}),
    "label": _value({"type": ["string", "null"]}),
    "artifact": {"type": "string"},
}
_DECISION = {"action": _value({"type": "string"}), "expected_gain": _value({"type": "number"})}
_REFUSED = {
    "description": "The request cannot be used; nothing was scored.",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}, "kind": {"type": "string"}}}
        }
    },
}


def _operation(asked: dict[str, Any], answer: dict[str, Any], *, binary: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": asked, "required": ["features"], "additionalProperties": False}
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    good: dict[str, Any] = {"application/json": {"schema": {"type": "object", "properties": answer}}}
    content["application/vnd.safetensors"] = {"schema": {"type": "string", "format": "binary"}}
    if binary:
        good["application/vnd.safetensors"] = content["application/vnd.safetensors"]
    return {
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": "One value an item.", "content": good}, "422": _REFUSED},
    }


SCORE = _operation(_ITEM, _ANSWER, binary=True)
DECIDE = _operation(_ITEM | {"costs": _COSTS}, _ANSWER | _DECISION, binary=False)
