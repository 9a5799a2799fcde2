"""Is the model at home in this field? Read off the unlabelled pool, before the first answer."""

from __future__ import annotations

POWER, SUREST, DOUBTING, ENOUGH = 5, 0.75, 2.0, 5.0


def at_home(agreement: float, mean_confidence: float, items_a_class: float) -> float:
    """Prior probability that the model is calibrated here already.

    Where its prototypes agree with almost all predictions it probably is: agreement to the power 5. Where it claims
    less than they agree it was calibrated by somebody: 2(1 − mean confidence / agreement). At most .75. With few items
    a class the prototypes tell nothing and it is ½: they count as m/(m + 5) at m items a class. docs/robust.md
    has what this prior leaves of harm.
    """
    claims_less = DOUBTING * (1 - mean_confidence / agreement) if agreement > 0 else 0.0
    seen = min(max(agreement**POWER, claims_less), SUREST)
    told = items_a_class / (items_a_class + ENOUGH)
    return told * seen + (1 - told) / 2
