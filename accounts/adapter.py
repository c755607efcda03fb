"""How allauth behaves here: accounts are made by administrators, and closed domains let nobody in."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest, HttpResponse

from accounts.models import User


class ClosedSignUpAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse | None:
        refusal: HttpResponse | None = super().pre_login(request, user, **kwargs)
        if refusal is None and not user.domain.is_active:
            refusal = self.respond_user_inactive(request, user)
        return refusal
