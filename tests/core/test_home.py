"""Whether the model is at home, before the first answer."""

from __future__ import annotations

import pytest

from opcal.core.home import at_home


def test_a_model_that_its_prototypes_contradict_is_abroad():
    assert at_home(0.3, 0.9, 1000) < 0.01


def test_a_model_that_its_prototypes_follow_is_at_home():
    assert at_home(0.99, 0.99, 1000) > 0.7


def test_a_model_that_claims_less_than_its_prototypes_agree_was_calibrated_by_somebody():
    assert at_home(0.8, 0.5, 1000) > 2 * at_home(0.8, 0.8, 1000)


@pytest.mark.parametrize(("agreement", "confidence"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.5, 1.0)])
def test_nothing_known_of_the_classes_leaves_it_open(agreement, confidence):
    assert at_home(agreement, confidence, 0.0) == pytest.approx(0.5)
    assert 0 <= at_home(agreement, confidence, 50.0) <= 0.75
