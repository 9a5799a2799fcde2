"""What a session may be started with."""

from __future__ import annotations

from typing import Any

from opcal.calibrator import OperationalCalibrator
from opcal.core.costs import Costs
from opcal.errors import UnknownOption
from opcal.methods import design_named, method_named
from opcal.session.values import Settings


def settings_of(*, costs: float | Costs | None, overlap: float, blind: str, **more: Any) -> Settings:
    """Settings from what `Session.start` was given."""
    opinions = 2
    if overlap >= 2:
        opinions, overlap = int(overlap), more.pop("overlap_share", 0.25)
    if not 0 <= overlap <= 1:
        raise UnknownOption(f"overlap is {overlap}: expected a share in [0, 1], or a number of opinions, 2 or more")
    if blind not in ("audit", "all", "none"):
        raise UnknownOption(f'blind is {blind!r}: expected "audit", "all" or "none"')
    known: dict[str, Any] = {"name": "", "opinions": opinions} | more
    unknown = set(known) - set(Settings.__dataclass_fields__)
    if unknown:
        raise UnknownOption(f"a session has no setting {sorted(unknown)[0]!r}")
    return Settings(costs=costs.u if isinstance(costs, Costs) else costs, overlap=overlap, blind=blind, **known)


def refuse_unusable(settings: Settings) -> None:
    """Refuse settings that the calibrator would refuse, before anything is written."""
    made = OperationalCalibrator(threshold=settings.threshold, costs=settings.costs)
    for name in ("method", "design"):
        if not isinstance(getattr(settings, name), str):
            raise UnknownOption(f'{name} is an object: a session stores names, such as {name}="auto"')
    design_named(settings.design, made.threshold_, method_named(settings.method))
    if not 0 <= settings.audit <= 1:
        raise UnknownOption(f"audit is {settings.audit!r}: expected a share in [0, 1]")
    if settings.disputes not in ("vote", "arbiter"):
        raise UnknownOption(f'disputes is {settings.disputes!r}: expected "vote" or "arbiter"')
    if settings.budget is not None and settings.budget < 1:
        raise UnknownOption(f"budget is {settings.budget!r}: expected a number of answers, 1 or more, or None")
