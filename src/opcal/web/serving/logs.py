"""One JSON line for each event, on standard error. Bodies and tokens are never logged."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"time": at, "level": record.levelname.lower(), "event": record.getMessage()}
        told |= getattr(record, "opcal", {})
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = record.exc_info[0].__name__
        return json.dumps(told, default=str)


def to_standard_error() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    for name in ("opcal", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
