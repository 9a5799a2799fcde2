"""The pass itself: functions, arrays, images, iterables; resuming, refusing, skipping."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from extract_cases import WEIGHT, differing, image_folder, network, pixels, rows
from PIL import Image

import opcal
from opcal import errors
from opcal.extract import extract
from opcal.extract.store import work_folder


def test_features_and_logits_are_what_the_function_returns(tmp_path):
    x = rows(103)
    found = extract(network, x, out=tmp_path / "pool", batch_size=10, head=(WEIGHT, np.zeros(3)))
    np.testing.assert_array_equal(found.pool.features, x[:, :4])
    np.testing.assert_allclose(found.pool.logits, x[:, :4] @ WEIGHT.T, atol=1e-6)
    np.testing.assert_array_equal(found.pool.head.weight, WEIGHT)
    assert (found.items, found.n_skipped) == (103, 0)
    assert opcal.Pool.open(tmp_path / "pool").model["representation"] == "what network returns, 4 numbers"


def test_the_pool_equals_one_made_from_the_arrays(tmp_path):
    x = rows(57)
    found = extract(network, x, out=tmp_path / "pool", ids=[f"scan {i}" for i in range(57)], payload=["p"] * 57)
    made = opcal.Pool.from_arrays(*network(x), ids=[f"scan {i}" for i in range(57)], payload=["p"] * 57)
    made.save(tmp_path / "made")
    assert found.pool.ids == made.ids
    assert found.pool.payload == made.payload
    np.testing.assert_array_equal(found.pool.predicted, made.predicted)
    np.testing.assert_array_equal(found.pool.confidence, made.confidence)
    assert (tmp_path / "pool/features.npy").read_bytes() == (tmp_path / "made/features.npy").read_bytes()


@pytest.mark.parametrize(
    "make", [lambda x: x, list, iter, lambda x: (row for row in x)], ids=["array", "list", "iter", "gen"]
)
@pytest.mark.parametrize("workers", [0, 3])
def test_every_kind_of_data_gives_the_same_rows_in_the_same_order(tmp_path, make, workers):
    x = rows(41)
    found = extract(network, make(x), out=tmp_path / "pool", batch_size=7, workers=workers)
    np.testing.assert_array_equal(found.pool.features, x[:, :4])


def test_limit_takes_the_first_items(tmp_path):
    for data in (rows(41), iter(rows(41))):
        assert extract(network, data, out=tmp_path / "pool", batch_size=7, limit=17).items == 17


class Stop(Exception):
    pass


def stopping_at(batch):
    calls = []

    def function(values):
        calls.append(len(values))
        if len(calls) == batch + 1:  # one call is for the probe
            raise Stop
        return network(values)

    function.__name__ = "network"
    return function


@pytest.mark.parametrize("data", [rows, lambda n: iter(rows(n))], ids=["array", "iterator"])
def test_a_stopped_run_is_resumed_to_the_same_bytes(tmp_path, data):
    extract(network, data(100), out=tmp_path / "whole", batch_size=8, ids=None)
    with pytest.raises(Stop):
        extract(stopping_at(6), data(100), out=tmp_path / "pool", batch_size=8)
    assert not (tmp_path / "pool").exists()
    found = extract(network, data(100), out=tmp_path / "pool", batch_size=8, resume=True)
    assert found.resumed_at == 40
    assert differing(tmp_path / "whole", tmp_path / "pool") == []
    assert not work_folder(tmp_path / "pool").exists()


def test_a_stop_in_the_middle_of_writing_a_batch_leaves_whole_batches(tmp_path, monkeypatch):
    from opcal.extract import store

    plain, calls = store.Store._append_array, []

    def stops(self, name, values):
        plain(self, name, values)
        calls.append(name)
        if calls == ["pool/features.npy", "pool/logits.npy"] * 4 + ["pool/features.npy"]:
            raise KeyboardInterrupt  # features are written, logits are not

    monkeypatch.setattr(store.Store, "_append_array", stops)
    with pytest.raises(KeyboardInterrupt):
        extract(network, rows(), out=tmp_path / "pool", batch_size=8)
    assert extract(network, rows(), out=tmp_path / "pool", batch_size=8, resume=True).resumed_at == 32
    extract(network, rows(), out=tmp_path / "whole", batch_size=8)
    assert differing(tmp_path / "whole", tmp_path / "pool") == []


def test_a_model_whose_width_changes_on_the_way_is_told(tmp_path):
    calls = []

    def function(batch):
        calls.append(1)
        z, h = network(batch)
        return (z if len(calls) < 4 else z[:, :3]), h

    with pytest.raises(errors.ModelError, match="rows of 4 and then of 3 numbers"):
        extract(function, rows(), out=tmp_path / "pool", batch_size=8)


def test_what_an_earlier_run_left_is_never_thrown_away_unasked(tmp_path):
    with pytest.raises(Stop):
        extract(stopping_at(6), rows(), out=tmp_path / "pool", batch_size=8)
    with pytest.raises(errors.PoolError, match="go on with --resume"):
        extract(network, rows(), out=tmp_path / "pool", batch_size=8)
    with pytest.raises(errors.PoolError, match="batch_size 8, now it is 16"):
        extract(network, rows(), out=tmp_path / "pool", batch_size=16, resume=True)
    assert extract(network, rows(), out=tmp_path / "pool", batch_size=16, restart=True).resumed_at == 0


def test_resuming_what_is_finished_does_nothing_and_another_extraction_is_told(tmp_path):
    extract(network, rows(), out=tmp_path / "pool")
    before = (tmp_path / "pool/features.npy").stat().st_mtime_ns
    assert extract(network, rows(), out=tmp_path / "pool", resume=True).items == 100
    assert (tmp_path / "pool/features.npy").stat().st_mtime_ns == before
    with pytest.raises(errors.PoolError, match="of another model, data or options"):
        extract(network, rows(90), out=tmp_path / "pool", resume=True)


def test_data_that_changed_since_are_noticed(tmp_path):
    folder = image_folder(tmp_path / "images", n=40)
    with pytest.raises(Stop):
        extract(stopping_images(3), folder, out=tmp_path / "pool", batch_size=8, workers=0)
    (folder / "00.png").rename(folder / "00b.png")
    with pytest.raises(errors.DataError, match="changed"):
        extract(pixels, folder, out=tmp_path / "pool", batch_size=8, resume=True)


def stopping_images(batch):
    inner = stopping_at(batch)

    def function(images):
        inner(np.zeros((len(images), 6)))
        return pixels(images)

    function.__name__ = "pixels"
    return function


KILLED = """
import sys, time
sys.path.insert(0, {here!r})
from extract_cases import {model}, rows
from opcal.extract import extract
x = rows(4000, 40)
def items():
    for i, row in enumerate(x):
        if i % 20 == 0:
            time.sleep(0.004)
        yield row
