"""Class prototypes against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from opcal.core.prototypes import learn, project, unit


def test_whitened_rows_have_unit_covariance_and_repeat_the_principal_subspace():
    z = np.random.default_rng(0).standard_normal((60, 5)) * [5, 3, 2, 1, 0.5]
    p = project(z, 3)
    b = p.whitened(p.centred(z, np.dtype(np.float64)))
    np.testing.assert_allclose(b.T @ b / 60, np.eye(3), atol=1e-10)


def test_wide_and_tall_features_give_the_same_subspace():
    z = np.random.default_rng(0).standard_normal((30, 20))
    wide = np.concatenate([z, np.zeros((30, 20))], 1)
    tall, short = project(z, 4), project(wide, 4)
    a = tall.whitened(tall.centred(z, np.dtype(np.float64)))
    b = short.whitened(short.centred(wide, np.dtype(np.float64)))
    np.testing.assert_allclose(np.abs(a), np.abs(b), atol=1e-9)


def test_scores_without_self_are_those_of_prototypes_learnt_without_the_row():
    rng = np.random.default_rng(0)
    rows, h = rng.standard_normal((20, 3)), rng.standard_normal((20, 4))
    (prototypes, own), _ = learn((rows, rows), h, None)
    got = prototypes.scores_without_self(rows, own)[5]
    places = prototypes.places - own[5][:, None] * unit(rows)[5]
    s = unit(places) @ unit(rows)[5]
    np.testing.assert_allclose(got, (s - s.mean()) / prototypes.scale, atol=1e-12)


def test_separated_classes_are_found_where_the_model_confuses_them():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    z = np.eye(2)[y] * 4 + 0.3 * rng.standard_normal((200, 2))
    h = np.eye(2)[y] + 0.8 * rng.standard_normal((200, 2))
    (prototypes, _), _ = learn((z - z.mean(0), z), h, None)
    assert (prototypes.scores(z - z.mean(0)).argmax(1) == y).mean() > 0.97 > (h.argmax(1) == y).mean()


@pytest.mark.parametrize("tiny", [1e-30, 1e-200, 0.0])
def test_rows_of_any_length_become_unit_or_stay_zero(tiny):
    lengths = np.linalg.norm(unit(np.array([[tiny, 0.0], [3.0, 4.0]])), axis=1)
    np.testing.assert_allclose(lengths, [float(tiny > 0), 1.0])
