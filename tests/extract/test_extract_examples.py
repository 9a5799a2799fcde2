"""Every example of extraction runs as it is and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAVY = {"extract_pytorch_images.py": "torch", "extract_huggingface_text.py": "transformers", "extract_onnx.py": "onnx"}
LIGHT = ["extract_sklearn.py", "extract_any_framework.py"]


@pytest.mark.parametrize("name", [*LIGHT, *(pytest.param(n, marks=pytest.mark.extract) for n in HEAVY)])
def test_an_example_runs_and_prints_the_representation_that_it_promises(name):
    if name in HEAVY:
        pytest.importorskip(HEAVY[name])
    file = EXAMPLES / name
    found = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    promised = re.search(r"print\(found\.representation\)  # (.*)", file.read_text(encoding="utf-8")).group(1)
    assert promised in found.stdout


def test_no_example_of_extraction_is_left_out():
    assert sorted(f.name for f in EXAMPLES.glob("extract_*.py")) == sorted([*LIGHT, *HEAVY])
