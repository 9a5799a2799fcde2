"""Is it good enough, and what may be promised? Accuracy, quality of the confidence, certificates, several models."""

from opcal.assess.accuracy import Accuracy, accuracy
from opcal.assess.certify import Certificate, certify
from opcal.assess.groups import Group
from opcal.assess.region import Region, region

__all__ = ["Accuracy", "Certificate", "Group", "Region", "accuracy", "certify", "region"]
