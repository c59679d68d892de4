"""TLS: checks of the server's files, and clients' verification of servers.

A private certificate authority is trusted if `SSL_CERT_FILE` or `SSL_CERT_DIR` names it, as in OpenSSL. A
client certificate for mutual TLS is the file in `MLXCTL_CLIENT_CERT` (certificate and key in one PEM file).
"""

import os
import ssl
from pathlib import Path

from mlxctl.ir.errors import SettingsError

CLIENT_CERTIFICATE_VARIABLE = "MLXCTL_CLIENT_CERT"


def check_server_files(
    certificate: Path | None, key: Path | None, client_ca: Path | None, *, password: str | None = None
) -> None:
    """Raise SettingsError unless certificate and key exist and belong together.

    `password` is that of an encrypted key. Without both files TLS is off, which is valid.
    """
    if certificate is None and key is None:
        if client_ca is not None:
            raise SettingsError("server.tls_client_ca needs server.tls_cert and server.tls_key")
        return
    if certificate is None or key is None:
        raise SettingsError("TLS needs both --tls-cert and --tls-key")
    for name, path in (("tls_cert", certificate), ("tls_key", key), ("tls_client_ca", client_ca)):
        if path is not None and not (os.access(path, os.R_OK) and path.is_file()):
            raise SettingsError(f"server.{name}: {str(path)!r} is not a readable file")
    for name, path in (("tls_cert", certificate), ("tls_client_ca", client_ca)):
        if path is not None and not _has_certificate(path):
            raise SettingsError(f"server.{name}: {str(path)!r} has no valid certificate in PEM format")
    if is_encrypted(key) and password is None:
        raise SettingsError(
            f"server.tls_key: {str(key)!r} is encrypted; name a file with its password with "
            "--tls-key-password-file"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=lambda: password or "")
    except (ssl.SSLError, ValueError) as error:
        # OpenSSL has no reason for a wrong password and for what is no key at all.
        if known := getattr(error, "reason", None):
            reason = known.replace("_", " ").lower()
            problem = f"{str(certificate)!r} and {str(key)!r} cannot be used for TLS: {reason}"
        elif is_encrypted(key):
            problem = f"server.tls_key: {str(key)!r} cannot be decrypted; check its password"
        else:
            problem = f"server.tls_key: {str(key)!r} has no valid private key in PEM format"
        raise SettingsError(problem) from None


def _has_certificate(path: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True


def is_encrypted(key: Path) -> bool:
    """Whether a PEM file has an encrypted private key."""
    content = key.read_bytes()
    return b"BEGIN ENCRYPTED PRIVATE KEY" in content or b"Proc-Type: 4,ENCRYPTED" in content


def client_context(url: str) -> ssl.SSLContext | bool:
    """Return httpx's `verify` for a URL.

    An SSL context for https, True where none is needed. Raises SettingsError for a client certificate that
    cannot be used.
    """
    if not url.lower().startswith("https:"):
        return True
    import httpx

    context = httpx.create_ssl_context(trust_env=True)
    if own := os.environ.get(CLIENT_CERTIFICATE_VARIABLE):
        try:
            context.load_cert_chain(own)
        except OSError as error:
            raise SettingsError(f"{CLIENT_CERTIFICATE_VARIABLE}: {own!r} cannot be used: {error}") from None
    return context
