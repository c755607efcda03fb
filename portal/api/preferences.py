"""REST endpoints of a user's preferences."""

from typing import Any

from django.conf import settings
from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.mails import mail_obstacle
from accounts.selectors import get_acting_user
from accounts.tenancy import preferences
from common.rest.actor import actor_of
from common.rest.input import InputSerializer
from common.token_scopes import FOR_ADMIN
from portal.notifications import service
from portal.notifications.catalogue import MUTABLE, Kind
from portal.notifications.selectors import notification_choice

LANGUAGES = [code for code, _name in settings.LANGUAGES]
KINDS = [kind.value for kind in Kind]
MUTABLE_KINDS = [kind.value for kind in MUTABLE]


class PreferencesOut(serializers.Serializer[Any]):
    language = serializers.CharField(
        help_text="Language of pages and messages; empty: as the browser requests."
    )
    muted_notifications = serializers.ListField(
        child=serializers.ChoiceField(choices=MUTABLE_KINDS),
        help_text="Kinds of notifications that you do not receive.",
    )
    mailed_notifications = serializers.ListField(
        child=serializers.ChoiceField(choices=KINDS),
        help_text="Kinds of notifications that are also mailed to you.",
    )
    no_mail_because = serializers.CharField(
        help_text="Reason why no notifications are mailed to you; empty if they are."
    )


class PreferencesInput(InputSerializer):
    language = serializers.ChoiceField(choices=["", *LANGUAGES], required=False)
    muted_notifications = serializers.ListField(
        child=serializers.ChoiceField(choices=MUTABLE_KINDS), required=False, max_length=len(MUTABLE_KINDS)
    )
    mailed_notifications = serializers.ListField(
        child=serializers.ChoiceField(choices=KINDS), required=False, max_length=len(KINDS)
    )


class PreferencesView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_preferences", responses={200: PreferencesOut})
    def get(self, request: Request) -> Response:
        """Show your language, muted notifications and mailed notifications."""
        return _answer(request)

    @extend_schema(
        operation_id="change_preferences", request=PreferencesInput, responses={200: PreferencesOut}
    )
    def patch(self, request: Request) -> Response:
        """Change your preferences; omitted fields stay.

        A language takes effect in each browser from its next sign-in.
        """
        serializer = PreferencesInput(data=request.data)
        serializer.is_valid(raise_exception=True)
        wanted, actor = serializer.validated_data, actor_of(request)
        with transaction.atomic():
            if "language" in wanted:
                preferences.choose_language(actor=actor, language=wanted["language"])
            if wanted.keys() - {"language"}:
                service.choose_notifications(
                    actor=actor,
                    muted=wanted.get("muted_notifications"),
                    mailed=wanted.get("mailed_notifications"),
                )
        return _answer(request)


def _answer(request: Request) -> Response:
    person = get_acting_user(actor_of(request))
    choice = notification_choice(person.pk)
    body = {
        "language": person.language,
        "muted_notifications": [kind for kind in MUTABLE_KINDS if kind in choice.muted],
        "mailed_notifications": [kind for kind in KINDS if kind in choice.mailed],
        "no_mail_because": mail_obstacle(person),
    }
    return Response(PreferencesOut(body).data)
