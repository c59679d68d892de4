"""HTTPS and mutual TLS for every client of the package.

With certificates made by openssl.
"""

import json
import os
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anthropic
import httpx
import httpx2
import openai
import pytest

from mlxctl.ir.errors import SettingsError
from mlxctl.server.http.tls_key import tls_key_password, unencrypted_key
from mlxctl.state.certificates import check_server_files
from mlxctl.state.settings import ServerSettings
from tests.server.process import ServerProcess

LEAF = ["-addext", "basicConstraints=critical,CA:FALSE"]
PASSWORD = "open sesame 4711"
SUBJECT = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]


def openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, and its server and client certificates.

    The authority is `ca`.
    """
    directory = tmp_path_factory.mktemp("certificates")
    new = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    openssl(directory, *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=mlxctl test authority")
    for name in ("server", "client"):
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        openssl(directory, *new, *signed, *SUBJECT, *LEAF)
    (directory / "client-both.pem").write_bytes(
        (directory / "client.pem").read_bytes() + (directory / "client.key").read_bytes()
    )
    (directory / "password").write_text(f"{PASSWORD}\n")
    secret = ["-in", "server.key", "-passout", f"pass:{PASSWORD}", "-out"]
    openssl(directory, "pkcs8", "-topk8", *secret, "encrypted.key")
    openssl(directory, "ec", "-aes256", *secret, "legacy.key")
    return directory


def trusted(certificates: Path, *, client: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    if client:
        context.load_cert_chain(certificates / "client-both.pem")
    return context


def start(certificates: Path, *options: str, key: str = "server.key", **environment: str) -> ServerProcess:
    files = ["--tls-cert", str(certificates / "server.pem"), "--tls-key", str(certificates / key)]
    trusts = {"SSL_CERT_FILE": str(certificates / "ca.pem")}
    return ServerProcess(*files, *options, environment={**trusts, **environment})


@pytest.fixture(scope="module")
def runtime() -> Iterator[Path]:
    """A directory for sockets, whose path is short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def server(certificates: Path, runtime: Path) -> Iterator[ServerProcess]:
    """A server over HTTPS whose key has a password."""
    password = ["--tls-key-password-file", str(certificates / "password")]
    started = start(certificates, *password, key="encrypted.key", XDG_RUNTIME_DIR=str(runtime))
    wait_ready(started, trusted(certificates))
    yield started
    started.kill()


def wait_ready(server: ServerProcess, context: ssl.SSLContext) -> None:
    deadline = time.monotonic() + 60
    with httpx.Client(verify=context) as client:
        while not is_ready(client, server):
            assert time.monotonic() < deadline, "the server did not become ready"
            time.sleep(0.05)


