"""Who may be signed in; asked at each request."""

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from asgiref.sync import sync_to_async

from accounts.models import User


class SignInBackend(AuthenticationBackend):
    """E-mail and password. Closing an account or its domain ends its logins at once."""

    def user_can_authenticate(self, user: Any) -> bool:
        return bool(user.is_active and user.domain.is_active)

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.select_related("domain").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: int) -> User | None:
        return await sync_to_async(self.get_user)(user_id)
