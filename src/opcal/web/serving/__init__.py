"""Calibrated confidence as a service: `opcal serve X.opcal`."""

from opcal.web.serving.app import application
from opcal.web.serving.holder import Holder

__all__ = ["Holder", "application"]
