"""Who may be signed in; asked at each request."""

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest

from accounts.core.identity_providers import Directory
from accounts.models import User
from accounts.sign_in.audit_events import record_refused_sign_in
from accounts.sign_in.federation import NoAccount, ProofNeeded, admit_person, wait_for_proof
from accounts.sign_in.ldap import ask_directory
from common.rest.actor import actor_of

LDAP = "ldap"


class SignInBackend(AuthenticationBackend):
    """E-mail and password. Closing an account or its domain ends its logins at once."""

    def user_can_authenticate(self, user: Any) -> bool:
        return bool(user.is_active and user.domain.is_active)

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.select_related("domain").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: int) -> User | None:
        return await sync_to_async(self.get_user)(user_id)


class DirectoryBackend(SignInBackend):
    """The password of a directory (LDAP), where one is set up; asked after the password here."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        """Raises NoAccount for whom the directory knows and Berth does not let in: their password was right, so they may
        read why."""
        its: Directory | None = settings.BERTH_DIRECTORY
        if its is None or request is None:
            return None
        email = str(credentials.get("email") or "")
        claim = ask_directory(its, email, str(credentials.get("password") or ""))
        if claim is None:
            return None
        try:
            user = admit_person(
                actor=actor_of(request), provider_id=LDAP, admission=its.admission, claim=claim
            )
        except NoAccount as refusal:
            if isinstance(refusal, ProofNeeded):
                wait_for_proof(request, LDAP, claim)
            record_refused_sign_in(request, email, reason=refusal.reason)
            raise
        request.signed_in_by = LDAP  # type: ignore[attr-defined]  # for the access log
        return user
