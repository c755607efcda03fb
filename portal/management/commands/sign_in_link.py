"""`manage.py sign_in_link`: prints a one-time sign-in link, for shell access."""

from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from accounts.core.roles import Role
from accounts.models import User
from accounts.tenancy.service import create_sign_in_link
from common.actors import SYSTEM


class Command(BaseCommand):
    help = "Print a link that signs in once, within a day: the first superadmin, or the account of --email."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        people = User.objects.filter(is_active=True, domain__is_active=True).order_by("pk")
        email = options["email"].lower()
        user = people.filter(email=email).first() if email else people.filter(role=Role.SUPERADMIN).first()
        if user is None:
            raise CommandError(
                f"There is no active account {email}." if email else "There is no active superadmin."
            )
        code = create_sign_in_link(actor=SYSTEM, user=user)
        self.stdout.write(f"{settings.BERTH_URL}{reverse('sign-in-once', args=[code])}")
