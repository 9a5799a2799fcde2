"""The tables as they are now; `migrations.py` makes them."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, MetaData, Table, Text

metadata = MetaData()

meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

event = Table(
    "event",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("annotator", Text),
    Column("item", Text),
    Column("position", Integer),
    Column("label", Integer),
    Column("data", Text, nullable=False),
)
Index("event_item", event.c.item)

ledger = Table(
    "ledger",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Integer, nullable=False),
    Column("elapsed", Float, nullable=False),
    Column("wall", Float, nullable=False),
)
"""One row. Whoever writes locks it first, so that the order of `seq` is the order of the commits."""

lease = Table(
    "lease",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("annotator", Text, nullable=False),
    Column("until", Float, nullable=False),
)
"""The primary key is what keeps two annotators from one item."""

clock = Table("clock", metadata, Column("boot", Text, primary_key=True), Column("ahead", Float, nullable=False))
"""For each start of a machine: the session's time minus the machine's."""

note = Table("note", metadata, Column("seq", Integer, primary_key=True, autoincrement=False), Column("text", Text))
"""Remarks of annotators. Apart from the log, for they may tell of a patient and then must be erased (`forget`)."""
