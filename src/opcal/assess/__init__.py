"""Is it good enough, and what may be promised? Accuracy, quality of the confidence, certificates, several models."""

from opcal.assess.accuracy import Accuracy, accuracy
from opcal.assess.certify import Certificate, certify
from opcal.assess.draw import planned, stratified_draw
from opcal.assess.groups import Group
from opcal.assess.models import Comparison, compare, disagreements
from opcal.assess.quality import Quality, quality
from opcal.assess.region import Region, region

__all__ = [
    "Accuracy",
    "Certificate",
    "Comparison",
    "Group",
    "Quality",
    "Region",
    "accuracy",
    "certify",
    "compare",
    "disagreements",
    "planned",
    "quality",
    "region",
    "stratified_draw",
]