extract({model}{call}, items(), out={out!r}, batch_size=20, resume=True, commit_seconds=0.02)
"""


@pytest.mark.parametrize("model", ["network", pytest.param("torch_module", marks=pytest.mark.extract)])
def test_killed_at_random_moments_the_pool_is_byte_identical_and_never_opens_incomplete(tmp_path, model):
    kills, wanted = 0, int(os.environ.get("OPCAL_KILLS", "5"))
    assert run_for(model, tmp_path / "whole", 300)
    moments, trial, resumed = random.Random(0), 0, 0
    while kills < wanted:
        out, longer = tmp_path / f"pool{(trial := trial + 1)}", 1.0
        while not run_for(model, out, longer * moments.uniform(0.4, 3.0)):
            kills, longer = kills + 1, longer * 1.1  # on a busy machine even the start may take seconds
            resumed += work_folder(out).exists()
            assert not out.exists() or len(opcal.Pool.open(out)) == 4000
        assert differing(tmp_path / "whole", out) == []
    assert resumed > 0  # some kill came while it was writing


def run_for(model: str, out: Path, seconds: float) -> bool:
    """Whether the extraction ended well before it was killed."""
    call = "" if model == "network" else "()"
    code = KILLED.format(here=str(Path(__file__).parent), out=str(out), model=model, call=call)
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    try:
        _, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False
    assert process.returncode == 0, told.decode()
    return True


def test_a_full_disk_is_told_and_what_was_written_is_kept(tmp_path):
    code = (
        "import sys, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000));"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r});"
        "from extract_cases import network, rows; from opcal.extract import extract;"
        f"extract(network, rows(8000), out={str(tmp_path / 'pool')!r}, batch_size=100, commit_seconds=0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ExtractionStopped" in found.stderr
    assert "items are kept: make room, then go on with --resume" in found.stderr
    assert not (tmp_path / "pool").exists()
    done = extract(network, rows(8000), out=tmp_path / "pool", batch_size=100, resume=True)
    assert 3000 <= done.resumed_at < 8000
    extract(network, rows(8000), out=tmp_path / "whole", batch_size=100)
    assert differing(tmp_path / "whole", tmp_path / "pool") == []


def test_two_extractions_into_one_place_do_not_mix(tmp_path):
    seen = []

    def inner(batch):
        if len(seen) < 3:
            seen.append(1)
        elif len(seen) == 3:
            seen.append(1)
            with pytest.raises(errors.PoolError, match="another process"):
                extract(network, rows(), out=tmp_path / "pool", restart=True)
        return network(batch)

    extract(inner, rows(), out=tmp_path / "pool", batch_size=8)
    assert len(seen) == 4


def test_what_is_no_pool_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(errors.PoolError, match="is no pool"):
        extract(network, rows(), out=tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter1.txt").exists()


def test_broken_images_are_refused_by_name_or_skipped_and_listed(tmp_path):
    folder = image_folder(tmp_path / "images", n=9, broken=[4])
    with pytest.raises(errors.DataError, match=r"04\.png: the image cannot be read.*--on-bad skip"):
        extract(pixels, folder, out=tmp_path / "pool", batch_size=2)
    assert not (tmp_path / "pool").exists()
    found = extract(pixels, folder, out=tmp_path / "pool", batch_size=2, on_bad="skip", restart=True)
    assert found.pool.ids == [f"{i:02d}.png" for i in range(9) if i != 4]
    assert [item.id for item in found.skipped] == ["04.png"]
    assert found.pool.payload[0] == str((folder / "00.png").resolve())


def test_images_are_turned_upright_by_their_exif_orientation(tmp_path):
    (tmp_path / "images").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.new("RGB", (30, 20)).save(tmp_path / "images" / "a.jpg", exif=exif)
    seen = []

    def function(images):
        seen.append(images.shape)
        return pixels(images)

    extract(function, tmp_path / "images", out=tmp_path / "pool")
    assert set(seen) == {(1, 3, 30, 20)}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused_or_skipped(tmp_path, value):
    x = rows(30)
    x[17, 2] = value
    with pytest.raises(errors.InvalidArray, match=r"item 17: .*NaN or inf.*--on-bad skip"):
        extract(network, x, out=tmp_path / "pool", batch_size=8)
    found = extract(network, x, out=tmp_path / "pool", batch_size=8, on_bad="skip", restart=True)
    assert found.items == 29
    assert found.pool.ids[16:18] == ["16", "18"]


@pytest.mark.parametrize(
    ("function", "error", "told"),
    [
        (lambda b: network(b)[0], errors.ModelError, "expected a pair"),
        (lambda b: (network(b)[0], network(b)[1][:, 0]), errors.ModelError, "two dimensions"),
        (lambda b: (network(b)[0], network(b)[1][:, :1]), errors.ModelError, "two classes or more"),
        (lambda b: (network(b)[0][:-1], network(b)[1]), errors.LengthMismatch, "one row for each"),
        (lambda b: (network(b)[0], np.full((len(b), 2), 0.5)), errors.ProbabilitiesAsLogits, "before the softmax"),
    ],
)
def test_a_function_that_returns_something_else_is_told_so(tmp_path, function, error, told):
    with pytest.raises(error, match=told):
        extract(function, rows(), out=tmp_path / "pool")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"limit": 0}, "limit"),
        ({"on_bad": "ignore"}, "on_bad"),
        ({"engine": "spark"}, "engine"),
        ({"workers": -1}, "workers"),
        ({"precision": "int8"}, "precision"),
        ({"classes": ["a", "b"]}, "2 class names were given or found, but the model's head has 3 outputs"),
        ({"head": (np.ones((3, 4)), np.zeros(3))}, "differs from logits"),
        ({"ids": ["a"]}, "ids has 1 entries but"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name_before_anything_is_written(tmp_path, options, told):
    with pytest.raises(errors.OpcalError, match=told):
        extract(network, rows(), out=tmp_path / "pool", **options)
    assert list(tmp_path.iterdir()) == []


def test_progress_tells_how_many_of_how_many(tmp_path):
    seen = []
    extract(network, rows(20), out=tmp_path / "pool", batch_size=8, progress=lambda *told: seen.append(told))
    assert seen == [(8, 20), (16, 20), (20, 20)]


def test_memory_does_not_grow_with_the_number_of_items(tmp_path):
    most = int(os.environ.get("OPCAL_ITEMS", "400000"))
    peaks = [peak(tmp_path, n) for n in (most // 10, most)]
    assert peaks[1] < 1.1 * peaks[0]


def peak(folder, n):
    code = (
        "import sys, json, resource, numpy as np;"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r});"
        "from extract_cases import network; from opcal.extract import extract;"
        f"x = np.broadcast_to(np.float32(1) * np.arange(12, dtype='f4'), ({n}, 12));"
        f"extract(network, x, out={str(folder / f'p{n}')!r}, batch_size=256, ids=range({n}));"
        "print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    ("file", "package", "extra"),
    [("m.onnx", "onnxruntime", "onnx"), ("m.skops", "skops", "skops"), ("m", "torch", "torch")],
)
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, file, package, extra):
    if file == "m":
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "config.json").write_text("{}")
    else:
        (tmp_path / file).write_bytes(b"")
    for name in [n for n in sys.modules if n == package or n.startswith((f"{package}.", "opcal.extract.models."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.MissingDependency, match=rf"needs .*pip install 'opcal\[{extra}\]'"):
        extract(tmp_path / file, rows(), out=tmp_path / "pool")


def test_extraction_of_arrays_imports_neither_torch_nor_ray():
    code = (
        "import sys, opcal.extract; print(sorted({'torch', 'ray', 'onnxruntime', 'transformers'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
