"""A calibrator for any ONNX runtime, in any language."""

from opcal.artifact.onnx.export import export_onnx, join

__all__ = ["export_onnx", "join"]
