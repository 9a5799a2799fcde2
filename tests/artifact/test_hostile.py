"""Broken and hostile files: each is refused by name, within a second and 100 MB, and nothing is imported for it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from artifact.test_artifact import METHODS, fitted

from opcal.artifact import container, limits
from opcal.errors import ArtifactError

SECONDS, MEGABYTES = 1.0, 100
FRUGAL = {"PYTHONMALLOC": "malloc", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""What is freed goes back, so that one file's memory is not counted as there for the next."""
pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are measured in /proc")


class Loader:
    """Another process, asked file by file; the worst cost is kept."""

    def __init__(self, first):
        command = [sys.executable, str(Path(__file__).parent / "loader.py"), str(first)]
        environment = os.environ | FRUGAL | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, env=environment, **pipes)
        self.worst = {"seconds": 0.0, "megabytes": 0.0}

    def __call__(self, path, name="", within=MEGABYTES):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert told["imported"] == [], name
        assert told["seconds"] <= SECONDS, (name, told)
        assert told["megabytes"] <= within, (name, told)
        self.worst = {key: max(value, told[key]) for key, value in self.worst.items()}
        return told["found"]

    def close(self):
        with self.process:
            self.process.stdin.close()
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return {name: fitted(method).save(folder / f"{name}.opcal") for name, method in METHODS.items()}


