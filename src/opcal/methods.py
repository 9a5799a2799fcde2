"""What `OperationalCalibrator(method=...)` takes: a name, one of these objects, or your own with the same protocol."""

from __future__ import annotations

from opcal.core.method import Field, Learner, Method
from opcal.core.paper import Paper
from opcal.errors import UnknownOption

__all__ = ["Field", "Learner", "Method", "Paper", "method_named"]


def method_named(method: str | Method) -> Method:
    """The method of that name; an object with `begin` is taken as it is."""
    if not isinstance(method, str):
        if not callable(getattr(method, "begin", None)):
            raise UnknownOption(
                f"method is {method!r}: expected a name or an object with begin(field), see opcal.methods"
            )
        return method
    known = {"auto": Paper, "paper": Paper}
    if method not in known:
        raise UnknownOption(f"method is {method!r}: known are {', '.join(known)}")
    return known[method]()
