"""The pool: what the model said about each item, and the one door where arrays are checked."""

from opcal.pool.pool import Pool

__all__ = ["Pool"]
