"""OpenID Connect client: discovery, redirect, code exchange, and verification of ID tokens.

State, PKCE and the code exchange are those of django-allauth. Each ID token is bound to its sign-in
by a nonce and must be signed by the configured provider. Outbound requests have the time limit
SOCIALACCOUNT_REQUESTS_TIMEOUT.
"""

import secrets
from functools import cached_property
from typing import Any

import jwt
import requests
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.oauth2.utils import generate_code_challenge
from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts.core.identity_providers import InvalidSetting, OidcProvider, check_tls
from accounts.core.membership_rules import group_name
from accounts.sign_in.federation import ProviderIdentity, parse_identity
from common.errors import BerthError, PermissionDenied, Unavailable

SCOPES = ("openid", "profile", "email")
LEEWAY_S = 60
SERVER_ERROR = 500
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
FAULTS = (
    OAuth2Error,
    requests.RequestException,
    jwt.PyJWTError,
    InvalidSetting,
    KeyError,
    TypeError,
    ValueError,
)


class OidcClient:
    """One sign-in by the provider `provider`, which redirects to `callback_url`. Methods that contact
    the provider raise FAULTS.
    """

    def __init__(self, request: HttpRequest, provider: OidcProvider, callback_url: str) -> None:
        self.request = request
        self.provider = provider
        self.callback_url = callback_url

    @cached_property
    def config(self) -> dict[str, Any]:
        """Discovery document of the provider; its issuer must be that of the settings."""
        config = _fetch_json(f"{self.provider.issuer.rstrip('/')}/.well-known/openid-configuration")
        if config["issuer"] != self.provider.issuer:
            raise OAuth2Error("wrong_issuer")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            check_tls(config[name], name)
        return config

    def begin(self, next_url: str) -> str:
        """Return the address to redirect to. Nonce, verifier and target are kept in the browser's
        session under the state.
        """
        nonce, challenge = secrets.token_urlsafe(24), generate_code_challenge()
        stored = {"nonce": nonce, "verifier": challenge.pop("code_verifier"), "next": next_url}
        client, address = self._client(), self.config["authorization_endpoint"]
        client.state = statekit.stash_state(self.request, provider_id=self.provider.id, state=stored)
        return str(client.get_redirect_url(address, SCOPES, {"nonce": nonce, **challenge}))

    def finish(self, code: str, stored: dict[str, Any]) -> ProviderIdentity:
        """Exchange the code, which works once, and return the identity."""
        answer = self._client().get_access_token(code, pkce_code_verifier=stored["verifier"])
        return self._read_identity(answer, stored["nonce"])

    def _client(self) -> OAuth2Client:
        methods = self.config.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return OAuth2Client(
            self.request, self.provider.client_id, self.provider.secret, "POST", self.config["token_endpoint"],
            self.callback_url, basic_auth="client_secret_post" not in methods,
        )  # fmt: skip

    def _read_identity(self, answer: dict[str, Any], nonce: str) -> ProviderIdentity:
        """Return the identity of the ID token, with the address of the userinfo endpoint if need be."""
        claims = self._verified(answer["id_token"], nonce)
        if "email" not in claims and "userinfo_endpoint" in self.config:
            check_tls(self.config["userinfo_endpoint"], "userinfo_endpoint")
            more = _fetch_json(self.config["userinfo_endpoint"], token=answer["access_token"])
            if more["sub"] != claims["sub"]:
                raise OAuth2Error("wrong_subject")
            claims = {**more, **claims}
        groups = claims.get(self.provider.groups_claim)
        return parse_identity(
            subject=claims["sub"],
            email=str(claims.get("email") or ""),
            is_verified=claims.get("email_verified") is True,
            name=str(claims.get("name") or ""),
            groups=[group_name(str(each)) for each in groups] if isinstance(groups, list) else None,
        )

    def _verified(self, id_token: str, nonce: str) -> dict[str, Any]:
        key_id = jwt.get_unverified_header(id_token).get("kid")
        keys = jwt.PyJWKSet.from_dict(_fetch_json(self.config["jwks_uri"])).keys
        fitting = [key for key in keys if key_id in (None, key.key_id)]
        if len(fitting) != 1:
            raise OAuth2Error("unknown_key")
        claims: dict[str, Any] = jwt.decode(
            id_token,
            fitting[0],
            algorithms=[name for name in ALGORITHMS if name == fitting[0].algorithm_name],
            audience=self.provider.client_id,
            issuer=self.provider.issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
        if (
            isinstance(claims["aud"], list)
            and len(claims["aud"]) > 1
            and claims.get("azp") != self.provider.client_id
        ):
            raise OAuth2Error("wrong_audience")
        if not secrets.compare_digest(str(claims.get("nonce", "")), nonce):
            raise OAuth2Error("wrong_nonce")
        return claims


def provider_error(fault: Exception, provider: OidcProvider) -> BerthError:
    """Return the error to display; the log has the details."""
    status = getattr(getattr(fault, "response", None), "status_code", 0)
    if isinstance(fault, (requests.ConnectionError, requests.Timeout)) or status >= SERVER_ERROR:
        return Unavailable(
            _("{name} does not answer, so nobody can sign in by it now.").format(name=provider.name),
            hint=_("Try again in some minutes, or sign in with a password."),
        )
    return PermissionDenied(
        _("The sign-in by {name} failed: its answer cannot be believed.").format(name=provider.name),
        hint=_(
            "Start again from the sign-in page. If that does not help, tell an administrator the id below."
        ),
        code="sign_in_refused",
    )


def _fetch_json(url: str, token: str = "") -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with get_adapter().get_requests_session() as session:
        answer = session.get(url, headers=headers)
        answer.raise_for_status()
        found = answer.json()
    if not isinstance(found, dict):
        raise ValueError(url)
    return found
