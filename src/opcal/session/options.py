"""What a session may be started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import Costs
from opcal.errors import InvalidCosts, UnknownOption
from opcal.pool import Pool
from opcal.session.values import Settings

Given = float | Costs | CostMatrix | Mapping[str, Any] | None
"""Costs as `Session.start` takes them."""


def settings_of(*, costs: Given, overlap: float, blind: str, **more: Any) -> Settings:
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
    return Settings(costs=_kept(costs), overlap=overlap, blind=blind, **known)


def _kept(costs: Given) -> float | dict[str, Any] | None:
    """Costs as they are stored: a number as a number, all else as plain values."""
    if isinstance(costs, CostMatrix):
        from opcal.costs import as_dict

        return as_dict(costs)
    if isinstance(costs, Mapping):
        kept: dict[str, Any] = _plain(costs)
        return kept
    return costs.u if isinstance(costs, Costs) else costs


def _plain(value: Any) -> Any:
    """Names as text, as JSON has them: YAML reads a class named 1 as a number."""
    return {str(name): _plain(v) for name, v in value.items()} if isinstance(value, Mapping) else value


def costs_of(settings: Settings) -> float | CostMatrix | None:
    """A session's costs as the calibrator, the report and the page take them."""
    if not isinstance(settings.costs, dict):
        return settings.costs
    classes = settings.classes or settings.n_classes
    if classes is None:
        raise InvalidCosts(
            "the pool does not say which classes there are, so that costs cannot be told apart by class: pass the loss "
            "of a wrong prediction as a number, or make the pool with classes=[...]"
        )
    from opcal.costs import from_dict

    return from_dict(settings.costs, classes, where="costs: ")


def refuse_unusable(settings: Settings, pool: Pool) -> None:
    """Refuse settings that the calibrator would refuse, before anything is written."""
    from opcal.calibrator import OperationalCalibrator
    from opcal.costs import of_pool
    from opcal.methods import design_named, method_named

    costs = costs_of(settings)
    if isinstance(costs, CostMatrix):
        of_pool(costs, pool)
    made = OperationalCalibrator(threshold=settings.threshold, costs=costs)
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
