"""Ed25519 signatures of a manifest, through `cryptography` (the extra "sign")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opcal.errors import ArtifactError, InvalidInput, MissingDependency

PrivateKey = Any
"""A `cryptography` Ed25519PrivateKey."""


def read_private_key(path: str | Path) -> PrivateKey:
    """An Ed25519 key from a PEM file, as `openssl genpkey -algorithm ed25519 -out key.pem` writes it."""
    crypto = _cryptography()
    try:
        key = crypto.serialization.load_pem_private_key(Path(path).read_bytes(), None)
    except (ValueError, TypeError, OSError) as error:
        raise InvalidInput(f"{path} is no PEM private key without a password ({error}): make it with openssl") from None
    if not isinstance(key, crypto.ed25519.Ed25519PrivateKey):
        raise InvalidInput(f"{path} is no Ed25519 key: openssl genpkey -algorithm ed25519 -out key.pem")
    return key


def sign(manifest: bytes, key: PrivateKey) -> bytes:
    text = {"algorithm": "ed25519", "public_key": _raw(key.public_key()).hex(), "signature": key.sign(manifest).hex()}
    return json.dumps(text, sort_keys=True).encode()


def verify(path: Path, manifest: bytes, stored: bytes | None, trusted: str | Path | None) -> str | None:
    """The signer's public key. A signature that is there must hold; with `trusted`, one by that key must be there."""
    if stored is None:
        if trusted is not None:
            raise ArtifactError(f"{path} is not signed: export it with --sign KEY, or drop the key that it must match")
        return None
    try:
        said = json.loads(stored)
        signer, signature = bytes.fromhex(said["public_key"]), bytes.fromhex(said["signature"])
        if said["algorithm"] != "ed25519" or len(signer) != 32:
            raise ValueError("unknown algorithm")
    except Exception as error:
        raise ArtifactError(f"{path} holds a signature that cannot be read: export it again") from error
    if trusted is not None and _raw(_public_key(trusted)) != signer:
        raise ArtifactError(f"{path} was signed by another key ({signer.hex()[:16]}…): do not use it")
    if not _holds(signer, signature, manifest, needed=trusted is not None):
        raise ArtifactError(f"{path} holds a signature that does not fit its contents: do not use it")
    return signer.hex()


def _holds(signer: bytes, signature: bytes, manifest: bytes, *, needed: bool) -> bool:
    try:
        crypto = _cryptography()
    except MissingDependency:
        if needed:
            raise
        return True
    try:
        crypto.ed25519.Ed25519PublicKey.from_public_bytes(signer).verify(signature, manifest)
    except (crypto.InvalidSignature, ValueError):
        return False
    return True


def _public_key(path: str | Path) -> Any:
    """A public key from a PEM file (`openssl pkey -in key.pem -pubout`), or the one that belongs to a private key."""
    crypto = _cryptography()
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}): expected a PEM file with the key") from None
    try:
        key = crypto.serialization.load_pem_public_key(data)
    except ValueError:
        key = read_private_key(path).public_key()
    if not isinstance(key, crypto.ed25519.Ed25519PublicKey):
        raise InvalidInput(f"{path} is no Ed25519 key")
    return key


def _raw(key: Any) -> bytes:
    raw: bytes = key.public_bytes_raw()
    return raw


def _cryptography() -> Any:
    from types import SimpleNamespace

    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingDependency("signatures need cryptography: pip install 'opcal[sign]'") from error
    return SimpleNamespace(InvalidSignature=InvalidSignature, serialization=serialization, ed25519=ed25519)
