"""What the one door refuses, and that it says which argument, what came and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case

from opcal import Pool
from opcal.errors import (
    DuplicateIds,
    InvalidArray,
    InvalidInput,
    LengthMismatch,
    ProbabilitiesAsLogits,
    UnknownLabel,
    UnknownOption,
)

CASE = make_case(n=20, d=3, classes=4)
Z, H = CASE.features, CASE.logits
C, P = CASE.pool.confidence, CASE.pool.predicted


def changed(array, where, value):
    copy = np.array(array, dtype=float)
    copy[where] = value
    return copy


def softmax(h):
    e = np.exp(h - h.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


REFUSALS = {
    "inf feature": (
        dict(features=changed(Z, (17, 1), np.inf), logits=H),
        InvalidArray,
        r"features\[17\] holds inf: drop",
    ),
    "NaN feature": (
        dict(features=changed(Z, (3, 0), np.nan), logits=H),
        InvalidArray,
        r"features\[3\] holds nan.*on_bad",
    ),
    "NaN logit": (dict(features=Z, logits=changed(H, (4, 2), np.nan)), InvalidArray, r"logits\[4\] holds nan.*on_bad"),
    "-inf logit": (dict(features=Z, logits=changed(H, (4, 2), -np.inf)), InvalidArray, r"logits\[4\] holds -inf"),
    "huge feature": (
        dict(features=changed(Z, (2, 0), 1e30), logits=H),
        InvalidArray,
        r"features\[2\] holds 1e\+30: resc",
    ),
    "overflow of the square": (dict(features=changed(Z, (2, 0), 1e200), logits=H), InvalidArray, "rescale features"),
    "many large ones": (
        dict(features=changed(Z, 2, 9e14), logits=H),
        InvalidArray,
        r"features\[2\] holds 9e\+14: rescale",
    ),
    "no items": (dict(features=Z[:0], logits=H[:0]), InvalidArray, r"features has shape \(0, 3\).*at least one row"),
    "no features": (dict(features=Z[:, :0], logits=H), InvalidArray, r"features has shape \(20, 0\)"),
    "empty list": (dict(features=[], logits=[]), InvalidArray, r"features has shape \(0,\)"),
    "one dimension": (dict(features=Z[:, 0], logits=H), InvalidArray, r"features has shape \(20,\): expected two"),
    "three dimensions": (dict(features=Z[:, :, None], logits=H), InvalidArray, "expected two dimensions"),
    "None": (dict(features=None, logits=H), InvalidArray, "features holds object values: expected real numbers"),
    "object dtype": (dict(features=Z.astype(object), logits=H), InvalidArray, "features holds object.*astype"),
    "complex dtype": (dict(features=Z + 0j, logits=H), InvalidArray, "features holds complex128"),
    "text dtype": (dict(features=Z.astype(str), logits=H), InvalidArray, "features holds <U"),
    "dates": (dict(features=Z.astype(int).astype("M8[s]"), logits=H), InvalidArray, "features holds datetime64"),
    "complex logits": (dict(features=Z, logits=H * 1j), InvalidArray, "logits holds complex128"),
    "ragged lists": (dict(features=[[1.0, 2.0], [1.0]], logits=H), InvalidArray, "features cannot be read as an array"),
    "masked": (
        dict(features=np.ma.masked_less(Z, 0), logits=H),
        InvalidArray,
        r"features has masked.*filled\(np.nan\)",
    ),
    "lengths": (dict(features=Z, logits=H[:-1]), LengthMismatch, "logits has 19 entries but features has 20 rows"),
    "one class": (dict(features=Z, logits=H[:, :1]), InvalidArray, "logits has one column.*column_stack"),
    "neither": (dict(features=Z), InvalidInput, "pass either logits="),
    "both": (dict(features=Z, logits=H, confidence=C), InvalidInput, "pass either logits="),
    "no predicted": (dict(features=Z, confidence=C), InvalidInput, "predicted= is missing"),
    "no confidence": (dict(features=Z, predicted=P), InvalidInput, "confidence= is missing"),
    "confidence > 1": (
        dict(features=Z, confidence=changed(C, 7, 1.5), predicted=P),
        InvalidArray,
        r"confidence\[7\] is 1.5",
    ),
    "confidence < 0": (
        dict(features=Z, confidence=changed(C, 7, -0.1), predicted=P),
        InvalidArray,
        r"\[7\] is -0.1.*\[0, 1\]",
    ),
    "confidence just > 1": (
        dict(features=Z, confidence=changed(C, 7, 1.0000001), predicted=P),
        InvalidArray,
        r"confidence\[7\] is 1\.0000001.*np\.clip",
    ),
    "NaN confidence": (dict(features=Z, confidence=changed(C, 0, np.nan), predicted=P), InvalidArray, r"\[0\] is nan"),
    "2-d confidence": (
        dict(features=Z, confidence=softmax(H), predicted=P),
        InvalidArray,
        r"confidence has shape \(20, 4\)",
    ),
    "short confidence": (dict(features=Z, confidence=C[1:], predicted=P), LengthMismatch, "confidence has 19"),
    "short predicted": (dict(features=Z, confidence=C, predicted=P[1:]), LengthMismatch, "predicted has 19"),
    "negative predicted": (
        dict(features=Z, confidence=C, predicted=P - 1),
        UnknownLabel,
        r"predicted\[\d+\] is -1: a model",
    ),
    "predicted 1.5": (
        dict(features=Z, confidence=C, predicted=P + 0.5),
        UnknownLabel,
        r"predicted\[0\] is .*whole class",
    ),
    "predicted inf": (dict(features=Z, confidence=C, predicted=P + np.inf), UnknownLabel, r"predicted\[0\] is inf"),
    "predicted NaN": (dict(features=Z, confidence=C, predicted=P + np.nan), UnknownLabel, r"predicted\[0\] is nan"),
    "predicted too high": (
        dict(features=Z, confidence=C, predicted=P, classes=["a", "b"]),
        UnknownLabel,
        r"predicted\[\d+\] is [23]: the model's classes are 0 to 1",
    ),
    "text without classes": (
        dict(features=Z, confidence=C, predicted=["cat"] * 20),
        UnknownLabel,
        r"predicted\[0\] is 'cat' but the pool has no class names: pass classes=",
    ),
    "wrapped unsigned": (
        dict(features=Z, confidence=C, predicted=np.full(20, 2**64 - 1, dtype=np.uint64)),
        UnknownLabel,
        r"predicted\[0\] is 18446744073709551615",
    ),
    "double id": (dict(features=Z, logits=H, ids=[*range(19), "0"]), DuplicateIds, r"ids\[19\] is '0', as ids\[0\]"),
    "short ids": (dict(features=Z, logits=H, ids=["a"]), LengthMismatch, "ids has 1 entries but features has 20 rows"),
    "ids are one text": (dict(features=Z, logits=H, ids="a" * 20), InvalidInput, "ids is 'a+'.*expected a list"),
    "missing id": (dict(features=Z, logits=H, ids=[None, *range(19)]), InvalidInput, r"ids\[0\] is None: every item"),
    "NaN id": (dict(features=Z, logits=H, ids=[*range(19), np.nan]), InvalidInput, r"ids\[19\] is nan"),
    "2-d ids": (dict(features=Z, logits=H, ids=np.arange(40).reshape(20, 2)), InvalidArray, r"ids has shape \(20, 2\)"),
    "bytes ids": (dict(features=Z, logits=H, ids=[b"%d" % i for i in range(20)]), InvalidInput, r"ids\[0\] is b'0'"),
    "short payload": (dict(features=Z, logits=H, payload=["x.png"]), LengthMismatch, "payload has 1 entries"),
    "payload is one text": (dict(features=Z, logits=H, payload="x" * 20), InvalidInput, "payload is 'x+'"),
    "short column": (dict(features=Z, logits=H, columns={"age": [1]}), LengthMismatch, "column 'age' has 1 entries"),
    "own column": (dict(features=Z, logits=H, columns={"id": range(20)}), InvalidInput, "columns has the name 'id'"),
    "nameless column": (dict(features=Z, logits=H, columns={3: range(20)}), InvalidInput, "columns has the name 3"),
    "columns are a list": (
        dict(features=Z, logits=H, columns=["age"]),
        InvalidInput,
        "columns is a list: expected a mapping",
    ),
    "model is a text": (dict(features=Z, logits=H, model="resnet"), InvalidInput, "model is a str: expected a mapping"),
    "few classes": (
        dict(features=Z, logits=H, classes=["a", "b"]),
        LengthMismatch,
        "classes has 2 names but logits has 4",
    ),
    "double class": (dict(features=Z, logits=H, classes=["a", "b", "c", "b"]), InvalidInput, "classes holds 'b' twice"),
    "classes are a text": (
        dict(features=Z, logits=H, classes="abcd"),
        InvalidInput,
        "classes is 'abcd': expected a list",
    ),
    "classes are a number": (dict(features=Z, logits=H, classes=4), InvalidInput, "classes is 4: expected a list"),
    "unknown on_bad": (dict(features=Z, logits=H, on_bad="ignore"), UnknownOption, "on_bad is 'ignore'.*raise.*drop"),
    "probabilities": (dict(features=Z, logits=softmax(H)), ProbabilitiesAsLogits, r"probabilities.*np\.log"),
}


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_bad_input_is_refused_by_name_with_what_came_and_what_to_do(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        Pool.from_arrays(**arguments)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    "p",
    [
        softmax(H).astype(np.float16),
        softmax(H).astype(np.float32),
        np.round(softmax(H), 3),
        softmax(H) + np.float32(2e-7),
        np.eye(4)[P],
        np.eye(4, dtype=int)[P],
        np.asfortranarray(softmax(H)),
    ],
    ids=["float16", "float32", "three decimals", "a bit above 1", "one-hot", "one-hot integers", "Fortran"],
)
def test_probabilities_are_refused_as_logits_in_every_guise(p):
    with pytest.raises(ProbabilitiesAsLogits):
        Pool.from_arrays(Z, p)


def test_probabilities_are_refused_when_bad_rows_are_dropped_too():
    with pytest.raises(ProbabilitiesAsLogits):
        Pool.from_arrays(Z, changed(softmax(H), (0, 0), np.nan), on_bad="drop")


def test_log_probabilities_give_the_same_confidence_as_the_logits():
    np.testing.assert_allclose(Pool.from_arrays(Z, np.log(softmax(H))).confidence, C, rtol=1e-12)


def test_one_row_that_is_no_probability_makes_logits_of_them_all():
    assert len(Pool.from_arrays(Z, changed(softmax(H), (19, 0), 3.0))) == 20


def test_dropping_bad_rows_keeps_everything_of_the_others():
    kept = [i for i in range(20) if i not in (3, 5, 8)]
    z = changed(changed(Z, (3, 0), np.nan), (5, 1), np.inf)
    pool = Pool.from_arrays(
        z,
        changed(H, (8, 0), np.inf),
        ids=[f"scan {i}" for i in range(20)],
        payload=[f"{i}.png" for i in range(20)],
        columns={"age": list(range(20))},
        on_bad="drop",
    )
    assert pool.ids == [f"scan {i}" for i in kept]
    assert pool.payload == [f"{i}.png" for i in kept]
    assert pool.columns["age"] == kept
    np.testing.assert_array_equal(pool.features, Z[kept])
    np.testing.assert_array_equal(pool.predicted, P[kept])


def test_ids_left_to_opcal_stay_the_row_numbers_of_the_input_when_rows_are_dropped():
    assert Pool.from_arrays(changed(Z, (1, 0), np.nan), H, on_bad="drop").ids[:3] == ["0", "2", "3"]


def test_dropping_rows_of_bad_confidence_keeps_the_others():
    pool = Pool.from_arrays(Z, confidence=changed(C, [0, 19], [np.nan, 1.2]), predicted=P, on_bad="drop")
    np.testing.assert_array_equal(pool.confidence, C[1:-1])


@pytest.mark.parametrize("bad", [dict(features=Z * np.nan, logits=H), dict(features=Z, logits=H * np.nan)])
def test_dropping_every_row_is_refused(bad):
    with pytest.raises(InvalidArray, match="every row is bad"):
        Pool.from_arrays(**bad, on_bad="drop")


W, B = np.random.default_rng(1).normal(size=(4, 3)), np.arange(4.0)
HEADED = Z @ W.T + B


def test_the_right_head_is_kept_as_given():
    head = Pool.from_arrays(Z, HEADED, head=(W, B)).head
    np.testing.assert_array_equal(head.weight, W)
    np.testing.assert_array_equal(head.bias, B)


def test_a_head_in_float16_is_still_the_head():
    half = Z.astype(np.float16)
    assert Pool.from_arrays(half, HEADED, head=(W.astype(np.float16), B.astype(np.float16))).head is not None


HEADS = {
    "transposed": ((W.T, B), InvalidArray, r"head weight has shape \(3, 4\): expected .* \(4, 3\); transpose it"),
    "wrong": ((W + 1, B), InvalidInput, r"head\(features\) differs from logits by"),
    "other layer": ((np.ones((4, 7)), B), InvalidArray, r"head weight has shape \(4, 7\)"),
    "bias forgotten": ((W, 0 * B), InvalidInput, "differs from logits"),
    "short bias": ((W, B[:2]), LengthMismatch, r"head bias has shape \(2,\): expected one number a class"),
    "NaN": ((W * np.nan, B), InvalidInput, "differs from logits by nan"),
    "weight alone": (W, InvalidInput, r"head is a ndarray: expected \(weight, bias\)"),
    "one entry": ((W,), InvalidInput, "expected .weight, bias."),
    "objects": ((W.astype(object), B), InvalidArray, "head weight holds object"),
}


@pytest.mark.parametrize(("head", "error", "message"), HEADS.values(), ids=HEADS.keys())
def test_a_head_that_is_not_the_models_is_refused(head, error, message):
    with pytest.raises(error, match=message) as caught:
        Pool.from_arrays(Z, HEADED, head=head)
    assert type(caught.value) is error


def test_a_square_transposed_head_is_refused_by_what_it_computes():
    square = W[:3]
    with pytest.raises(InvalidInput, match="differs from logits"):
        Pool.from_arrays(Z, Z @ square.T, head=(square.T, np.zeros(3)))


def test_a_head_without_logits_is_refused():
    with pytest.raises(InvalidInput, match="head was passed without logits"):
        Pool.from_arrays(Z, confidence=C, predicted=P, head=(W, B))


def test_a_head_is_checked_on_the_rows_that_are_kept():
    pool = Pool.from_arrays(changed(Z, (2, 0), np.nan), HEADED, head=(W, B), on_bad="drop")
    np.testing.assert_array_equal(pool.head.weight, W)


ROWS = {
    "beyond": ([20], "UnknownItem", "rows holds 20.*its 20 items are 0 to 19"),
    "negative": ([-1], "UnknownItem", "rows holds -1"),
    "floats": ([1.0], "InvalidArray", "rows holds float64"),
    "none": ([], "InvalidArray", "rows is empty"),
    "none by mask": (np.zeros(20, bool), "InvalidArray", "rows is empty"),
    "short mask": ([True, False], "LengthMismatch", "rows has 2 entries for 20"),
    "twice": ([3, 4, 3], "DuplicateIds", "rows holds a position twice"),
}


@pytest.mark.parametrize(("rows", "error", "message"), ROWS.values(), ids=ROWS.keys())
def test_rows_that_the_pool_does_not_have_are_refused(rows, error, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        CASE.pool.take(rows)
    assert type(caught.value).__name__ == error


def test_an_unknown_id_is_refused_by_name():
    with pytest.raises(InvalidInput, match="no item has the id 'x'"):
        CASE.pool.positions(["0", "x"])
