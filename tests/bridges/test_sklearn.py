"""The scikit-learn classifier predicts as before and says honestly how sure it is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from opcal.bridges import OperationalClassifier
from opcal.errors import LengthMismatch
from opcal.metrics import brier


@pytest.fixture(scope="module")
def digits():
    """A classifier of 4 × 8 pixels; in the field every other image is mirrored."""
    x, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000)).fit(x[:600], y[:600])
    field = x[600:].copy()
    field[::2] = field[::2].reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)
    return model, field, y[600:]


def test_predictions_stay_and_the_predicted_entry_is_the_calibrated_confidence(digits):
    model, x, y = digits
    labelled = np.zeros(700, bool)
    labelled[:120] = True
    made = OperationalClassifier(model).fit(x[:700], y[:700], labelled=labelled)
    np.testing.assert_array_equal(made.predict(x[700:]), model.predict(x[700:]))
    p, predicted = made.predict_proba(x[700:]), model.predict(x[700:])
    np.testing.assert_allclose(p.sum(1), 1)
    assert (p >= 0).all()
    c = p[np.arange(len(p)), predicted]
    np.testing.assert_allclose(c, made.posterior(x[700:]).mean)
    right = predicted == y[700:]
    assert brier(c, right) < 0.9 * brier(model.predict_proba(x[700:]).max(1), right)


def test_it_is_a_scikit_learn_estimator(digits):
    model, x, y = digits
    made = OperationalClassifier(model, method="paper")
    assert clone(made).get_params()["method"] == "paper"
    with pytest.raises(NotFittedError):
        made.predict_proba(x[:3])
    with pytest.raises(LengthMismatch, match="y has 2"):
        made.fit(x[:3], y[:2])
    # A label that the classifier does not know only says that it is wrong.
    strange = np.append(y[:49], 77)
    assert not made.fit(x[:50], strange).calibrator_.answers_.correct[-1]
    assert 0 < made.score(x[:50], y[:50]) <= 1
