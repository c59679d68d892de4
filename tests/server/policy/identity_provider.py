"""An OpenID Connect provider behind a real socket."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tests.http_double import running

AUDIENCE = "mlxctl-test"
KEYS = {kid: RSAKey.generate_key(2048, {"kid": kid}) for kid in ("first", "second")}
CURVE_KEY = ECKey.generate_key("P-256", {"kid": "curve"})
SHARED_KEY = OctKey.generate_key(256, {"kid": "shared"})


class IdentityProvider(ThreadingHTTPServer):
    """Publishes `keys`, and counts the fetches of each path.

    `documents` replaces the answer of a path, `status` that of all of them.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys: list[Any] = [KEYS["first"]]
        self.status = 200
        self.documents: dict[str, bytes] = {}
        self.paths: list[str] = []

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def document(self, path: str) -> bytes | None:
        """Return the body of a path; None for 404."""
        if path in self.documents:
            return self.documents[path]
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}).encode()
        if path in ("/keys", "/.well-known/jwks.json"):
            return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode()
        return None

    def token(self, *, key: Any = KEYS["first"], header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a signed token; a claim that is None is left out."""
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ann", "scope": "generate", "exp": now + 60}
        chosen = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        names = {"alg": "RS256", "kid": key.kid, **(header or {})}
        names = {name: value for name, value in names.items() if value is not None}
        return jwt.encode(names, chosen, key, algorithms=[names["alg"]])


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, IdentityProvider)
        server.paths.append(self.path)
        body = server.document(self.path)
        self.send_response(404 if body is None else server.status)
        self.send_header("content-length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """Yield a running provider."""
    with running(IdentityProvider()) as server:
        yield server
