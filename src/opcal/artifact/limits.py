"""What is refused before it is taken apart, so that a stranger's file costs neither seconds nor memory.

A manifest of nested brackets takes 27 times its size in memory, a header of arrays of no size 25 times, a directory of
200,000 members half a second: each is bounded by its size. Whole artefacts stay far below: a manifest of 30 clusters
has 20 kB.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import BinaryIO

LARGEST = 2**30
"""A file of more bytes is refused before it is read; a thousand classes and a thousand labels make 40 MB."""
MANIFEST, ARRAYS, SIGNATURE = "manifest.json", "model.safetensors", "signature.json"
MOST = {MANIFEST: 2_000_000, SIGNATURE: 10_000, "header of its arrays": 1_000_000}
"""Bytes."""
DIRECTORY_BYTES = 1_000
COMMENT = len("sha256:") + 64
END = struct.Struct("<4s4H2LH")
"""Of the zip: its mark, disks, members (twice), the directory's size and place, the comment's length."""
LONG_FORM = b"PK\x06\x07"
"""Begins the 20 bytes before `END` where a zip says its sizes elsewhere; opcal's never do."""


def check_end(file: BinaryIO, size: int) -> None:
    """The last bytes are those of a zip as opcal packs it; raises `ValueError` and reads nothing else."""
    back = 20 + END.size + COMMENT
    if size < back:
        raise ValueError("it is too short")
    file.seek(-back, 2)
    tail = file.read(back)
    mark, _, _, here, members, directory, place, comment = END.unpack_from(tail, 20)
    if mark != b"PK\x05\x06" or comment != COMMENT or not tail[-COMMENT:].startswith(b"sha256:"):
        raise ValueError("it is no zip of opcal's or was packed anew")
    if tail.startswith(LONG_FORM) or not here == members <= 3 or directory > DIRECTORY_BYTES:
        raise ValueError("its list of members is not one that opcal writes")
    if place + directory != size - END.size - COMMENT:
        raise ValueError("its list of members is not where it ends")
    file.seek(0)


def check_sizes(sizes: Mapping[str, int], begins: bytes) -> None:
    """Of the members, and of the arrays' header, whose length is what they begin with."""
    (header,) = struct.unpack("<Q", begins)
    for name, size in (*sizes.items(), ("header of its arrays", header)):
        if size > (most := MOST.get(name, LARGEST)):
            raise ValueError(f"{name} has {size:,} bytes, at most {most:,} are read")
