"""A calibrator as a file: what is needed to score, vouched for, and no pickle."""

from opcal.artifact.artifact import Artifact, load
from opcal.artifact.saving import save

__all__ = ["Artifact", "load", "save"]
