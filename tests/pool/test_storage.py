"""A stored pool: whole or not at all, and nothing lost on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import make_case

from opcal import Pool
from opcal.errors import InvalidInput, PoolError
from opcal.pool import storage

CASE = make_case(n=12, d=3, classes=4, seed=1)
W, B = np.random.default_rng(1).normal(size=(4, 3)), np.arange(4.0)
IDS = [
    "plain",
    "with space",
    "ünï",
    "日本語",
    "🫁🩻",
    "مرحبا",
    "\u00e9",
    "e\u0301",
    "x" * 1024,
    "a/b\\c",
    "",
    "\n\t'\"",
]
COLUMNS = {
    "age": [1, None, 3, *range(9)],
    "dose": [0.5, float("inf"), None, *map(float, range(9))],
    "note": [None, "", "żółć", *"abcdefghi"],
    "nothing": [None] * 12,
    "sure": [True, False] * 6,
}


def full_pool():
    return Pool.from_arrays(
        CASE.features,
        CASE.features @ W.T + B,
        ids=IDS,
        payload=[None, *(f"{i}.png" for i in range(11))],
        classes=["a", "b", "ç", "🫁"],
        head=(W, B),
        columns=COLUMNS,
        model={"name": "resnet", "hash": "ab12"},
    )


def small(value: float, n: int = 3):
    return Pool.from_arrays(np.full((n, 2), value), np.eye(n, 2) * 3, ids=[f"{value}/{i}" for i in range(n)])


def value_of(path):
    return float(Pool.open(path).features[0, 0])


def leftovers(folder, *expected):
    return sorted({file.name for file in folder.iterdir()} - set(expected))


def test_texts_columns_and_classes_come_back_as_they_were(tmp_path):
    again, pool = Pool.open(full_pool().save(tmp_path / "pool")), full_pool()
    assert again.ids == IDS
    assert again.payload == pool.payload
    assert again.columns == COLUMNS
    assert again.classes == ("a", "b", "ç", "🫁")
    assert again.model == {"name": "resnet", "hash": "ab12"}
    assert again.positions(["e\u0301", "🫁🩻"]).tolist() == [7, 4]


def test_numbers_come_back_in_float32_and_what_the_model_said_in_full(tmp_path):
    again, pool = Pool.open(full_pool().save(tmp_path / "pool")), full_pool()
    np.testing.assert_array_equal(again.features, pool.features.astype(np.float32))
    np.testing.assert_array_equal(again.logits, pool.logits.astype(np.float32))
    np.testing.assert_array_equal(again.head.weight, W.astype(np.float32))
    np.testing.assert_array_equal(again.head.bias, B)
    np.testing.assert_array_equal(again.confidence, pool.confidence)
    np.testing.assert_array_equal(again.predicted, pool.predicted)


def test_a_pool_without_logits_ids_and_extras_comes_back_without_them(tmp_path):
    pool = Pool.from_arrays(CASE.features, confidence=CASE.pool.confidence, predicted=CASE.pool.predicted)
    again = Pool.open(pool.save(tmp_path / "pool"))
    assert (again.logits, again.head, again.payload, again.classes, again.columns) == (None, None, None, None, {})
    assert again.ids == [str(i) for i in range(12)]
    np.testing.assert_array_equal(again.confidence, pool.confidence)


def test_a_taken_part_remembers_its_ids_when_stored(tmp_path):
    assert Pool.open(full_pool().take([11, 4]).save(tmp_path / "p")).ids == [IDS[11], IDS[4]]


def test_an_open_pool_is_memory_mapped_and_cannot_be_written_through(tmp_path):
    again = Pool.open(full_pool().save(tmp_path / "pool"))
    assert isinstance(again.features, np.memmap)
    assert isinstance(again.logits, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again.features[0, 0] = 1


def test_a_pool_in_a_read_only_folder_opens(tmp_path):
    path = small(1).save(tmp_path / "pool")
    path.chmod(0o500)
    tmp_path.chmod(0o500)
    try:
        assert value_of(path) == 1
    finally:
        tmp_path.chmod(0o700)
        path.chmod(0o700)


def test_opening_changes_no_file(tmp_path):
    path = full_pool().save(tmp_path / "pool")
    before = {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in path.iterdir()}
    Pool.open(path)
    assert before == {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in path.iterdir()}
    assert leftovers(tmp_path, "pool") == []


def test_saving_over_an_older_pool_replaces_it_whole(tmp_path):
    full_pool().save(tmp_path / "pool")
    pool = Pool.from_arrays(CASE.features, confidence=CASE.pool.confidence, predicted=CASE.pool.predicted)
    pool.save(tmp_path / "pool")
    assert leftovers(tmp_path / "pool") == ["features.npy", "items.parquet", "pool.json"]
    assert leftovers(tmp_path, "pool") == []


def test_an_open_pool_can_be_saved_over_itself_and_still_be_read(tmp_path):
    pool = Pool.open(small(1).save(tmp_path / "pool"))
    pool.take([2, 1]).save(tmp_path / "pool")
    assert pool.ids == ["1/0", "1/1", "1/2"]
    assert pool.features.tolist() == [[1, 1]] * 3
    assert Pool.open(tmp_path / "pool").ids == ["1/2", "1/1"]


def test_saving_through_a_link_replaces_the_folder_and_keeps_the_link(tmp_path):
    small(1).save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    small(2).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert value_of(tmp_path / "real") == 2
    assert leftovers(tmp_path, "real", "link") == []


def test_missing_parents_are_made_and_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "a" / "empty").mkdir(parents=True)
    small(1).save(tmp_path / "a" / "empty")
    small(2).save(tmp_path / "b" / "c")
    assert (value_of(tmp_path / "a" / "empty"), value_of(tmp_path / "b" / "c")) == (1, 2)


def make_file(path):
    path.write_text("mine")


def make_folder(path):
    path.mkdir()
    (path / "mine.txt").write_text("mine")


def make_foreign(path):
    path.mkdir()
    (path / "pool.json").write_text('{"swimming": true}')


def make_newer(path):
    small(1).save(path)
    about = json.loads((path / "pool.json").read_text())
    (path / "pool.json").write_text(json.dumps(about | {"schema": 99}))


def make_pool_with_notes(path):
    small(1).save(path)
    (path / "notes.txt").write_text("mine")


@pytest.mark.parametrize("make", [make_file, make_folder, make_foreign, make_newer, make_pool_with_notes])
def test_saving_over_what_is_no_pool_is_refused_and_touches_nothing(tmp_path, make):
    make(tmp_path / "x")
    before = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    with pytest.raises(PoolError, match="x"):
        small(2).save(tmp_path / "x")
    assert before == {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}


def test_a_column_of_mixed_kinds_is_refused_by_name_when_stored(tmp_path):
    pool = Pool.from_arrays(np.eye(2), np.eye(2) * 9, columns={"odd": [1, "a"]})
    with pytest.raises(InvalidInput, match=r"column 'odd' cannot be stored.*one kind"):
        pool.save(tmp_path / "pool")
    assert leftovers(tmp_path) == []


def test_an_id_that_is_no_valid_text_is_refused_by_name_when_stored(tmp_path):
    pool = Pool.from_arrays(np.eye(2), np.eye(2) * 9, ids=["ok", os.fsdecode(b"\xff.png")])
    with pytest.raises(InvalidInput, match="ids cannot be stored"):
        pool.save(tmp_path / "pool")
    assert leftovers(tmp_path) == []


def truncate(name):
    def damage(path):
        data = (path / name).read_bytes()
        (path / name).write_bytes(data[: len(data) // 2])

    return damage


def empty(name):
    return lambda path: (path / name).write_bytes(b"")


def remove(name):
    return lambda path: (path / name).unlink()


def garbage(name):
    return lambda path: (path / name).write_bytes(os.urandom(500))


def describe(**changes):
    def damage(path):
        about = json.loads((path / "pool.json").read_text())
        (path / "pool.json").write_text(json.dumps(about | changes))

    return damage


def item_columns(**changes):
    def damage(path):
        items = pq.read_table(path / "items.parquet")
        for name, values in changes.items():
            items = items.set_column(items.column_names.index(name), name, [values])
        pq.write_table(items, path / "items.parquet")

    return damage


FILES = ["pool.json", "items.parquet", "features.npy", "logits.npy", "head_weight.npy", "head_bias.npy"]
DAMAGE = {f"{how.__name__} {name}": how(name) for name in FILES for how in (truncate, empty, remove, garbage)} | {
    "a list": lambda path: (path / "pool.json").write_text("[]"),
    "no schema": lambda path: (path / "pool.json").write_text("{}"),
    "newer schema": describe(schema=2),
    "schema of another kind": describe(schema="two"),
    "other number of items": describe(items=11),
    "other number of features": describe(features=4),
    "features of another kind": describe(features="many"),
    "classes of another kind": describe(classes=7),
    "model of another kind": describe(model=3),
    "nested header": lambda path: (path / "features.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16),
    "confidence above 1": item_columns(confidence=[1.5] * 12),
    "confidence missing": item_columns(confidence=[None] * 12),
    "predicted -1": item_columns(predicted=[-1] * 12),
    "predicted beyond the classes": item_columns(predicted=[4] * 12),
    "swapped arrays": lambda path: shutil.copy(path / "logits.npy", path / "features.npy"),
    "float64": lambda path: np.save(path / "features.npy", np.zeros((12, 3))),
    "pickle": lambda path: np.save(path / "features.npy", np.zeros((12, 3), object), allow_pickle=True),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_broken_pool_is_named_as_such_when_opened(tmp_path, damage):
    path = full_pool().save(tmp_path / "pool")
    damage(path)
    with pytest.raises(PoolError, match=r"pool (has|is)"):
        Pool.open(path)


@pytest.mark.parametrize("make", [lambda path: None, make_file, make_folder, make_foreign, Path.mkdir])
def test_what_is_no_pool_is_named_as_such_when_opened(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(PoolError, match=r"x (is no pool|does not exist)"):
        Pool.open(tmp_path / "x")


@pytest.mark.parametrize("step", range(4))
def test_a_full_disk_leaves_the_old_pool_and_nothing_else(tmp_path, monkeypatch, step):
    small(1).save(tmp_path / "pool")
    write, calls = storage._write_array, iter(range(99))

    def failing(path, values):
        write(path, values)
        if next(calls) == step:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "_write_array", failing)
    with pytest.raises(OSError, match="No space"):
        full_pool().save(tmp_path / "pool")
    assert value_of(tmp_path / "pool") == 1
    assert leftovers(tmp_path, "pool") == []


@pytest.mark.parametrize("nth", [1, 2])
def test_a_rename_that_fails_leaves_the_old_pool_in_its_place(tmp_path, monkeypatch, nth):
    small(1).save(tmp_path / "pool")
    rename, calls = Path.rename, iter(range(1, 99))

    def failing(self, target):
        if next(calls) == nth:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        small(2).save(tmp_path / "pool")
    assert leftovers(tmp_path) == ["pool"]
    assert value_of(tmp_path / "pool") == 1


def crash_between_the_renames(tmp_path):
    small(1).save(tmp_path / "pool")
    (tmp_path / "pool").rename(tmp_path / ".pool.previous")


def test_the_old_pool_opens_after_a_crash_between_the_renames(tmp_path):
    crash_between_the_renames(tmp_path)
    assert value_of(tmp_path / "pool") == 1


def test_saving_after_a_crash_between_the_renames_leaves_the_new_pool_alone(tmp_path):
    crash_between_the_renames(tmp_path)
    small(2).save(tmp_path / "pool")
    assert value_of(tmp_path / "pool") == 2
    assert leftovers(tmp_path, "pool") == []


def test_a_saving_that_fails_after_such_a_crash_still_leaves_the_old_pool(tmp_path, monkeypatch):
    crash_between_the_renames(tmp_path)
    monkeypatch.setattr(storage, "_write_array", lambda path, values: path.touch() or Path("/no/such").stat())
    with pytest.raises(OSError, match="such"):
        small(2).save(tmp_path / "pool")
    assert value_of(tmp_path / "pool") == 1


def test_a_saving_that_lives_is_not_swept_away_by_another(tmp_path, monkeypatch):
    write, others = storage._write_array, iter([2.0])

    def interrupted(path, values):
        for value in others:
            small(value).save(tmp_path / "pool")
        write(path, values)

    monkeypatch.setattr(storage, "_write_array", interrupted)
    small(1).save(tmp_path / "pool")
    assert value_of(tmp_path / "pool") == 1
    assert leftovers(tmp_path, "pool") == []


def test_files_of_two_pools_are_never_mixed_when_one_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    path = small(1).save(tmp_path / "pool")
    read, once = storage.read_items, iter([1])

    def replaced_meanwhile(file):
        items = read(file)
        for _ in once:
            small(2).save(path)
        return items

    monkeypatch.setattr(storage, "read_items", replaced_meanwhile)
    pool = Pool.open(path)
    assert (pool.ids[0], pool.features[0, 0]) == ("2/0", 2)


def test_a_pool_that_is_between_its_renames_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    path, aside = small(1).save(tmp_path / "pool"), tmp_path / ".pool.previous"
    read, calls = pq.read_table, iter(range(9))

    def moved_meanwhile(file):
        items = read(file)
        if next(calls) == 0:
            path.rename(aside)
        return items

    monkeypatch.setattr(storage.pq, "read_table", moved_meanwhile)
    assert Pool.open(path).ids == ["1/0", "1/1", "1/2"]


ENDLESS = """
import sys, numpy as np
from opcal import Pool
def pool(n):
    return Pool.from_arrays(np.full((n, 40), float(n)), np.eye(n, 3) * 3, ids=[f"{n}/{i}" for i in range(n)])
pools = [pool(900), pool(901)]
print("ready", flush=True)
while True:
    for pool in pools:
        pool.save(sys.argv[1])
"""


def test_a_saving_killed_at_any_moment_leaves_one_whole_pool_and_no_pile_of_leftovers(tmp_path):
    path, moments = tmp_path / "pool", random.Random(0)
    small(900, n=900).save(path)
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", ENDLESS, path], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(moments.uniform(0, 0.12))
            process.send_signal(signal.SIGKILL)
        pool = Pool.open(path)
        n = len(pool)
        assert pool.ids == [f"{n}/{i}" for i in range(n)]
        assert (pool.features == n).all()
        assert len(leftovers(tmp_path, "pool")) <= 2
    small(1).save(path)
    assert leftovers(tmp_path, "pool") == []
