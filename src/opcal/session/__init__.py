"""Labelling sessions: a log of answers that loses nothing, for one person on a laptop or twenty on a server."""

from opcal.session.session import Session
from opcal.session.values import Event, Given, Receipt, Settings, Status, Task

__all__ = ["Event", "Given", "Receipt", "Session", "Settings", "Status", "Task"]
