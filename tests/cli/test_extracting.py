"""`opcal extract`, typed as a stranger would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import opcal
from opcal.cli import main

MODEL = """
import numpy as np
W = np.arange(12).reshape(3, 4) % 5 - 1.0

def network(batch):
    z = np.asarray(batch, dtype=np.float32).reshape(len(batch), -1)[:, :4]
    return z, z @ W.T

def make():
    return network

def with_preprocessing():
    return network, lambda image: np.asarray(image.convert("L").resize((4, 4)), dtype=np.float32).ravel() / 255

def grey(image):
    return np.asarray(image.convert("L").resize((4, 4)), dtype=np.float32).ravel() / 255

def failing():
    return {}["weights"]

NOT_CALLABLE = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    Path("broken.py").write_text("import no_such")
    np.save("x.npy", np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32))
    Path("photos").mkdir()
    for i in range(4):
        Image.fromarray(np.full((9 + i, 8, 3), 40 * i, dtype=np.uint8)).save(f"photos/{i}.jpg")
    Path("photos/broken.jpg").write_bytes(b"oops")
    return tmp_path


def run(line: str):
    return CliRunner().invoke(main, line.split())


@pytest.mark.parametrize("factory", ["network", "make"])
def test_a_function_or_a_factory_of_one_makes_a_pool(here, factory):
    found = run(f"extract model.py:{factory} x.npy --out pool --classes ant,bee,cat")
    assert found.exit_code == 0, found.output
    assert "pool: 50 items, 4 features, 3 classes" in found.stdout
    assert f"representation: what {'network' if factory == 'network' else 'model.py:make'} returns" in found.stdout
    assert opcal.Pool.open("pool").classes == ("ant", "bee", "cat")


def test_json_describes_the_pool_and_nothing_else_is_on_stdout(here):
    found = run("extract model.py:network x.npy --out pool --json")
    told = json.loads(found.stdout)
    assert (told["items"], told["features"], told["classes"], told["skipped"]) == (50, 4, 3, 0)


def test_broken_images_are_told_with_the_way_out(here):
    found = run("extract model.py:with_preprocessing photos --out pool")
    assert found.exit_code == 1
    assert "broken.jpg: the image cannot be read" in found.output
    assert "--on-bad skip" in found.output
    found = run("extract model.py:with_preprocessing photos --out pool --on-bad skip --restart")
    assert found.exit_code == 0, found.output
    assert "skipped broken.jpg" in found.stderr
    assert opcal.Pool.open("pool").ids == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]


def test_preprocess_names_a_function_of_ones_own(here):
    run("extract model.py:with_preprocessing photos --out one --on-bad skip")
    found = run("extract model.py:network photos --out two --on-bad skip --preprocess model.py:grey")
    assert found.exit_code == 0, found.output
    np.testing.assert_array_equal(opcal.Pool.open("one").features, opcal.Pool.open("two").features)


def test_class_names_come_from_a_file_too(here):
    Path("names.txt").write_text("ant\nbee\n\ncat\n")
    assert run("extract model.py:network x.npy --out pool --classes @names.txt").exit_code == 0
    assert opcal.Pool.open("pool").classes == ("ant", "bee", "cat")


def test_resume_of_what_is_done_says_the_same_again(here):
    first = run("extract model.py:network x.npy --out pool")
    assert run("extract model.py:network x.npy --out pool --resume").stdout == first.stdout


@pytest.mark.parametrize(
    ("line", "told", "code"),
    [
        ("model.py:netwrok x.npy", "has no 'netwrok': it has network, make", 1),
        ("model.py x.npy", "write model.py:NAME", 1),
        ("modle.py:make x.npy", "does not exist", 1),
        ("model.py:NOT_CALLABLE x.npy", "model is a int", 1),
        ("broken.py:make x.npy", "broken.py raises ModuleNotFoundError (No module named 'no_such'", 1),
        ("model.py:failing x.npy", "model.py:failing raises KeyError ('weights'): run it by itself", 1),
        ("model.pt x.npy", "does not exist: a model is file.py:factory", 1),
        ("model.py:make y.npy", "does not exist: name a folder of images, or a file", 1),
        ("model.py:make model.py", "is not known as field data", 1),
        ("model.py:make x.npy --classes a,b", "2 class names", 1),
        ("model.py:make x.npy --classes @none.txt", "none.txt", 1),
        ("model.py:make photos", "--size", 1),
        ("model.py:make x.npy --preprocess grey", "file.py:function", 1),
        ("model.py:make x.npy --batch-size 0", "whole number of at least 1", 2),
        ("model.py:make x.npy --batch-size many", "nor auto", 2),
        ("model.py:make x.npy --size big", "is no size", 2),
        ("model.py:make x.npy --mean a", "is no list of numbers", 2),
        ("model.py:make x.npy --limit 0", "limit", 2),
        ("model.py:make x.npy --precision int8", "precision", 2),
    ],
)
def test_mistakes_are_told_with_what_to_do_and_leave_nothing_behind(here, line, told, code):
    before = sorted(here.iterdir())
    found = run(f"extract {line} --out pool --on-bad skip")
    assert found.exit_code == code, found.output
    assert told in found.output
    assert [p for p in sorted(here.iterdir()) if p.name != "__pycache__"] == before


def test_a_missing_argument_is_wrong_usage():
    assert run("extract").exit_code == 2
    assert run("extract model.py:make x.npy").exit_code == 2


def test_help_shows_examples_without_importing_what_is_slow():
    found = run("extract --help")
    assert "opcal extract model.py:make photos/ --size 224 --out pool" in found.output
    code = "import sys, opcal.cli.extracting; print(sorted({'torch', 'pyarrow', 'PIL'} & set(sys.modules)))"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert listed.stdout.strip() == "[]"
