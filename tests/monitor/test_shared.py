"""The watch on real networks: their own domain against the field, another data set's items, a second round."""

from __future__ import annotations

import pytest
import rounds
import watching

pytestmark = pytest.mark.shared


@pytest.mark.parametrize("task", ["t1", "t3", "t8"])
def test_from_the_networks_own_domain_to_the_field_three_hundred_items_alarm(shared, task):
    """Ten runs; bench/watching.py makes forty."""
    assert watching.alarms(shared, task, 10)["alarms"] == 10


@pytest.mark.parametrize(("mine", "other"), watching.PAIRS)
def test_items_of_another_data_set_are_not_trusted(shared, mine, other):
    found = watching.out_of_field(shared, mine, other, 2)
    assert found["watch"] >= 0.95
    assert found["score and serve"] >= 0.92
    assert found["own"] < 0.05
    assert found["own by watch"] < 0.01


@pytest.mark.parametrize("kind", ["mixed", pytest.param("blurred 1", marks=pytest.mark.paper)])
def test_thirty_new_labels_beside_sixty_old_ones_are_worth_sixty_new_ones(kind, shared):
    """Digits: half of the new field's are of another source, or all are blurred (bench/rounds.py, twelve splits)."""
    if kind != "mixed":
        pytest.importorskip("torch")
    (found,) = rounds.measure(shared, [kind], 12)
    assert found["second round"] <= found["60 anew"]
    assert found["second round"] < found["30 anew"]
    assert found["second round"] < found["first round only"]
