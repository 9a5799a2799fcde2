"""The worked example: export, serve, drift, watch, relabel, re-export, reload."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "production_loop.py"


def test_the_loop_closes(tmp_path):
    spec = importlib.util.spec_from_file_location("production_loop", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found = example.main(tmp_path)
    assert found["before"][1] < found["before"][0]
    assert found["after"][1] < found["after"][0]
    assert found["alarm"]
    assert not found["quiet"]
    assert [r["labelled"] for r in found["rounds"]] == [40, 20]
