"""The private key of the TLS certificate, without a password.

Granian 2.8 takes a password, but panics on every encrypted key.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlxctl.ir.errors import SettingsError
from mlxctl.state import locations
from mlxctl.state.certificates import is_encrypted
from mlxctl.state.installed import missing_for
from mlxctl.state.settings import ServerSettings
from mlxctl.state.settings.secret_files import secret_lines


def tls_key_password(settings: ServerSettings) -> str | None:
    """Return the password of an encrypted key.

    From the settings or a file. Raises SettingsError.
    """
    if settings.tls_key is None and (settings.tls_key_password or settings.tls_key_password_file):
        raise SettingsError("a password of a TLS key needs server.tls_key")
    if settings.tls_key_password_file is not None:
        return secret_lines(settings.tls_key_password_file, "server.tls_key_password_file")[0]
    return settings.tls_key_password


@contextmanager
def unencrypted_key(key: Path | None, password: str | None) -> Iterator[Path | None]:
    """Yield a file with the key without a password.

    The key of an encrypted file is written to the runtime directory, readable by its owner only, and deleted
    at the end of the block. Raises SettingsError.
    """
    if key is None or not is_encrypted(key):
        yield key
        return
    content = _decrypted(key, password or "")
    # SEC: mkstemp creates the file with mode 0600, in a directory with mode 0700.
    descriptor, name = tempfile.mkstemp(prefix="tls-", suffix=".pem", dir=locations.runtime_directory())
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _decrypted(key: Path, password: str) -> bytes:
    """Return an encrypted key in PEM format without a password. Raises SettingsError."""
    if missing := missing_for("policy"):
        raise SettingsError(f"server.tls_key: {str(key)!r} is encrypted, which needs {missing}")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    try:
        private_key = load_pem_private_key(key.read_bytes(), password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SettingsError(
            f"server.tls_key: {str(key)!r} cannot be decrypted; write one without a password with "
            "'openssl pkey -in KEY -out NEW_KEY'"
        ) from None
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
