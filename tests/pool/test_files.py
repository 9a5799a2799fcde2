"""Pools from files of every kind, and files that are something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from conftest import make_case

from opcal import Pool
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch, PoolError, UnknownOption

CASE = make_case(n=15, d=11, classes=3, seed=2)
Z, H = CASE.features, CASE.logits
W = np.random.default_rng(0).normal(size=(3, 11))
B = np.array([0.5, -1, 2])
IDS = [f"{i:03}" for i in range(15)]
TABLE = pa.table(
    {f"z_{j}": Z[:, j] for j in range(11)} | {f"logit_{j}": H[:, j] for j in range(3)} | {"id": IDS, "n": range(15)}
)


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


WRITERS = {
    "x.csv": pyarrow.csv.write_csv,
    "x.CSV": pyarrow.csv.write_csv,
    "x.parquet": pq.write_table,
    "x.feather": pyarrow.feather.write_feather,
    "x.arrow": pyarrow.feather.write_feather,
    "stream.arrow": write_stream,
    "x.npz": lambda table, path: np.savez(path, features=Z, logits=H, ids=IDS, n=np.arange(15)),
    "small.npz": lambda table, path: np.savez_compressed(path, z=Z, h=H, id=IDS, n=np.arange(15)),
}


@pytest.mark.parametrize(("name", "write"), WRITERS.items(), ids=WRITERS.keys())
def test_every_format_gives_the_pool_of_the_arrays(tmp_path, name, write):
    write(TABLE, tmp_path / name)
    named = {"features": "z", "logits": "h"} if name == "small.npz" else {}
    pool = Pool.from_file(str(tmp_path / name), **named)
    np.testing.assert_allclose(pool.features, Z, rtol=1e-15)
    np.testing.assert_allclose(pool.logits, H, rtol=1e-15)
    assert pool.ids == IDS
    assert pool.columns == {"n": list(range(15))}


def test_ids_of_a_csv_file_keep_their_leading_zeros_under_any_name(tmp_path):
    (tmp_path / "x.csv").write_text("z_0,scan,predicted,confidence\n1,007,0,.5\n2,7,1,.75\n")
    pool = Pool.from_file(tmp_path / "x.csv", ids="scan")
    assert pool.ids == ["007", "7"]
    assert pool.confidence.tolist() == [0.5, 0.75]


def test_npy_files_go_together(tmp_path):
    np.save(tmp_path / "z.npy", Z)
    np.save(tmp_path / "h.npy", H)
    pool = Pool.from_file(tmp_path / "z.npy", logits=tmp_path / "h.npy", ids=IDS)
    np.testing.assert_array_equal(pool.logits, H)
    assert isinstance(pool.features, np.memmap)


def test_an_npz_file_with_a_head_and_no_logits_gets_them_from_it(tmp_path):
    np.savez(tmp_path / "x.npz", features=Z, head_weight=W, head_bias=B, classes=["a", "b", "c"], payload=IDS)
    pool = Pool.from_file(tmp_path / "x.npz")
    np.testing.assert_allclose(pool.logits, Z @ W.T + B, rtol=1e-12)
    assert (pool.classes, pool.payload) == (("a", "b", "c"), IDS)
    np.testing.assert_array_equal(pool.head.weight, W)


def test_classes_that_are_passed_go_before_those_of_the_file(tmp_path):
    np.savez(tmp_path / "x.npz", features=Z, logits=H, classes=["a", "b", "c"])
    assert Pool.from_file(tmp_path / "x.npz", classes=["x", "y", "z"]).classes == ("x", "y", "z")


def test_labels_in_an_npz_file_are_kept_as_a_column_and_not_used(tmp_path):
    np.savez(tmp_path / "x.npz", features=Z, logits=H, labels=CASE.labels)
    pool = Pool.from_file(tmp_path / "x.npz")
    assert pool.columns["labels"] == CASE.labels.tolist()
    np.testing.assert_array_equal(pool.predicted, H.argmax(1))


ARCHIVES = {
    "pickled objects": (dict(features=Z.astype(object), logits=H), {}, PoolError, "never unpickles"),
    "no features": (dict(x=Z, logits=H), {}, InvalidInput, "holds 'x', 'logits' but no array named features"),
    "asked for another": (
        dict(features=Z, logits=H),
        {"features": "q"},
        InvalidInput,
        "features='q' is none of the arrays",
    ),
    "text features": (dict(features=Z.astype(str), head_weight=W, head_bias=B), {}, InvalidArray, "features holds <U"),
    "a number": (dict(features=np.array(3.0), logits=H), {}, InvalidArray, r"features has shape \(\)"),
    "another head": (
        dict(features=Z, logits=H, head_weight=W, head_bias=B),
        {},
        InvalidInput,
        "head.features. differs",
    ),
    "transposed head": (dict(features=Z, head_weight=W.T, head_bias=B), {}, InvalidArray, "transpose it"),
    "head without bias": (dict(features=Z, head_weight=W), {}, InvalidInput, "pass either logits="),
    "short ids": (dict(features=Z, logits=H, ids=IDS[1:]), {}, LengthMismatch, "ids has 14 entries"),
    "one id": (dict(features=Z, logits=H, ids=np.array("a")), {}, InvalidArray, r"ids has shape \(\)"),
    "complex": (dict(features=Z * 1j, logits=H), {}, InvalidArray, "features holds complex128"),
    "inf through the head": (
        dict(features=np.where(np.eye(15, 11, -2) > 0, np.inf, Z), head_weight=W, head_bias=B),
        {},
        InvalidArray,
        r"features\[2\] holds inf",
    ),
}


@pytest.mark.parametrize(("arrays", "options", "error", "message"), ARCHIVES.values(), ids=ARCHIVES.keys())
def test_an_npz_file_that_cannot_be_a_pool_is_refused_by_name(tmp_path, arrays, options, error, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(error, match=message) as caught:
        Pool.from_file(tmp_path / "x.npz", **options)
    assert type(caught.value) is error


@pytest.mark.parametrize("content", ["garbage", "empty", "half", "flipped", "of another kind", "PK"])
@pytest.mark.parametrize("suffix", ["npz", "npy", "parquet", "arrow", "feather"])
def test_a_broken_file_is_named_as_such(tmp_path, suffix, content):
    whole = {f.split(".")[1]: (f, w) for f, w in WRITERS.items()} | {"npy": ("x.npy", lambda t, p: np.save(p, Z))}
    name, write = whole[suffix]
    write(TABLE, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    noise = np.random.default_rng(0).bytes(400)
    contents = {
        "garbage": noise,
        "empty": b"",
        "half": data[: len(data) // 2],
        "flipped": noise[:20] + data[20:-20] + noise[:20],
        "of another kind": b"id,z_0,z_1\n1,2,3\n",
        "PK": b"PK\x03\x04" + noise,
    }
    broken = tmp_path / f"broken.{suffix}"
    broken.write_bytes(contents[content])
    with pytest.raises(PoolError, match=rf"broken.{suffix} cannot be read as .{suffix}"):
        Pool.from_file(broken)


@pytest.mark.parametrize("content", [b"", b"z_0,logit_0\n1\n1,2,3\n", b"z_0\n\xff\xfe\n" * 3 + b'"'])
def test_a_broken_csv_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises((PoolError, InvalidInput), match=r"x\.csv cannot be read|column 'z_0' holds"):
        Pool.from_file(tmp_path / "x.csv")


@pytest.mark.parametrize(
    "content", ["z_0,größe,logit_0\n1,2,3\n", "z_0,note,logit_0\n1,größe,3\n"], ids=["name", "value"]
)
def test_a_csv_file_in_latin_1_is_refused_or_kept_without_a_traceback(tmp_path, content):
    (tmp_path / "x.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises((PoolError, InvalidArray), match=r"x\.csv cannot be read|logits has one column"):
        Pool.from_file(tmp_path / "x.csv")


def test_a_pickle_in_an_npy_file_is_refused_and_not_run(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(PoolError, match="never unpickles"):
        Pool.from_file(tmp_path / "x.npy", logits=H)


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.parquet", "x.csv", "x.xyz", "x"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(PoolError, match=f"{name} does not exist"):
        Pool.from_file(tmp_path / name)


def test_a_folder_named_as_a_file_is_refused(tmp_path):
    (tmp_path / "x.npz").mkdir()
    with pytest.raises(PoolError, match=r"x.npz cannot be read"):
        Pool.from_file(tmp_path / "x.npz")


def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path):
    (tmp_path / "x.xlsx").touch()
    with pytest.raises(UnknownOption, match=r"x.xlsx: cannot read .xlsx; known are .npz, .npy, .parquet"):
        Pool.from_file(tmp_path / "x.xlsx")


def test_a_pool_folder_is_pointed_to_open(tmp_path):
    CASE.pool.save(tmp_path / "pool")
    with pytest.raises(UnknownOption, match=r"open it with Pool\.open"):
        Pool.from_file(tmp_path / "pool")
