"""From any model and any data to a pool: features and logits in one forward pass, at any size."""

from __future__ import annotations

from opcal.extract.api import extract
from opcal.extract.run import Extraction
from opcal.extract.settings import Settings

__all__ = ["Extraction", "Settings", "extract"]
