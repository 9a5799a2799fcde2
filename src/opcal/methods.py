"""What `OperationalCalibrator(method=..., design=...)` takes: a name, one of these objects, or your own.

Methods and designs of your own follow the small protocols `Method` and `Design`.
"""

from __future__ import annotations

from opcal.core.correctness import Correctness
from opcal.core.designs import KMeans, PaperSelection, Random
from opcal.core.method import Answers, Chooser, Design, Field, Learner, Method, Outputs
from opcal.core.paper import Paper
from opcal.core.residual import Residual
from opcal.core.stack import Auto
from opcal.core.temperature import Temperature
from opcal.core.variance import Variance
from opcal.errors import UnknownOption

__all__ = [
    "Answers",
    "Auto",
    "Chooser",
    "Correctness",
    "Design",
    "Field",
    "KMeans",
    "Learner",
    "Method",
    "Outputs",
    "Paper",
    "PaperSelection",
    "Random",
    "Residual",
    "Temperature",
    "Variance",
    "design_named",
    "method_named",
]


def method_named(method: str | Method) -> Method:
    """The method of that name; an object with `begin` is taken as it is."""
    known: dict[str, type[Method]] = {"auto": Auto, "paper": Paper}
    if isinstance(method, str):
        if method not in known:
            raise UnknownOption(f"method is {method!r}: known are {', '.join(known)}")
        return known[method]()
    if isinstance(method, type) or not callable(getattr(method, "begin", None)):
        raise UnknownOption(
            f"method is {method!r}: expected a name or an object with begin(field), e.g. opcal.methods.Paper()"
        )
    return method


def design_named(design: str | Design, threshold: float, method: Method) -> Design:
    """The design of that name; "auto" is the paper's for the paper's method, else "variance"."""
    known: dict[str, Design] = {
        "auto": PaperSelection(threshold) if isinstance(method, Paper) else Variance(),
        "variance": Variance(),
        "kmeans": KMeans(),
        "paper": PaperSelection(threshold),
        "random": Random(),
    }
    if isinstance(design, str):
        if design not in known:
            raise UnknownOption(f"design is {design!r}: known are {', '.join(known)}")
        return known[design]
    if isinstance(design, type) or not callable(getattr(design, "begin", None)):
        raise UnknownOption(
            f"design is {design!r}: expected a name or an object with begin(field, learner), e.g. methods.Random()"
        )
    return design
