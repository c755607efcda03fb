"""REST endpoints of dotfiles and the start-up script."""

from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.keypairs import require_newest_secret
from common.errors import InvalidInput, NotFound
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField, query_value
from common.token_scopes import FOR_SESSIONS
from sessions_app.core.dotfile_rules import (
    DEFAULT_MODE,
    MAX_CONTENT_BYTES,
    check_content,
    check_dotfile_path,
    check_file_mode,
)
from sessions_app.dotfiles import service
from sessions_app.models import Dotfile

ABSENT = {(404, "application/json"): ErrorOut}
TOKEN_HELP = "Name of the token that wrote it last; empty: written in the portal."
USE_HELP = (
    "true if new sessions get it. When a token ends, what it wrote is no longer used "
    "until it is written again."
)
PATH = OpenApiParameter("path", str, required=True, description="Path relative to the home directory.")


class DotfileOut(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Path relative to the home directory.")
    mode = serializers.CharField(help_text="Permissions in octal digits.")
    size_bytes = serializers.IntegerField()
    changed_at = serializers.DateTimeField()
    token_name = serializers.CharField(allow_blank=True, help_text=TOKEN_HELP)
    is_used = serializers.BooleanField(help_text=USE_HELP)


class DotfileWithContentOut(DotfileOut):
    content = serializers.CharField(allow_blank=True)


class DotfileInput(InputSerializer):
    path = TextField(
        check=check_dotfile_path,
        help_text="Path relative to the home directory, e.g. .bashrc or .config/git/config.",
    )
    content = TextField(
        check=check_content, allow_blank=True, help_text=f"Text, at most {MAX_CONTENT_BYTES} bytes."
    )
    mode = TextField(
        check=check_file_mode, required=False, default=DEFAULT_MODE, help_text="Permissions in octal digits."
    )


class ScriptInput(InputSerializer):
    content = TextField(check=check_content, help_text=f"Script for bash, at most {MAX_CONTENT_BYTES} bytes.")


class ScriptOut(serializers.Serializer[Any]):
    content = serializers.CharField()
    changed_at = serializers.DateTimeField()
    token_name = serializers.CharField(allow_blank=True, help_text=TOKEN_HELP)
    is_used = serializers.BooleanField(help_text=USE_HELP)


@extend_schema_view(get=extend_schema(operation_id="list_dotfiles"))
class DotfileListView(ListAPIView[Dotfile]):
    """List your dotfiles, without content."""

    is_private = True
    token_scopes = FOR_SESSIONS
    serializer_class = DotfileOut
    queryset = Dotfile.objects.none()

    def get_queryset(self) -> QuerySet[Dotfile]:
        return service.visible_dotfiles(actor_of(self.request))


class DotfileView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="read_dotfile", parameters=[PATH], responses={200: DotfileWithContentOut, **ABSENT}
    )
    def get(self, request: Request) -> Response:
        """Show one dotfile with its content."""
        found = service.access_dotfile(actor_of(request), _path_of(request))
        return Response(DotfileWithContentOut(found).data)

    @extend_schema(
        operation_id="write_dotfile",
        request=DotfileInput,
        responses={200: DotfileOut, 201: DotfileOut, (409, "application/json"): ErrorOut},
    )
    def put(self, request: Request) -> Response:
        """Save a dotfile: new sessions get it in their home directory. Replaces the file at the
        same path. At most 32 dotfiles. A token needs the scopes `sessions`, `folders` and `admin`.
        """
        require_newest_secret(request)
        asked = DotfileInput(data=request.data)
        asked.is_valid(raise_exception=True)
        file, is_new = service.put_dotfile(actor=actor_of(request), **asked.validated_data)
        return Response(DotfileOut(file).data, status=201 if is_new else 200)

    @extend_schema(operation_id="remove_dotfile", parameters=[PATH], responses={204: None, **ABSENT})
    def delete(self, request: Request) -> Response:
        """Delete a dotfile. Running sessions keep their copy."""
        service.remove_dotfile(actor=actor_of(request), path=_path_of(request))
        return Response(status=204)


class StartupScriptView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="read_startup_script", responses={200: ScriptOut, **ABSENT})
    def get(self, request: Request) -> Response:
        """Show your start-up script."""
        script = service.startup_script(actor_of(request))
        if script is None:
            raise NotFound(_("You have no start-up script."))
        return Response(ScriptOut(script).data)

    @extend_schema(operation_id="write_startup_script", request=ScriptInput, responses={200: ScriptOut})
    def put(self, request: Request) -> Response:
        """Save the script that runs in each new session, in bash, as the session's user: before the
        command of a batch session, beside the apps of an interactive one.

        It has one minute unless the portal is configured otherwise. Its output goes to the
        session's log; its failure does not end the session. A token needs the scopes `sessions`,
        `folders` and `admin`.
        """
        require_newest_secret(request)
        asked = ScriptInput(data=request.data)
        asked.is_valid(raise_exception=True)
        script = service.set_startup_script(actor=actor_of(request), **asked.validated_data)
        return Response(ScriptOut(script).data)

    @extend_schema(operation_id="remove_startup_script", responses={204: None, **ABSENT})
    def delete(self, request: Request) -> Response:
        """Delete the start-up script."""
        service.remove_startup_script(actor=actor_of(request))
        return Response(status=204)


def _path_of(request: Request) -> str:
    """Return the query parameter `path`. Raises InvalidInput if it is missing."""
    path = query_value(request, "path")
    if not path:
        sentence = _("Say which file, like ?path=.bashrc.")
        raise InvalidInput(sentence, fields={"path": [sentence]})
    return path
