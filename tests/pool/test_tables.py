"""Pools from tables: which column is what, whatever library made the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import make_case

from opcal import Pool
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch, UnknownLabel

CASE = make_case(n=15, d=12, classes=3, seed=2)
Z, H = CASE.features, CASE.logits
IDS = [f"scan {i}" for i in range(15)]
AGES = [None, *range(14)]


def wide(shuffle=False):
    """One column a number, z_10 before z_2 as a text sort would have them."""
    columns = {f"z_{j}": Z[:, j] for j in range(12)} | {f"logit_{j}": H[:, j] for j in range(3)}
    columns = dict(sorted(columns.items(), reverse=shuffle))
    return columns | {"id": IDS, "age": AGES}


def lists():
    return {"features": Z.tolist(), "logits": H.tolist(), "id": IDS, "age": AGES}


MAKERS = {
    "dict": lambda columns: columns,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pyarrow in chunks": lambda columns: pa.concat_tables([pa.table(columns).slice(0, 4), pa.table(columns).slice(4)]),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("columns", [wide, lists])
def test_every_library_gives_the_pool_of_the_arrays(make, columns):
    pool = Pool.from_table(make(columns()))
    np.testing.assert_array_equal(pool.features, Z)
    np.testing.assert_array_equal(pool.logits, H)
    assert pool.ids == IDS
    assert [None if age is None or np.isnan(age) else int(age) for age in pool.columns["age"]] == AGES


@pytest.mark.parametrize("shuffle", [False, True])
def test_patterns_are_taken_in_the_order_of_their_numbers(shuffle):
    pool = Pool.from_table(wide(shuffle), features="z_*", logits="logit_*")
    np.testing.assert_array_equal(pool.features, Z)


def test_named_columns_are_taken_in_the_order_named():
    pool = Pool.from_table(wide(), features=["z_3", "z_0"])
    np.testing.assert_array_equal(pool.features, Z[:, [3, 0]])
    assert pool.columns["z_10"] == Z[:, 10].tolist()


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 12)])
def test_every_kind_of_list_gives_the_same_matrix_also_when_sliced(kind):
    table = pa.table({"features": pa.array(Z.tolist(), kind), "logits": H.tolist()})
    np.testing.assert_array_equal(Pool.from_table(table.slice(3, 8)).features, Z[3:11])


def test_two_dimensional_arrays_in_a_mapping_are_columns_of_rows():
    np.testing.assert_array_equal(Pool.from_table({"features": Z, "logits": np.asfortranarray(H)}).features, Z)


def test_a_named_pandas_index_is_a_column_and_a_nameless_one_is_not():
    frame = pd.DataFrame(wide()).drop(columns="id")
    assert Pool.from_table(frame.set_index(pd.Index(IDS))).columns.keys() == {"age"}
    assert Pool.from_table(frame.set_index(pd.Index(IDS, name="scan")), ids="scan").ids == IDS


def test_confidence_and_predicted_are_used_where_there_are_no_logits():
    c, p = CASE.pool.confidence, CASE.pool.predicted
    pool = Pool.from_table(
        {"features": Z, "confidence": c, "predicted": [f"c{i}" for i in p]}, classes=["c0", "c1", "c2"]
    )
    np.testing.assert_array_equal(pool.confidence, c)
    np.testing.assert_array_equal(pool.predicted, p)


def test_logits_go_before_confidence_where_nothing_is_named():
    pool = Pool.from_table({"features": Z, "logits": H, "confidence": [0.5] * 15, "predicted": [0] * 15})
    np.testing.assert_array_equal(pool.confidence, CASE.pool.confidence)


def test_confidence_that_is_named_goes_before_logits_that_are_not():
    table = {"features": Z, "logits": H, "mine": [0.5] * 15, "predicted": [2] * 15}
    pool = Pool.from_table(table, confidence="mine")
    assert (pool.logits, set(pool.confidence), set(pool.predicted)) == (None, {0.5}, {2})


def with_(**changes):
    return {name: values for name, values in (lists() | changes).items() if values is not None}


TABLES = {
    "null in a column": (wide() | {"z_3": [None, *Z[1:, 3]]}, {}, InvalidArray, r"features\[0\] holds nan.*on_bad"),
    "null in a list": (with_(features=[*Z[:14].tolist(), [None] * 12]), {}, InvalidArray, r"features\[14\] holds nan"),
    "null for a list": (with_(features=[None, *Z[1:].tolist()]), {}, InvalidArray, "'features' holds no list in row 0"),
    "ragged lists": (
        with_(features=[*Z[:14].tolist(), [1.0, 2.0]]),
        {},
        InvalidArray,
        "'features' holds 12 values in row 0 and 2 in row 14",
    ),
    "empty lists": (with_(features=[[]] * 15), {}, InvalidArray, "'features' holds null"),
    "texts": (with_(features=["a"] * 15), {}, InvalidArray, "column 'features' holds .*string: expected numbers"),
    "lists of texts": (with_(features=[["a"]] * 15), {}, InvalidArray, "column 'features' holds string"),
    "lists of lists": (with_(features=[[[1.0]]] * 15), {}, InvalidArray, "column 'features' holds list"),
    "no rows": ({"features": [], "logits": []}, {}, InvalidArray, "'features' holds null|features has shape"),
    "no rows of lists": (pa.table(lists()).slice(0, 0), {}, InvalidArray, r"features has shape \(0, 0\)"),
    "no columns": ({}, {}, InvalidInput, "no feature columns among"),
    "other names": ({"x": [1.0], "h": [1.0]}, {}, InvalidInput, "no feature columns among 'x', 'h': name them"),
    "no logits": ({"features": Z}, {}, InvalidInput, "pass either logits="),
    "missing pattern": (lists(), {"features": "q_*"}, InvalidInput, r"features='q_\*' matches none of the columns"),
    "one missing of many": (wide(), {"features": ["z_0", "z_99"]}, InvalidInput, "features='z_99' matches none"),
    "missing ids": (lists(), {"ids": "scan"}, InvalidInput, "ids='scan' matches none"),
    "logits and confidence": (lists(), {"logits": "logits", "confidence": "age"}, InvalidInput, "pass either"),
    "null id": (with_(id=[None, *IDS[1:]]), {}, InvalidInput, r"ids\[0\] is None"),
    "columns of two lengths": (with_(age=[1]), {}, InvalidInput, "table cannot be read"),
    "mixed column": (with_(age=[1, *["a"] * 14]), {}, InvalidInput, "table cannot be read"),
    "unequal wide": ({"features": Z, "logits": H[:3]}, {}, InvalidInput, "table cannot be read"),
    "two of one name": (pa.table([[1.0], [2.0]], names=["z_0", "z_0"]), {}, InvalidInput, "two columns 'z_0': rename"),
    "two of one name in pandas": (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), {}, InvalidInput, "table cannot be"),
    "unknown class": (
        {"features": Z, "confidence": [0.5] * 15, "predicted": ["cat"] * 15},
        {"classes": ["a", "b"]},
        UnknownLabel,
        r"predicted\[0\] is 'cat', which is none of the model's classes \(a, b\)",
    ),
    "classes": (lists(), {"classes": ["a", "b"]}, LengthMismatch, "classes has 2 names but logits has 3"),
    "not a table": (Z, {}, InvalidInput, "table is a ndarray: expected a pandas, polars or pyarrow table"),
    "a path": ("pool.csv", {}, InvalidInput, "table is a str"),
}


@pytest.mark.parametrize(("table", "options", "error", "message"), TABLES.values(), ids=TABLES.keys())
def test_a_table_that_cannot_be_a_pool_is_refused_by_column(table, options, error, message):
    with pytest.raises(error, match=message) as caught:
        Pool.from_table(table, **options)
    assert type(caught.value) is error


def test_rows_with_nulls_can_be_dropped_and_the_others_keep_their_ids():
    pool = Pool.from_table(wide() | {"z_3": [None, *Z[1:, 3]]}, on_bad="drop")
    assert pool.ids == IDS[1:]
    assert pool.columns["age"] == AGES[1:]


def test_a_table_is_left_as_it_was():
    frame = pd.DataFrame(wide())
    before = frame.copy(deep=True)
    Pool.from_table(frame)
    pd.testing.assert_frame_equal(frame, before)
