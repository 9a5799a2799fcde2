"""The file itself: a zip of manifest.json and model.safetensors, every byte of it vouched for.

Members are stored, never compressed, so that nothing can be larger than the file. The archive's comment is the SHA-256
of all members, and a file is read only where writing the same members anew gives the same bytes: one flipped bit
anywhere is an `ArtifactError`. signature.json, where it is there, holds an Ed25519 signature of the manifest, and the
manifest holds the SHA-256 of the arrays.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from opcal.artifact import limits, signing
from opcal.artifact.writing import replace_file
from opcal.errors import ArtifactError

MANIFEST, ARRAYS, SIGNATURE = limits.MANIFEST, limits.ARRAYS, limits.SIGNATURE
PIECE = 2**20
DTYPES = {"float64", "float32", "int64", "bool"}
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Contents:
    manifest: dict[str, Any]
    arrays: Arrays
    digest: str
    """SHA-256 of the manifest, which holds that of the arrays: the artefact's name for logs and metrics."""
    signer: str | None = None
    """Public key, hex, of the signature; checked where `cryptography` is installed or a key was asked for."""


def write(path: Path, manifest: dict[str, Any], arrays: Arrays, key: signing.PrivateKey | None = None) -> None:
    from safetensors.numpy import save

    stored = save({name: np.ascontiguousarray(a) for name, a in arrays.items()})
    told = manifest | {"arrays_sha256": hashlib.sha256(stored).hexdigest()}
    text = json.dumps(told, indent=1, sort_keys=True, allow_nan=False).encode()
    members = {MANIFEST: text, ARRAYS: stored}
    if key is not None:
        members[SIGNATURE] = signing.sign(text, key)
    try:
        limits.check_sizes({name: len(data) for name, data in members.items()}, stored[:8])
    except ValueError as error:
        raise ArtifactError(f"{path} could not be read again ({error}): use shorter class names") from None
    replace_file(path, _packed(members).getvalue())


def read(path: Path, trusted: str | Path | None = None) -> Contents:
    """What the file holds, or an `ArtifactError`; `trusted` is the public key that must have signed it."""
    try:
        members = _members(path)
        manifest = json.loads(members[MANIFEST])
        if not isinstance(manifest, dict) or manifest.get("format") != "opcal":
            raise ValueError("its manifest is not opcal's")
        if manifest.get("arrays_sha256") != hashlib.sha256(members[ARRAYS]).hexdigest():
            raise ValueError("its arrays are not those that the manifest names")
        arrays = _arrays(members[ARRAYS])
    except ArtifactError:
        raise
    except Exception as error:  # broken bytes break their readers in every way
        raise ArtifactError(f"{path} is no artefact or is broken ({_said(error)}): export it again") from error
    signer = signing.verify(path, members[MANIFEST], members.get(SIGNATURE), trusted)
    return Contents(manifest, arrays, hashlib.sha256(members[MANIFEST]).hexdigest(), signer)


def _said(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _members(path: Path) -> dict[str, bytes]:
    """Looked at from its end, then at the sizes of its members, and only then read: it takes twice its size."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size > (most := limits.LARGEST):
                raise ArtifactError(f"{path} has {size:,} bytes, an artefact has at most {most:,}: is it another file?")
            limits.check_end(file, size)
            with zipfile.ZipFile(file) as archive:
                members = _unpacked(archive, size)
            _refuse_changed(file, _packed(members))
            return members
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror}): make it with `opcal export SESSION`") from error


def _unpacked(archive: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    found = {member.filename: member for member in archive.infolist()}
    if list(found) not in ([MANIFEST, ARRAYS], [MANIFEST, ARRAYS, SIGNATURE]):
        raise ValueError(f"it holds {', '.join(list(found)[:4]) or 'nothing'}")
    if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > size for m in found.values()):
        raise ValueError("it was packed anew: members are stored, never compressed")
    with archive.open(ARRAYS) as arrays:
        limits.check_sizes({name: member.file_size for name, member in found.items()}, arrays.read(8))
    return {name: archive.read(name) for name in found}


def _refuse_changed(file: BinaryIO, packed: BytesIO) -> None:
    """Where writing the same members anew gives other bytes."""
    file.seek(0)
    while (part := file.read(PIECE)) == packed.read(PIECE):
        if not part:
            return
    raise ValueError("some bytes of it are not those that were written")


def _packed(members: dict[str, bytes]) -> BytesIO:
    """At its beginning."""
    buffer, total = BytesIO(), hashlib.sha256()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.create_system, member.external_attr = 3, 0o644 << 16
            archive.writestr(member, data)
            total.update(len(data).to_bytes(8, "little"))
            total.update(data)
        archive.comment = b"sha256:" + total.hexdigest().encode()
    buffer.seek(0)
    return buffer


def _arrays(stored: bytes) -> Arrays:
    from safetensors.numpy import load

    arrays: Arrays = load(stored)
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ValueError(f"array {name} has dtype {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"array {name} holds NaN or inf")
    return arrays
