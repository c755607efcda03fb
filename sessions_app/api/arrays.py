"""REST endpoints of session arrays."""

from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.rest.actor import actor_of
from common.token_scopes import FOR_SESSIONS
from sessions_app.models import SessionArray
from sessions_app.queue.arrays import (
    Progress,
    access_array,
    progress_by_array,
    terminate_array,
    visible_arrays,
)
from sessions_app.selectors import Action


class ArrayOut(serializers.ModelSerializer[SessionArray]):
    """Batch sessions created by one request; `GET /sessions/?array=ID` lists them."""

    owner = serializers.EmailField(source="owner.email")
    project = serializers.CharField(source="project.name")
    domain = serializers.CharField(source="domain.name")
    spec = serializers.CharField(help_text="Indices as requested, e.g. 1-100%10.")
    statuses = serializers.SerializerMethodField(help_text="Number of elements by status.")
    held = serializers.SerializerMethodField(
        help_text="Number of PENDING elements that wait for other elements to end."
    )
    succeeded = serializers.SerializerMethodField(help_text="Number of elements whose command succeeded.")

    class Meta:
        model = SessionArray
        fields = (
            "id", "name", "owner", "project", "domain", "spec", "count", "most_at_once", "statuses", "held", "succeeded",
            "created_at",
        )  # fmt: skip

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_statuses(self, array: SessionArray) -> dict[str, int]:
        return dict(self._progress(array).statuses)

    def get_held(self, array: SessionArray) -> int:
        return self._progress(array).held

    def get_succeeded(self, array: SessionArray) -> int:
        return self._progress(array).succeeded

    def _progress(self, array: SessionArray) -> Progress:
        found: Progress = self.context["progress"][array.pk]
        return found


@extend_schema_view(get=extend_schema(operation_id="list_arrays"))
class ArrayListView(ListAPIView[SessionArray]):
    """List the arrays that you may see, newest first."""

    token_scopes = FOR_SESSIONS
    serializer_class = ArrayOut
    queryset = SessionArray.objects.none()
    filter_backends = ()

    def get_queryset(self) -> QuerySet[SessionArray]:
        return visible_arrays(actor_of(self.request))

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        page = self.paginate_queryset(self.get_queryset()) or []
        return self.get_paginated_response(
            ArrayOut(page, many=True, context={"progress": progress_by_array(page)}).data
        )


class ArrayView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="read_array", responses={200: ArrayOut})
    def get(self, request: Request, array_id: UUID) -> Response:
        """Show one array with the number of elements in each status."""
        return Response(_array_json(access_array(actor_of(request), array_id, Action.VIEW)))

    @extend_schema(operation_id="stop_array", responses={202: ArrayOut})
    def delete(self, request: Request, array_id: UUID) -> Response:
        """Stop all elements of an array that have not ended. Idempotent."""
        return Response(_array_json(terminate_array(actor=actor_of(request), array_id=array_id)), status=202)


def _array_json(array: SessionArray) -> dict[str, object]:
    return dict(ArrayOut(array, context={"progress": progress_by_array([array])}).data)