def is_ready(client: httpx.Client, server: ServerProcess) -> bool:
    """Return whether the server answers that it is ready."""
    try:
        return client.get(f"{server.url}/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def command(certificates: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {**os.environ, "SSL_CERT_FILE": str(certificates / "ca.pem"), **environment}
    return subprocess.run(
        [sys.executable, "-m", "mlxctl", *arguments],
        env=known, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_both_sdks_answer_over_https(server: ServerProcess, certificates: Path) -> None:
    assert server.url.startswith("https://")
    with httpx2.Client(verify=trusted(certificates)) as http:
        chat = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", http_client=http)
        messages = anthropic.Anthropic(base_url=server.url, api_key="any", http_client=http)
        conversation = [{"role": "user", "content": "Hello!"}]
        whole = chat.chat.completions.create(model="mlxctl-demo", messages=conversation)  # type: ignore[arg-type]
        message = messages.messages.create(model="mlxctl-demo", messages=conversation, max_tokens=64)  # type: ignore[arg-type]
    assert whole.choices[0].message.content == "Hello! How can I help you?"
    assert message.content[-1].text == "Hello! How can I help you?"  # type: ignore[union-attr]


def test_decrypted_key_does_not_stay_on_the_disk(server: ServerProcess, runtime: Path) -> None:
    (directory,) = runtime.glob("mlxctl-*")
    assert not list(directory.glob("tls-*"))


@pytest.mark.parametrize("name", ["encrypted.key", "legacy.key", "server.key"])
def test_key_with_a_password_is_decrypted_for_the_start_only(certificates: Path, name: str) -> None:
    key = certificates / name
    check_server_files(certificates / "server.pem", key, None, password=PASSWORD)
    with unencrypted_key(key, PASSWORD) as file:
        assert file is not None
        check_server_files(certificates / "server.pem", file, None)
        assert (file == key) == (name == "server.key")
        assert file == key or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.exists() == (name == "server.key")


def test_password_comes_from_the_settings_or_the_first_line_of_a_file(certificates: Path) -> None:
    settings = ServerSettings(tls_key=certificates / "encrypted.key", tls_key_password="typed")
    of_file = replace(settings, tls_key_password_file=certificates / "password")
    assert (tls_key_password(settings), tls_key_password(of_file)) == ("typed", PASSWORD)
    assert "typed" not in repr(of_file)
    with pytest.raises(SettingsError, match=r"server\.tls_key"):
        tls_key_password(replace(of_file, tls_key=None))
    with pytest.raises(SettingsError, match=r"tls_key_password_file: .* cannot be read"):
        tls_key_password(replace(of_file, tls_key_password_file=certificates / "none"))


def test_the_commands_of_the_package_answer_over_https(server: ServerProcess, certificates: Path) -> None:
    chat = command(certificates, "chat", "--url", server.url, "Hello!")
    top = command(certificates, "top", "--url", server.url, "--json")
    models = command(certificates, "models", "ps", "--url", server.url, "--json")
    assert chat.stdout == "Hello! How can I help you?\n", chat.stderr
    assert top.returncode == 0, top.stderr
    assert json.loads(models.stdout)[0]["name"] == "mlxctl-demo"


def test_an_unknown_authority_is_an_error_in_one_line(server: ServerProcess, certificates: Path) -> None:
    done = command(certificates, "models", "ps", "--url", server.url, SSL_CERT_FILE="")
    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_mutual_tls_refuses_clients_without_certificate_or_with_old_tls(
    certificates: Path,
) -> None:
    authority = str(certificates / "ca.pem")
    server = start(certificates, "--tls-client-ca", authority, "--tls-min-version", "1.3")
    old = trusted(certificates, client=True)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        wait_ready(server, trusted(certificates, client=True))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}/livez", verify=trusted(certificates))
        with pytest.raises(httpx.TransportError, match=r"(?i)protocol.version"):
            httpx.get(f"{server.url}/livez", verify=old)
        with_own = httpx.get(f"{server.url}/livez", verify=trusted(certificates, client=True))
        own = str(certificates / "client-both.pem")
        models = command(certificates, "models", "ps", "--url", server.url, MLXCTL_CLIENT_CERT=own)
    finally:
        server.kill()
    assert with_own.status_code == 200
    assert models.returncode == 0, models.stderr


def test_files_that_cannot_be_used_are_named(certificates: Path, tmp_path: Path) -> None:
    server, key = certificates / "server.pem", certificates / "server.key"
    broken, fifo, loop = (tmp_path / name for name in ("broken.pem", "fifo.pem", "loop.pem"))
    broken.write_text("no certificate")
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    for files, reason in {
        (server, None, None): "needs both --tls-cert and --tls-key",
        (server, tmp_path / "none", None): "server.tls_key: .* is not a readable file",
        (tmp_path, key, None): "server.tls_cert: .* is not a readable file",
        (fifo, key, None): "server.tls_cert: .* is not a readable file",
        (server, loop, None): "server.tls_key: .* is not a readable file",
        (server, key, tmp_path / ("a" * 300)): "server.tls_client_ca: .* is not a readable file",
        (server, certificates / "client.key", None): "key values mismatch",
        (server, certificates / "encrypted.key", None): "is encrypted; name a file with its password",
        (broken, key, None): "server.tls_cert: .* has no valid certificate",
        (server, broken, None): "server.tls_key: .* has no valid private key",
        (server, key, broken): "server.tls_client_ca: .* has no valid certificate",
        (None, None, certificates / "ca.pem"): "needs server.tls_cert",
    }.items():
        with pytest.raises(SettingsError, match=reason):
            check_server_files(*files)
    with pytest.raises(SettingsError, match="check its password") as refused:
        check_server_files(server, certificates / "encrypted.key", None, password="wrong 4712")
    assert "4712" not in str(refused.value)
