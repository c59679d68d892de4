"""Encryption of stored values: AES-256-GCM, with a key from a passphrase."""

import hashlib
import secrets

from mlxctl.errors import SettingsError
from mlxctl.installed import missing_for

SALT_BYTES = 16
_NONCE_BYTES = 12
_KEY_BYTES = 32
# RFC 7914's parameters for interactive use, doubled; 64 MiB of memory and about 0.1 s.
_COST, _BLOCK, _PARALLEL = 2**15, 8, 1


class TamperedValue(ValueError):
    """A sealed value was changed or moved, or the passphrase is another."""


class Sealer:
    """Seals and opens values.

    A value belongs to its `place`, so that it cannot be moved to another. Raises SettingsError without the
    cryptography package.
    """

    def __init__(self, passphrase: str, salt: bytes) -> None:
        if missing := missing_for("policy"):
            raise SettingsError(f"an encrypted policy store needs {missing}")
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = hashlib.scrypt(
            passphrase.encode(),
            salt=salt,
            n=_COST,
            r=_BLOCK,
            p=_PARALLEL,
            maxmem=256 * _COST * _BLOCK,
            dklen=_KEY_BYTES,
        )
        self._cipher = AESGCM(key)

    def seal(self, value: bytes, place: str) -> bytes:
        """Return nonce and ciphertext."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Return the value. Raises TamperedValue."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            raise TamperedValue(place) from None
