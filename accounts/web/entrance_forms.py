"""Forms of allauth in which passwords are typed, or mails asked for; each is counted first."""

from typing import Any

from allauth.account.forms import ChangePasswordForm, ResetPasswordForm
from allauth.core import context
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


class NewPasswordForm(ChangePasswordForm):
    def clean_oldpassword(self) -> str:
        """No password is looked at that was not counted, also of who is signed in. Raises TooManyRequests."""
        attempt = count_attempt(context.request, Purpose.PASSWORD, self.user.email)
        password: str = super().clean_oldpassword()
        attempt.succeed()
        return password
