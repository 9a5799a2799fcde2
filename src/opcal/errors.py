"""Every refusal of opcal, drawn as one tree.

OpcalError
├── InvalidInput (also a ValueError)    what you passed cannot be used; nothing was changed
│   ├── InvalidArray                    NaN, inf, wrong shape, wrong dtype, out of range, empty
│   │   ├── LengthMismatch              arrays that should go together do not
│   │   └── ProbabilitiesAsLogits       rows that sum to 1 were passed as logits
│   ├── DuplicateIds                    two items carry the same id
│   ├── UnknownLabel                    a label that the model does not know and that was not declared outside
│   ├── UnknownItem                     a position or an id that the pool does not have
│   ├── UnknownOption                   a setting or a value of a setting that does not exist
│   ├── NotYours                        an answer of somebody else: only they can take it back
│   ├── IncompatiblePool                a pool of another model
│   ├── ModelError                      a model cannot be loaded, or its representation cannot be found
│   ├── DataError                       field data cannot be read: a broken image, a missing column
│   ├── InvalidCosts                    costs that cannot be used, with the place in the file
│   ├── NotEnoughLabels                 a question that these labels cannot answer at all
│   └── BadLines                        lines of a file of answers are wrong; the message lists them by number
├── ConflictingAnswer (also a ValueError)   an item was told twice with different answers
├── NotBegun (also a ValueError and an AttributeError)    the calibrator has seen no pool yet ("not fitted")
├── PoolError (also an OSError)         a stored pool is missing, broken or of an unknown version
│   └── ExtractionStopped               an extraction could not go on; what it had written is kept
├── SessionError (also an OSError)      a labelling session is missing, broken, busy or of an unknown version
│   └── StorageFull                     no space left: nothing was taken, all that was acknowledged is there
├── ClusterError (also a RuntimeError)  workers on other machines failed; the message says why
├── ArtifactError (also a ValueError)   a stored calibrator is missing, broken or of an unknown version
└── MissingDependency (also an ImportError)   an optional package is not installed; the message says which extra
"""

from __future__ import annotations


class OpcalError(Exception):
    """The root of all errors that opcal raises on purpose."""


class InvalidInput(OpcalError, ValueError):
    """What was passed cannot be used; nothing was changed."""


class InvalidArray(InvalidInput):
    """An array has the wrong shape, dtype, range or content."""


class LengthMismatch(InvalidArray):
    """Arrays that should go together have different lengths."""


class ProbabilitiesAsLogits(InvalidArray):
    """Rows that lie in [0, 1] and sum to 1 were passed as logits."""


class DuplicateIds(InvalidInput):
    """Two items carry the same id."""


class UnknownLabel(InvalidInput):
    """A label that is not among the model's classes and was not declared `opcal.OUTSIDE`."""


class UnknownItem(InvalidInput):
    """A position or an id that the pool does not have."""


class UnknownOption(InvalidInput):
    """A setting, or a value of a setting, that does not exist."""


class NotYours(InvalidInput):
    """An answer of another annotator: only they can take it back."""


class IncompatiblePool(InvalidInput):
    """A pool of another model: other number of features or classes."""


class ModelError(InvalidInput):
    """A model cannot be loaded, or its representation cannot be found."""


class DataError(InvalidInput):
    """Field data cannot be read."""


class InvalidCosts(InvalidInput):
    """Costs that cannot be used; the message names the place."""


class NotEnoughLabels(InvalidInput):
    """A question that these labels cannot answer at all, not even with a wide interval."""


class BadLines(InvalidInput):
    """Lines of a file of answers are wrong; nothing of it was taken. `problems` lists (line number, what is wrong)."""

    def __init__(self, message: str, problems: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.problems = problems


class ConflictingAnswer(OpcalError, ValueError):
    """An item was told twice with different answers."""


class NotBegun(OpcalError, ValueError, AttributeError):
    """The calibrator has seen no pool yet."""


class PoolError(OpcalError, OSError):
    """A stored pool is missing, broken or of an unknown version."""


class ExtractionStopped(PoolError):
    """An extraction could not go on; what it had written is kept, and it can be resumed."""


class ClusterError(OpcalError, RuntimeError):
    """Workers of a cluster failed."""


class SessionError(OpcalError, OSError):
    """A labelling session is missing, broken, busy, or of an unknown version."""


class StorageFull(SessionError):
    """No space is left for the session: what was to be written was not, everything acknowledged before is there."""


class ArtifactError(OpcalError, ValueError):
    """A stored calibrator is missing, broken or of an unknown version."""


class MissingDependency(OpcalError, ImportError):
    """An optional package is not installed."""
