"""The file itself: a zip of manifest.json and model.safetensors, every byte of it vouched for.

Members are stored, never compressed, so that nothing can be larger than the file. The archive's comment is the SHA-256
of all members, and a file is read only where writing the same members anew gives the same bytes: one flipped bit
anywhere is an `ArtifactError`. signature.json, where it is there, holds an Ed25519 signature of the manifest, and the
manifest holds the SHA-256 of the arrays.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opcal.artifact import signing
from opcal.artifact.writing import replace_file
from opcal.errors import ArtifactError

MANIFEST, ARRAYS, SIGNATURE = "manifest.json", "model.safetensors", "signature.json"
LARGEST = 2**30
"""A file of more bytes is refused before it is read; a thousand classes and a thousand labels make 40 MB."""
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
    replace_file(path, _packed(members))


def read(path: Path, trusted: str | Path | None = None) -> Contents:
    """What the file holds, or an `ArtifactError`; `trusted` is the public key that must have signed it."""
    data = _bytes(path)
    try:
        members = _members(data)
        manifest = json.loads(members[MANIFEST])
        if not isinstance(manifest, dict) or manifest.get("format") != "opcal":
            raise ValueError("its manifest is not opcal's")
        if manifest.get("arrays_sha256") != hashlib.sha256(members[ARRAYS]).hexdigest():
            raise ValueError("its arrays are not those that the manifest names")
        arrays = _arrays(members[ARRAYS])
    except Exception as error:  # broken bytes break their readers in every way
        raise ArtifactError(f"{path} is no artefact or is broken ({_said(error)}): export it again") from error
    signer = signing.verify(path, members[MANIFEST], members.get(SIGNATURE), trusted)
    return Contents(manifest, arrays, hashlib.sha256(members[MANIFEST]).hexdigest(), signer)


def _said(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise ArtifactError(f"{path} has {size:,} bytes, an artefact has at most {LARGEST:,}: is it another file?")
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror}): make it with `opcal export SESSION`") from error


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = archive.infolist()
        names = [member.filename for member in found]
        if names not in ([MANIFEST, ARRAYS], [MANIFEST, ARRAYS, SIGNATURE]):
            raise ValueError(f"it holds {', '.join(names[:4]) or 'nothing'}")
        if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > len(data) for m in found):
            raise ValueError("it was packed anew: members are stored, never compressed")
        members = {name: archive.read(name) for name in names}
    if _packed(members) != data:
        raise ValueError("some bytes of it are not those that were written")
    return members


def _packed(members: dict[str, bytes]) -> bytes:
    buffer, total = io.BytesIO(), hashlib.sha256()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.create_system, member.external_attr = 3, 0o644 << 16
            archive.writestr(member, data)
            total.update(len(data).to_bytes(8, "little") + data)
        archive.comment = b"sha256:" + total.hexdigest().encode()
    return buffer.getvalue()


def _arrays(stored: bytes) -> Arrays:
    from safetensors.numpy import load

    arrays: Arrays = load(stored)
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ValueError(f"array {name} has dtype {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"array {name} holds NaN or inf")
    return arrays
