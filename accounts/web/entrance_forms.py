"""Forms of allauth that ask for mails."""

from typing import Any

from allauth.account.forms import ResetPasswordForm
from django.http import HttpRequest

from accounts.attempt_rates import Purpose
from accounts.attempts import count_attempt
from accounts.sign_ins import record_asked_reset


class AskResetForm(ResetPasswordForm):
    def save(self, request: HttpRequest, **more: Any) -> str:
        """Raises TooManyRequests, alike for addresses that somebody has and others."""
        count_attempt(request, Purpose.RESET, self.cleaned_data["email"])
        for user in self.users:
            record_asked_reset(request, user)
        email: str = super().save(request, **more)
        return email
