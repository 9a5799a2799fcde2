"""An ONNX model: the input of its last dense layer is found in the graph and made a second output.

    python examples/extract_onnx.py

needs `pip install "opcal[onnx]"`. A small graph is written here: name the file of your own.
The same from the command line: opcal extract model.onnx inputs.npy --out pool
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from opcal.extract import extract


def small_graph() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    shapes = {"W1": (8, 16), "B1": (16,), "W2": (16, 3), "B2": (3,)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "W1", "B1"], ["hidden"], name="first"),
        helper.make_node("Relu", ["hidden"], ["z"]),
        helper.make_node("Gemm", ["z", "W2", "B2"], ["logits"], name="last"),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),  # the logits are taken before it
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    y = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 3])
    return helper.make_model(
        helper.make_graph(nodes, "small", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(small_graph(), folder / "model.onnx")
        np.save(folder / "inputs.npy", np.random.default_rng(1).standard_normal((200, 8)).astype(np.float32))

        found = extract(folder / "model.onnx", folder / "inputs.npy", out=folder / "pool")
        print(found.representation)  # the input of last (Gemm), 16 numbers
        print(found.pool, "head known:", found.pool.head is not None)


if __name__ == "__main__":
    main()
