"""When something dear is made anew."""

from __future__ import annotations

import pytest

from opcal.core.checkpoints import last_checkpoint


@pytest.mark.parametrize("first", [3, 8])
def test_a_checkpoint_holds_until_the_next_and_each_is_its_own(first):
    found = [last_checkpoint(n, first) for n in range(200)]
    steps = sorted(set(found))
    assert steps == [0, *sorted({round(first * 2 ** (j / 2)) for j in range(13)} & set(range(200)))]
    assert all(last_checkpoint(step, first) == step for step in steps)
    assert found == sorted(found)
