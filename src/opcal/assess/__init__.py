"""Is it good enough, and what may be promised? Accuracy, quality of the confidence, certificates, several models."""

from opcal.assess.accuracy import Accuracy, accuracy
from opcal.assess.groups import Group

__all__ = ["Accuracy", "Group", "accuracy"]
