"""What the answer book takes, and that a refusal changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from opcal import OUTSIDE, Pool
from opcal.answers import AnswerBook
from opcal.core.method import WRONG
from opcal.errors import ConflictingAnswer, InvalidArray, InvalidInput, LengthMismatch, UnknownItem, UnknownLabel

CLASSES = ("cat", "dog", "owl")


def make_pool(classes=CLASSES):
    """Item i is predicted to be i % 3."""
    return Pool.from_arrays(
        np.arange(9.0)[:, None], 5 * np.eye(3)[np.arange(9) % 3], classes=classes, ids=list("abcdefghi")
    )


@pytest.fixture
def book():
    return AnswerBook(make_pool())


def told(book):
    return dict(zip(book.answers.positions.tolist(), book.answers.labels.tolist(), strict=True))


def add(book, positions, labels=None, correct=None, audit=None):
    return book.add(positions, labels, correct, audit)


def state(book):
    return [a.tolist() for a in (book.answers.positions, book.answers.labels, book.answers.correct, book.drawn)]


def test_answers_stand_in_the_order_told(book):
    add(book, [5, 2], [0, 1])
    add(book, [8, 0], [2, 2])
    assert book.answers.positions.tolist() == [5, 2, 8, 0]
    assert book.answers.labels.tolist() == [0, 1, 2, 2]
    assert book.answers.correct.tolist() == [False, False, True, False]


def test_the_same_answer_twice_is_no_second_answer(book):
    add(book, [5, 2, 5], [0, 1, 0])
    before = state(book)
    add(book, [2, 5], [1, 0])
    assert state(book) == before


def test_right_is_the_same_answer_as_the_predicted_class(book):
    add(book, [4, 5], correct=[True, False])
    add(book, [4], labels=["dog"])
    assert told(book) == {4: 1, 5: WRONG}


def test_wrong_is_refined_by_a_class_without_losing_its_turn(book):
    add(book, [4, 7], correct=[False, False])
    add(book, [7, 4], labels=[OUTSIDE, "owl"])
    assert list(told(book).items()) == [(4, 2), (7, OUTSIDE)]


def test_wrong_after_another_class_adds_nothing(book):
    add(book, [4, 7], labels=["owl", OUTSIDE])
    add(book, [4, 7], correct=[False, False])
    assert told(book) == {4: 2, 7: OUTSIDE}


def test_wrong_may_be_refined_within_one_batch(book):
    book._put(4, WRONG, 1.0)
    add(book, [4, 4], labels=[2, 2])
    assert told(book) == {4: 2}


def test_outside_is_never_right(book):
    add(book, [0, 1, 2], labels=[OUTSIDE] * 3)
    assert not book.answers.correct.any()


@pytest.mark.parametrize(
    "labels",
    [
        ["dog", OUTSIDE, "cat"],
        [1, -1, 0],
        (1.0, -1.0, 0.0),
        np.array([1, -1, 0], dtype=np.int8),
        np.array(["dog", OUTSIDE, "cat"], dtype=object),
        ["dog", np.int64(-1), 0],
        np.array([1, -1, 0], dtype=object),
    ],
    ids=["names", "indices", "floats", "int8", "objects", "mixed", "whole objects"],
)
def test_classes_may_be_named_or_numbered(book, labels):
    add(book, [3, 4, 5], labels=labels)
    assert told(book) == {3: 1, 4: OUTSIDE, 5: 0}


@pytest.mark.parametrize("correct", [[True, False], [1, 0], np.array([1.0, 0.0]), (np.True_, np.False_)])
def test_right_or_wrong_may_be_booleans_or_ones_and_zeros(book, correct):
    add(book, [3, 4], correct=correct)
    assert book.answers.correct.tolist() == [True, False]


def test_one_position_needs_no_list(book):
    add(book, 3, labels="dog")
    add(book, np.int32(4), correct=True)
    assert told(book) == {3: 1, 4: 1}


@pytest.mark.parametrize("empty", [[], np.empty(0), np.empty(0, int), ()])
def test_an_empty_call_changes_nothing(book, empty):
    add(book, [3], labels=[1])
    before = state(book)
    add(book, empty, labels=empty)
    add(book, empty, correct=empty, audit=empty)
    assert state(book) == before


CONFLICTS = {
    "another class": (
        dict(labels=["owl"]),
        "position 4 .id 'e'. was told 'dog' .the prediction. before and is told 'owl'",
    ),
    "wrong": (dict(correct=[False]), """is told "wrong" now: nothing was changed; leave out"""),
    "outside": (dict(labels=[OUTSIDE]), 'is told "outside the classes" now'),
}


@pytest.mark.parametrize(("answer", "message"), CONFLICTS.values(), ids=CONFLICTS.keys())
def test_another_answer_for_the_same_item_is_a_conflict(book, answer, message):
    add(book, [4], labels=["dog"], audit=[True])
    before = state(book)
    with pytest.raises(ConflictingAnswer, match=message):
        add(book, [4], **answer, audit=[False])
    assert state(book) == before


def test_outside_and_a_class_contradict(book):
    add(book, [4], labels=[OUTSIDE])
    with pytest.raises(ConflictingAnswer, match=r"outside the classes.* before"):
        add(book, [4], labels=["owl"])


def test_wrong_and_right_contradict(book):
    add(book, [4], correct=[False])
    with pytest.raises(ConflictingAnswer, match="told \"wrong\" before and is told 'dog'"):
        add(book, [4], labels=["dog"])


def test_a_conflict_at_the_end_of_a_batch_loses_the_whole_batch(book):
    add(book, [8], labels=[0])
    before = state(book)
    with pytest.raises(ConflictingAnswer):
        add(book, [0, 1, 8], labels=[0, 1, 2], audit=[True] * 3)
    assert state(book) == before
    assert 0 not in book


def test_a_conflict_within_one_batch_loses_the_whole_batch(book):
    with pytest.raises(ConflictingAnswer, match="position 1 "):
        add(book, [0, 1, 2, 1], labels=[0, 1, 2, 2])
    assert len(book) == 0


REFUSALS = {
    "beyond": (dict(positions=[0, 9], labels=[0, 0]), UnknownItem, "positions holds 9.*its 9 items are 0 to 8"),
    "negative": (dict(positions=[-1], labels=[0]), UnknownItem, "positions holds -1"),
    "float positions": (dict(positions=[1.0], labels=[0]), InvalidArray, "positions holds float64.*whole numbers"),
    "mask as positions": (dict(positions=[True] * 9, labels=[0] * 9), InvalidArray, "positions holds bool"),
    "ids as positions": (dict(positions=["a"], labels=[0]), InvalidArray, r"for ids use pool\.positions\(ids\)"),
    "2-d positions": (dict(positions=[[0, 1]], labels=[0, 1]), InvalidArray, r"of shape \(1, 2\)"),
    "ragged positions": (dict(positions=[[0], [1, 2]], labels=[0, 1]), InvalidArray, "positions cannot be read"),
    "no positions": (dict(positions=None, labels=[0]), InvalidArray, "positions holds object"),
    "neither": (dict(positions=[0]), InvalidInput, "pass either labels=.* or correct="),
    "both": (dict(positions=[0], labels=[0], correct=[True]), InvalidInput, "pass either"),
    "few labels": (dict(positions=[0, 1], labels=[0]), LengthMismatch, "labels has 1 entries for 2 positions"),
    "one label for two": (dict(positions=[0, 1], labels=0), LengthMismatch, "labels has 1 entries"),
    "labels for none": (dict(positions=[], labels=[1]), LengthMismatch, "labels has 1 entries for 0 positions"),
    "few correct": (dict(positions=[0, 1], correct=[True]), LengthMismatch, "correct has 1 entries for 2 positions"),
    "few audit": (dict(positions=[0, 1], correct=[1, 1], audit=[True]), LengthMismatch, "audit has 1 entries for 2"),
    "unknown index": (
        dict(positions=[0, 1], labels=[0, 3]),
        UnknownLabel,
        r"labels\[1\] is 3: the model's classes are 0 to 2",
    ),
    "-2": (dict(positions=[0], labels=[WRONG]), UnknownLabel, r"labels\[0\] is -2.*pass opcal\.OUTSIDE"),
    "half": (dict(positions=[0], labels=[0.5]), UnknownLabel, r"labels\[0\] is 0.5: expected a whole"),
    "NaN": (dict(positions=[0], labels=[np.nan]), UnknownLabel, r"labels\[0\] is nan"),
    "inf": (dict(positions=[0], labels=[np.inf]), UnknownLabel, r"labels\[0\] is inf"),
    "wrapped unsigned": (dict(positions=[0], labels=np.array([2**64 - 1], np.uint64)), UnknownLabel, "is 18446744073"),
    "huge whole": (dict(positions=[0], labels=[2**80]), UnknownLabel, "labels"),
    "huge beside a name": (dict(positions=[0, 1], labels=["cat", 2**80]), UnknownLabel, r"labels\[1\]"),
    "unknown name": (dict(positions=[0], labels=["fox"]), UnknownLabel, r"labels\[0\] is 'fox', .* \(cat, dog, owl\)"),
    "None": (dict(positions=[0, 1], labels=["cat", None]), UnknownLabel, r"labels\[1\] is None"),
    "nested": (dict(positions=[0], labels=[["cat"]]), InvalidArray, r"labels has shape \(1, 1\)"),
    "complex": (dict(positions=[0], labels=[1j]), InvalidArray, "labels holds complex"),
    "booleans as labels": (dict(positions=[0, 1], labels=[True, False]), InvalidInput, "pass correct=.*astype"),
    "answers in words": (
        dict(positions=[0], correct=["yes"]),
        InvalidArray,
        "correct holds 'yes': expected True or False",
    ),
    "correct 2": (dict(positions=[0, 1], correct=[1, 2]), InvalidArray, "correct holds 2"),
    "correct NaN": (dict(positions=[0, 1], correct=[1, np.nan]), InvalidArray, "correct holds nan"),
    "correct None": (dict(positions=[0], correct=[None]), InvalidArray, "correct holds None"),
    "audit in words": (dict(positions=[0], labels=[0], audit=["no"]), InvalidArray, "audit holds 'no'"),
    "audit by position": (dict(positions=[0], labels=[0], audit=[7]), InvalidArray, "audit holds 7"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refused_call_names_its_fault_and_changes_nothing(book, call, error, message):
    add(book, [5, 8], labels=[0, 2], audit=[True, False])
    before = state(book)
    with pytest.raises(error, match=message) as caught:
        add(book, **call)
    assert type(caught.value) is error
    assert state(book) == before


def test_class_names_are_refused_where_the_pool_has_none():
    with pytest.raises(UnknownLabel, match=r"'cat' but the pool has no class names: pass classes="):
        add(AnswerBook(make_pool(classes=None)), [0], labels=["cat"])


def test_the_audit_mask_is_kept_and_can_be_told_later(book):
    add(book, [5, 2], labels=[0, 1], audit=[True, False])
    add(book, [2], labels=[1], audit=[True])
    assert np.flatnonzero(book.drawn).tolist() == [2, 5]


def test_answers_handed_out_before_never_change(book):
    add(book, [4, 5], correct=[False, True])
    first = book.answers
    before = first.labels.tolist()
    add(book, [4, *range(4)], labels=[2, 0, 0, 0, 0])
    assert first.labels.tolist() == before
    assert first.positions.tolist() == [4, 5]


def test_answers_cannot_be_changed_from_outside(book):
    add(book, [4], labels=[0])
    with pytest.raises(ValueError, match="read-only"):
        book.answers.labels[0] = 1


def test_thousands_of_answers_in_any_cut_stand_as_told():
    n = 3000
    pool = Pool.from_arrays(np.arange(n)[:, None], 5 * np.eye(3)[np.arange(n) % 3])
    rng = np.random.default_rng(0)
    order, labels = rng.permutation(n), rng.integers(-1, 3, n)
    book = AnswerBook(pool)
    for part in np.split(order, np.sort(rng.integers(0, n, 40))):
        add(book, part, labels=labels[part])
    np.testing.assert_array_equal(book.answers.positions, order)
    np.testing.assert_array_equal(book.answers.labels, labels[order])


@pytest.mark.parametrize("weight", [0, -0.5, 1.5, np.nan, [0.5, 0.0]])
def test_a_weight_that_is_no_share_of_an_answer_is_refused_and_nothing_changes(book, weight):
    with pytest.raises(InvalidInput, match="weight"):
        book.add([0, 1], [0, 1], None, None, weight)
    assert len(book) == 0


def test_weights_belong_to_positions_and_must_be_as_many(book):
    book.add([2, 0], [0, 0], None, None, [0.25, 1.0])
    book.add([1], [0], None, None)
    np.testing.assert_array_equal(book.answers.weight, [0.25, 1.0, 1.0])
    with pytest.raises(LengthMismatch, match="weight"):
        book.add([3, 4], [0, 0], None, None, [0.1, 0.2, 0.3])


def test_another_weight_for_the_same_answer_is_a_conflict(book):
    book.add([0], [0], None, None, 0.5)
    book.add([0], [0], None, None, 0.5)
    with pytest.raises(ConflictingAnswer, match=r"weight 0\.5"):
        book.add([0], [0], None, None, 1.0)
