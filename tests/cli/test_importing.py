"""`opcal import` from a file to a pool, or to a message and an exit code."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import make_case

from opcal import Pool
from opcal.cli import main

CASE = make_case(n=14, d=11, classes=3, seed=2)
Z, H = CASE.features, CASE.logits
TABLE = pa.table(
    {f"z_{j}": Z[:, j] for j in range(11)}
    | {f"logit_{j}": H[:, j] for j in range(3)}
    | {"scan": [f"{i:02}" for i in range(14)], "path": [f"{i}.png" for i in range(14)], "age": range(14)}
)


def run(*arguments):
    return CliRunner().invoke(main, ["import", *map(str, arguments)])


WRITERS = {
    "csv": pyarrow.csv.write_csv,
    "parquet": pq.write_table,
    "arrow": pyarrow.feather.write_feather,
    "feather": pyarrow.feather.write_feather,
    "npz": lambda table, path: np.savez(
        path, z=Z, h=H, scan=table["scan"].to_pylist(), path=table["path"].to_pylist(), age=np.arange(14)
    ),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_becomes_the_pool_of_the_arrays(tmp_path, suffix):
    WRITERS[suffix](TABLE, tmp_path / f"x.{suffix}")
    matrices = ("z", "h") if suffix == "npz" else ("z_*", "logit_*")
    options = ("--features", matrices[0], "--logits", matrices[1], "--ids", "scan", "--payload", "path")
    done = run(tmp_path / f"x.{suffix}", *options, "--classes", "a, b,c", "--out", tmp_path / "pool")
    assert (done.exit_code, "14 items, 11 features, 3 classes" in done.output) == (0, True), done.output
    pool = Pool.open(tmp_path / "pool")
    np.testing.assert_allclose(pool.features, Z, rtol=1e-6)
    np.testing.assert_allclose(pool.logits, H, rtol=1e-6)
    assert (pool.ids[3], pool.payload[3], pool.columns["age"][3], pool.classes) == ("03", "3.png", 3, ("a", "b", "c"))


def test_npy_files_become_a_pool_together(tmp_path):
    np.save(tmp_path / "z.npy", Z)
    np.save(tmp_path / "c.npy", CASE.pool.confidence)
    np.save(tmp_path / "p.npy", CASE.pool.predicted)
    done = run(
        tmp_path / "z.npy",
        "--confidence",
        tmp_path / "c.npy",
        "--predicted",
        tmp_path / "p.npy",
        "--out",
        tmp_path / "o",
    )
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(Pool.open(tmp_path / "o").confidence, CASE.pool.confidence)


def test_json_describes_the_pool_to_a_program(tmp_path):
    np.savez(tmp_path / "x.npz", features=Z, logits=H)
    found = json.loads(run(tmp_path / "x.npz", "--out", tmp_path / "pool", "--json").stdout)
    assert found.pop("mean_confidence") == pytest.approx(CASE.pool.confidence.mean())
    assert found == {"pool": str(tmp_path / "pool"), "items": 14, "features": 11, "classes": 3}


def test_bad_rows_are_dropped_when_asked(tmp_path):
    z = Z.copy()
    z[3] = np.nan
    np.savez(tmp_path / "x.npz", features=z, logits=H)
    refused = run(tmp_path / "x.npz", "--out", tmp_path / "pool")
    assert refused.exit_code == 1
    assert "features[3] holds nan" in refused.stderr
    assert run(tmp_path / "x.npz", "--out", tmp_path / "pool", "--on-bad", "drop").exit_code == 0
    assert "3" not in Pool.open(tmp_path / "pool").ids


BROKEN = {
    "pickle.npz": lambda path: np.savez(path, features=Z.astype(object)),
    "pickle.npy": lambda path: np.save(path, Z.astype(object)),
    "odd.npz": lambda path: np.savez(path, x=Z),
    "probabilities.npz": lambda path: np.savez(path, features=Z, logits=np.full((14, 4), 0.25)),
    "ids.npz": lambda path: np.savez(path, features=Z, logits=H, ids=["same"] * 14),
    "garbage.npz": lambda path: path.write_bytes(b"\x00\x01garbage" * 9),
    "garbage.npy": lambda path: path.write_bytes(b"\x00\x01garbage" * 9),
    "garbage.parquet": lambda path: path.write_bytes(b"\x00\x01garbage" * 9),
    "garbage.arrow": lambda path: path.write_bytes(b"\x00\x01garbage" * 9),
    "garbage.csv": lambda path: path.write_bytes(b"\x00\x01garbage" * 9),
    "empty.csv": lambda path: path.touch(),
    "unknown.xlsx": lambda path: path.touch(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_a_pool_is_told_in_one_line_and_exit_code_1(tmp_path, name):
    BROKEN[name](tmp_path / name)
    done = run(tmp_path / name, "--out", tmp_path / "pool")
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 1
    assert done.stderr.startswith("opcal: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "pool").exists()


def test_an_output_that_is_no_pool_is_left_alone(tmp_path):
    np.savez(tmp_path / "x.npz", features=Z, logits=H)
    done = run(tmp_path / "x.npz", "--out", tmp_path)
    assert done.exit_code == 1
    assert "exists and is no pool" in done.stderr


USAGE = {
    "no output": ["x.npy"],
    "missing file": ["missing.npz", "--out", "pool"],
    "folder": [".", "--out", "pool"],
    "unknown option": ["x.npy", "--out", "pool", "--colour", "red"],
    "unknown choice": ["x.npy", "--out", "pool", "--on-bad", "ignore"],
    "columns of npy": ["x.npy", "--out", "pool", "--ids", "scan"],
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE.keys())
def test_wrong_usage_is_exit_code_2_and_writes_nothing(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", Z)
    done = run(*arguments)
    assert done.exit_code == 2
    assert "Usage: " in done.stderr
    assert not (tmp_path / "pool").exists()


def test_help_shows_an_example():
    done = run("--help")
    assert done.exit_code == 0
    assert "Example:  opcal import" in done.output
