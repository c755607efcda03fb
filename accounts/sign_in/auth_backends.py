"""Django authentication backends: password and LDAP; also check the account on each request."""

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest

from accounts.core.identity_providers import LdapDirectory
from accounts.models import User
from accounts.sign_in.audit_events import record_refused_sign_in
from accounts.sign_in.federation import ProofRequired, SignInRefused, admit_user, store_pending_link
from accounts.sign_in.ldap import authenticate_by_ldap
from common.rest.actor import actor_of

LDAP = "ldap"


class SignInBackend(AuthenticationBackend):
    """Signs in by e-mail address and password, if account and domain are open."""

    def user_can_authenticate(self, user: Any) -> bool:
        return bool(user.is_active and user.domain.is_active)

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.select_related("domain").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: int) -> User | None:
        return await sync_to_async(self.get_user)(user_id)


class DirectoryBackend(SignInBackend):
    """Verifies the password by the LDAP directory, if configured; tried after the local password."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        """Return the user, or None. Raises SignInRefused for a correct directory password without
        access to Berth; such a user may read the reason.
        """
        directory: LdapDirectory | None = settings.BERTH_DIRECTORY
        if directory is None or request is None:
            return None
        email = str(credentials.get("email") or "")
        identity = authenticate_by_ldap(directory, email, str(credentials.get("password") or ""))
        if identity is None:
            return None
        try:
            user = admit_user(
                actor=actor_of(request), provider_id=LDAP, onboarding=directory.onboarding, identity=identity
            )
        except SignInRefused as refusal:
            if isinstance(refusal, ProofRequired):
                store_pending_link(request, LDAP, identity)
            record_refused_sign_in(request, email, reason=refusal.reason)
            raise
        request.signed_in_by = LDAP  # type: ignore[attr-defined]  # for the audit log
        return user
