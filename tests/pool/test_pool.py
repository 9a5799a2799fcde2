"""What a pool makes of good input, in whatever layout it comes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import make_case

import opcal
from opcal import Pool

CASE = make_case(n=60, d=5, classes=3, seed=3)
COARSE = np.round(CASE.features * 8) / 8, np.round(CASE.logits * 8) / 8
"""Exact in float16."""


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def strided(a):
    wide = np.full((2 * len(a), 3 * a.shape[1]), np.nan)
    wide[::2, ::3] = a
    return wide[::2, ::3]


LAYOUTS = {
    "float16": lambda a: a.astype(np.float16),
    "float32": lambda a: a.astype(np.float32),
    "long double": lambda a: a.astype(np.longdouble),
    "Fortran": np.asfortranarray,
    "Fortran float32": lambda a: np.asfortranarray(a.astype(np.float32)),
    "strided": strided,
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "big-endian": lambda a: a.astype(">f8"),
    "big-endian float32": lambda a: a.astype(">f4"),
    "list": lambda a: a.tolist(),
    "pandas": pd.DataFrame,
}


def answers_of(pool):
    calibrator = opcal.OperationalCalibrator().begin(pool)
    i = calibrator.ask(30)
    calibrator.tell(i, labels=CASE.labels[i])
    return i, calibrator.confidence(pool)


def same_as_float64(z, h, make):
    i, confidence = answers_of(Pool.from_arrays(make(z), make(h)))
    j, expected = answers_of(Pool.from_arrays(z, h))
    np.testing.assert_array_equal(i, j)
    np.testing.assert_allclose(confidence, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout_asks_and_answers_as_a_float64_copy_does(make):
    same_as_float64(*COARSE, make)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, ">i4"])
def test_whole_numbers_ask_and_answer_as_their_float64_copy_does(kind):
    z, h = (np.abs(np.round(a)) for a in COARSE)
    same_as_float64(z, h, lambda a: a.astype(kind))


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_input_is_untouched_byte_for_byte(make):
    z, h = make(COARSE[0]), make(COARSE[1])
    before = copy.deepcopy((z, h))
    answers_of(Pool.from_arrays(z, h))
    for now, then in zip((z, h), before, strict=True):
        assert np.asarray(now).tobytes("A") == np.asarray(then).tobytes("A")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clean_arrays_are_not_copied(dtype):
    z = CASE.features.astype(dtype)
    assert np.shares_memory(Pool.from_arrays(z, CASE.logits).features, z)


def test_confidence_is_the_top_softmax_probability():
    e = np.exp(CASE.logits)
    np.testing.assert_allclose(CASE.pool.confidence, (e / e.sum(1, keepdims=True)).max(1), rtol=1e-14)


def test_a_constant_added_to_a_rows_logits_changes_nothing():
    shifted = Pool.from_arrays(CASE.features, CASE.logits + np.linspace(-1e4, 1e4, 60)[:, None])
    np.testing.assert_allclose(shifted.confidence, CASE.pool.confidence, atol=1e-11)


def test_huge_logits_give_confidence_one_and_not_nan():
    assert Pool.from_arrays([[0.0], [1.0]], [[1e14, 0.0], [0.0, -1e14]]).confidence.tolist() == [1.0, 1.0]


def test_predicted_may_be_named():
    pool = Pool.from_arrays([[0.0], [1.0]], confidence=[0.5, 1], predicted=["dog", "cat"], classes=["cat", "dog"])
    assert pool.predicted.tolist() == [1, 0]


def test_the_ids_of_a_shuffled_frame_stay_in_row_order():
    frame = pd.DataFrame({"id": ["a", "b", "c"], "path": ["1", "2", None]}, index=[2, 0, 1])
    pool = Pool.from_arrays(
        np.eye(3), np.eye(3) * 9, ids=frame["id"], payload=frame["path"], columns={"p": frame["path"]}
    )
    taken = pool.take([2, 0])
    assert (taken.ids, taken.payload, taken.columns["p"][1]) == (["c", "a"], [None, "1"], "1")


def test_ids_of_whole_numbers_are_found_by_number_and_by_text():
    pool = Pool.from_arrays(np.eye(2), np.eye(2) * 9, ids=np.array([70, 9]))
    assert pool.positions([9]).tolist() == pool.positions("9").tolist() == [1]


def test_composed_and_decomposed_letters_are_two_ids():
    pool = Pool.from_arrays(np.eye(2), np.eye(2) * 9, ids=["\u00e9", "e\u0301"])
    assert pool.positions(["e\u0301", "\u00e9"]).tolist() == [1, 0]


def test_a_column_changed_later_by_its_owner_does_not_change_the_pool():
    ages, columns = [1, 2], {}
    columns["age"] = ages
    pool = Pool.from_arrays(np.eye(2), np.eye(2) * 9, columns=columns)
    columns["more"] = ages
    ages.append(3)
    assert pool.columns == {"age": [1, 2]}


def test_a_pool_survives_pickling():
    pool = Pool.from_arrays(CASE.features, CASE.logits, ids=[f"é{i}" for i in range(60)], columns={"n": range(60)})
    again = pickle.loads(pickle.dumps(pool))
    assert again.ids == pool.ids
    assert again.columns == pool.columns
    np.testing.assert_array_equal(again.confidence, pool.confidence)
