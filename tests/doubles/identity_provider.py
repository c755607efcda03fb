"""OpenID Connect provider on loopback: real HTTP, real signatures, named faults."""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, SECRET = "berth", "a secret of the provider"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class IdentityProvider:
    """Identity provider. `person` has the ID token's claims; `fault` is the fault of its answers."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.fault = ""
        self.codes: dict[str, dict[str, str]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self, urlsplit(self.path), {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.answer(self, urlsplit(self.path), dict(parse_qsl(body)))

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def authorize(self, url: str) -> str:
        """Return the redirect URL to which the provider sends the browser after sign-in."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def answer(self, handler: BaseHTTPRequestHandler, address: Any, form: dict[str, str]) -> None:
        if self.fault == "broken":
            return _send(handler, 500, b"<h1>out of order</h1>")
        if address.path == "/authorize":
            handler.send_response(302)
            handler.send_header("Location", self.authorize(handler.path))
            return handler.end_headers()
        found: dict[str, Any] = {
            "/.well-known/openid-configuration": self.configuration,
            "/keys": self.keys,
            "/token": lambda: self.token(handler, form),
            "/userinfo": lambda: {"sub": self.person["sub"], **self.userinfo},
        }.get(address.path, dict)()
        return _send(handler, 400 if "error" in found else 200, json.dumps(found).encode())

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": "https://evil.example" if self.fault == "wrong_issuer" else self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": "http://evil.example/keys"
            if self.fault == "keys_elsewhere"
            else f"{self.issuer}/keys",
        }

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        return {"keys": [{**public, "kid": "one", "alg": "RS256", "use": "sig"}]}

    def token(self, handler: BaseHTTPRequestHandler, form: dict[str, str]) -> dict[str, Any]:
        given = base64.b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge or self.fault == "expired_code":
            return {"error": "invalid_grant"}
        if handler.headers["Authorization"] != f"Basic {given}":
            return {"error": "invalid_client"}
        answer = {"access_token": "opaque", "token_type": "Bearer"}
        return (
            answer if self.fault == "no_id_token" else {**answer, "id_token": self.id_token(asked["nonce"])}
        )

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims |= {
            "wrong_nonce": {"nonce": "other"},
            "no_nonce": {"nonce": ""},
            "wrong_audience": {"aud": "another client"},
            "foreign_party": {"aud": [CLIENT_ID, "another client"], "azp": "another client"},
            "foreign_issuer": {"iss": "https://evil.example"},
            "expired_token": {"exp": now - 3600},
        }.get(self.fault, {})
        if self.fault == "unsigned":
            return jwt.encode({**claims, **self.person}, "", algorithm="none", headers={"kid": "one"})
        if self.fault == "signed_by_public_key":
            public = self.keys()["keys"][0]["n"]
            return jwt.encode({**claims, **self.person}, public, algorithm="HS256", headers={"kid": "one"})
        key = OTHER_KEY if self.fault == "wrong_key" else KEY
        kid = "two" if self.fault == "unknown_key" else "one"
        return jwt.encode({**claims, **self.person}, key, algorithm="RS256", headers={"kid": kid})


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def state_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["state"][0]
