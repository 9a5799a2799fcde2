"""Answers out and in: CSV, JSONL, Parquet, Label Studio's JSON."""

from opcal.session.interchange.checking import read
from opcal.session.interchange.label_studio import tasks as label_studio_tasks
from opcal.session.interchange.writing import as_csv, write

__all__ = ["as_csv", "label_studio_tasks", "read", "write"]