@pytest.fixture
def loader(saved):
    made = Loader(saved["auto"])
    try:
        assert [made(path) for path in saved.values()] == ["loaded"] * len(saved)
        yield made
    finally:
        made.close()
    print(f"worst: {made.worst['seconds']:.3f} s, {made.worst['megabytes']:.1f} MB")


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed, kind = bytearray(data), rng.randrange(5)
    at = rng.randrange(len(data))
    if kind == 0:
        changed[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del changed[at:]
    elif kind == 2:
        del changed[at : at + rng.randrange(1, 64)]
    elif kind == 3:
        changed[at:at] = rng.randbytes(rng.randrange(1, 64))
    else:
        changed[at : at + 8] = b"\xff" * 8
    return bytes(changed)


@pytest.mark.parametrize("times", [500, pytest.param(10_000, marks=pytest.mark.crash)])
def test_mutated_files_are_all_refused_and_cheap(times, saved, loader, tmp_path):
    """Of every method in turn."""
    rng, file = random.Random(0), tmp_path / "y.opcal"
    contents = [path.read_bytes() for path in saved.values()]
    for k in range(times):
        data = contents[k % len(contents)]
        if (other := mutated(data, rng)) != data:
            file.write_bytes(other)
            assert loader(file, k) == "refused"


def described(saved, rng):
    """A manifest of a stranger who knows the hashes: numbers and shapes of any size in it."""
    contents = container.read(saved[rng.choice(list(saved))])
    text, arrays = json.dumps(contents.manifest), dict(contents.arrays)
    k, d = rng.choice([4, 10**3, 10**6, 10**9]), rng.choice([6, 10**3, 10**6, 10**9])
    manifest = json.loads(text.replace('"classes": 4', f'"classes": {k}').replace('"features": 6', f'"features": {d}'))
    if rng.random() < 0.5:
        manifest["fence"] = None
    swap = {4: min(k, 10**6), 6: min(d, 10**6)} if rng.random() < 0.7 else {4: 0, 6: 10**6}
    for name, array in arrays.items():
        shape = tuple(swap.get(size, size if rng.random() < 0.8 else 0) for size in array.shape)
        if rng.random() < 0.7 and np.prod(shape, dtype=float) * array.itemsize < 2e6:
            arrays[name] = np.ones(shape, array.dtype)
    return manifest, arrays


@pytest.mark.parametrize("times", [100, pytest.param(1000, marks=pytest.mark.crash)])
def test_descriptions_of_huge_shapes_are_refused_or_small(times, saved, loader, tmp_path):
    rng, found = random.Random(2), set()
    for k in range(times):
        container.write(tmp_path / "y.opcal", *described(saved, rng))
        found.add(loader(tmp_path / "y.opcal", k))
    assert "refused" in found
    assert found <= {"refused", "loaded"}


def packed(path, saved, manifest=None, arrays=None, signature=None):
    """Written with every hash made anew, past what `container.write` refuses."""
    members = container._members(saved["temperature"])
    if arrays is not None:
        members[container.ARRAYS] = arrays
    told = json.loads(members[container.MANIFEST])
    told["arrays_sha256"] = hashlib.sha256(members[container.ARRAYS]).hexdigest()
    members[container.MANIFEST] = json.dumps(told).encode() if manifest is None else manifest
    if signature is not None:
        members[container.SIGNATURE] = signature
    path.write_bytes(container._packed(members).getvalue())


def header(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def arrays_of(shapes) -> bytes:
    entries = {f"a{i}": {"dtype": "F64", "shape": s, "data_offsets": [0, 0]} for i, s in enumerate(shapes)}
    return header(json.dumps(entries).encode())


def nested(part: bytes, size: int) -> bytes:
    return b'{"format": "opcal", "x": [' + part * (size // len(part)) + b"0]}"


BOMBS = {
    **{f"manifest of {n:,} bytes of {p!r}": {"manifest": nested(p, n)} for p in (b"[],", b"{},", b"[[[0]]],", b"0,")
       for n in (limits.MOST[limits.MANIFEST] - 50, 16_000_000)},
    "brackets": {"manifest": b"[" * 10**6},
    "objects": {"manifest": b'{"a":' * 300_000},
    "a number of a million digits": {"manifest": b'{"format": "opcal", "version": ' + b"9" * 10**6 + b"}"},
    "signature of brackets": {"signature": b"[" + b"[]," * 4_000_000 + b"0]"},
    **{f"array {s}": {"arrays": arrays_of([s])} for s in ([10**12], [0, 10**12], [10**18] * 2, [2**63], [-1])},
    "10,000 arrays": {"arrays": arrays_of([[0]] * 10_000)},
    "a million arrays": {"arrays": arrays_of([[0]] * 10**6)},
    "header of 90 MB": {"arrays": header(b" " * 90_000_000 + b"{}")},
    "header longer than its file": {"arrays": struct.pack("<Q", 2**62) + b"{}"},
    "no header": {"arrays": b""},
}  # fmt: skip


def test_bombs_that_fit_their_hashes_are_refused_before_they_go_off(saved, loader, tmp_path):
    for name, made in BOMBS.items():
        packed(tmp_path / "y.opcal", saved, **made)
        assert loader(tmp_path / "y.opcal", name) == "refused", name


def zipped(path, members, kind=zipfile.ZIP_DEFLATED, comment=b"sha256:" + b"0" * 64):
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in members:
            archive.writestr(name, data)
        archive.comment = comment


def test_zip_bombs_and_large_files_of_another_kind_are_refused_before_they_are_read(saved, loader, tmp_path):
    zeros, file = b"\0" * 300_000_000, tmp_path / "y.opcal"
    zipped(file, [("manifest.json", b"{}"), ("model.safetensors", zeros)])
    assert loader(file, "deflated zeros") == "refused"
    zipped(file, [("manifest.json", zeros), ("model.safetensors", b"")])
    assert loader(file, "deflated manifest") == "refused"
    data = bytearray(saved["temperature"].read_bytes())
    for at in [i for i in range(len(data)) if data[i : i + 4] == b"PK\1\2"]:  # sizes in the list of members
        data[at + 20 : at + 28] = struct.pack("<2L", 2**32 - 2, 2**32 - 2)
    file.write_bytes(data)
    assert loader(file, "declared sizes") == "refused"
    zipped(file, [(f"member{i}", b"") for i in range(60_000)])
    assert loader(file, "60,000 members") == "refused"
    with file.open("wb") as large:
        large.truncate(limits.LARGEST - 1)
    assert loader(file, "a gigabyte of nothing") == "refused"
    with file.open("r+b") as large:  # its end is that of an artefact
        large.seek(-1000, 2)
        large.write(saved["temperature"].read_bytes()[-1000:])
    assert loader(file, "a gigabyte before an artefact") == "refused"


def test_the_list_of_members_in_long_form_is_refused(saved, tmp_path):
    data = saved["temperature"].read_bytes()
    end = len(data) - limits.END.size - limits.COMMENT
    long = data[:end] + limits.LONG_FORM + struct.pack("<LQL", 0, 0, 1) + data[end:]
    (tmp_path / "y.opcal").write_bytes(long)
    with pytest.raises(ArtifactError, match="list of members"):
        container.read(tmp_path / "y.opcal")


def test_what_could_not_be_read_again_is_not_written(saved, tmp_path):
    contents = container.read(saved["paper"])
    names = [f"class {i} " + "x" * 200 for i in range(10_000)]
    with pytest.raises(ArtifactError, match="shorter class names"):
        container.write(tmp_path / "y.opcal", contents.manifest | {"classes": names}, contents.arrays)
    assert not list(tmp_path.iterdir())


def test_a_large_artefact_takes_twice_its_size(saved, loader, tmp_path):
    contents = container.read(saved["paper"])
    for megabytes in (10, 30):
        rows = np.zeros((megabytes * 10**6 // 48, 6))
        container.write(tmp_path / "y.opcal", contents.manifest, contents.arrays | {"more": rows})
        assert loader(tmp_path / "y.opcal", megabytes, within=2.5 * megabytes) == "loaded"
