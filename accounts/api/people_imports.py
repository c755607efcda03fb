"""REST endpoints of importing users from a file."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.user_csv import COLUMNS, MOST_BYTES
from accounts.models import PeopleImport, PeopleImportLine
from accounts.selectors import access_import
from accounts.tenancy import user_import
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_ADMIN


class PeopleImportInput(InputSerializer):
    content = serializers.CharField(
        max_length=MOST_BYTES,
        trim_whitespace=False,
        help_text=f"CSV file with the columns {', '.join(COLUMNS)}; only email is required.",
    )
    name = TextField(max_length=120, required=False, default="people.csv")
    is_dry_run = serializers.BooleanField(
        required=False, default=True, help_text="true: only report the effect of each row."
    )


class PeopleImportOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    asked_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True, help_text="null if the import has not started.")
    finished_at = serializers.DateTimeField(allow_null=True)
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Number of rows by outcome.")
    done = serializers.IntegerField(help_text="Number of rows imported, or refused during the import.")
    to_do = serializers.IntegerField(help_text="Number of rows to import, including those that are done.")


class PeopleImportRowOut(serializers.ModelSerializer[PeopleImportLine]):
    values = serializers.DictField(child=serializers.CharField())
    changes = serializers.ListField(
        child=serializers.CharField(), help_text="Names of the fields that change."
    )
    faults = serializers.DictField(child=serializers.CharField(), help_text="Errors by column.")

    class Meta:
        model = PeopleImportLine
        fields = ("number", "values", "outcome", "changes", "faults", "is_done")
        read_only_fields = fields


class SignInLinkOut(serializers.Serializer[Any]):
    email = serializers.EmailField()
    sign_in_url = serializers.CharField(help_text="Link that signs the user in once, within a day.")


class PeopleImportListView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="import_users",
        request=PeopleImportInput,
        responses={201: PeopleImportOut, 403: ErrorOut},
    )
    def post(self, request: Request) -> Response:
        """Check a CSV file of users. A dry run changes nothing until it is started; otherwise valid
        rows are imported one by one, large files in the background.
        """
        values = PeopleImportInput.parse(request)
        actor = actor_of(request)
        people_import = user_import.check_import(
            actor=actor, name=values["name"], content=values["content"].encode()
        )
        if not values["is_dry_run"]:
            people_import = user_import.start_import(actor=actor, import_id=people_import.pk)
        return Response(_shown(people_import), status=201)


class PeopleImportView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_user_import", responses={200: PeopleImportOut})
    def get(self, request: Request, import_id: int) -> Response:
        """Show the progress of one of your imports."""
        return Response(_shown(access_import(actor_of(request), import_id)))

    @extend_schema(operation_id="start_user_import", request=None, responses={202: PeopleImportOut})
    def post(self, request: Request, import_id: int) -> Response:
        """Import the valid rows of a dry run. No effect on a started import."""
        return Response(
            _shown(user_import.start_import(actor=actor_of(request), import_id=import_id)), status=202
        )


@extend_schema_view(get=extend_schema(operation_id="list_user_import_rows"))
class PeopleImportRowListView(ListAPIView[PeopleImportLine]):
    """List the rows of one of your imports with their planned effect or result."""

    token_scopes = FOR_ADMIN
    serializer_class = PeopleImportRowOut
    filterset_fields = ("outcome", "is_done")
    queryset = PeopleImportLine.objects.none()

    def get_queryset(self) -> QuerySet[PeopleImportLine]:
        if getattr(self, "swagger_fake_view", False):
            return PeopleImportLine.objects.none()
        return access_import(actor_of(self.request), self.kwargs["import_id"]).lines.all()


class PeopleImportLinkView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="create_user_import_links", request=None, responses={200: SignInLinkOut(many=True)}
    )
    def post(self, request: Request, import_id: int) -> Response:
        """Create new sign-in links for all users added by one of your imports who never signed in.
        Shown only once.
        """
        links = user_import.create_links(actor=actor_of(request), import_id=import_id)
        values = [
            {"email": email, "sign_in_url": settings.BERTH_URL + reverse("sign-in-once", args=[code])}
            for email, code in links
        ]
        return Response(SignInLinkOut(values, many=True).data, headers={"Cache-Control": "no-store"})


def _shown(found: PeopleImport) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in ("id", "name", "asked_at", "started_at", "finished_at")}
    return dict(PeopleImportOut({**values, **asdict(found.tally())}).data)
