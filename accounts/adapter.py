"""How allauth behaves here: accounts are made by administrators, and closed domains let nobody in."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from accounts.models import User
from accounts.sign_ins import record_refused_sign_in


class ClosedSignUpAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        refusal: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if refusal is None and not user.domain.is_active:
            refusal = self.respond_user_inactive(request, user)
        return refusal

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            record_refused_sign_in(request, str(credentials.get("email") or ""), reason="too_many_attempts")
            raise
