"""REST views of shares, invitations and public links of folders."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_FOLDERS
from vfolders.api.serializers import FolderOut
from vfolders.core.permissions import OWNERSHIP, Action, Right
from vfolders.models import FolderLink, FolderShare, VFolder
from vfolders.public_links import service as links
from vfolders.selectors import access_folder
from vfolders.sharing import service
from vfolders.sharing.selectors import folder_shares, own_invitations, sessions_without_right

RIGHTS = [right.value for right in Right]
INVITATION_RIGHTS = [*RIGHTS, OWNERSHIP]
_REFUSALS = {400: ErrorOut, 403: ErrorOut, 404: ErrorOut, 409: ErrorOut}
_EXPIRES = "End of the right, as an instant with a time zone; null: none."


class ShareInput(InputSerializer):
    person = TextField(
        max_length=254, required=False, allow_blank=True, default="",
        help_text="E-mail address or name of the person to invite.",
    )  # fmt: skip
    project = TextField(
        max_length=64, required=False, allow_blank=True, default="",
        help_text="Name of the project to share with, instead of a person.",
    )  # fmt: skip
    right = serializers.ChoiceField(
        choices=INVITATION_RIGHTS,
        help_text="read; write: and change files; delete: and delete the folder; owner: offer to hand over the folder.",
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None, help_text=_EXPIRES)
    answer_days = serializers.IntegerField(
        min_value=1, max_value=service.MOST_ANSWER_DAYS, required=False, default=service.DEFAULT_ANSWER_DAYS,
        help_text="Days in which an invitation can be accepted.",
    )  # fmt: skip


class ShareChangeInput(InputSerializer):
    right = serializers.ChoiceField(choices=RIGHTS, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, help_text=_EXPIRES)


class ShareOut(serializers.ModelSerializer[FolderShare]):
    person = serializers.EmailField(source="user.email", default=None, allow_null=True)
    project = serializers.CharField(source="project.name", default=None, allow_null=True)
    inviter = serializers.EmailField(source="inviter.email", default=None, allow_null=True)
    right = serializers.ChoiceField(choices=INVITATION_RIGHTS)
    is_open = serializers.BooleanField(help_text="true for an invitation that waits for an answer.")

    class Meta:
        model = FolderShare
        fields: tuple[str, ...] = (
            "id", "person", "project", "right", "is_open", "inviter", "created_at", "answer_by", "accepted_at", "expires_at",
        )  # fmt: skip
        read_only_fields = fields


class SharesOut(serializers.Serializer[Any]):
    shares = ShareOut(many=True)


class FolderInvitationOut(ShareOut):
    folder = FolderOut()

    class Meta(ShareOut.Meta):
        fields = ("folder", *ShareOut.Meta.fields)
        read_only_fields = fields


class FolderInvitationsOut(serializers.Serializer[Any]):
    invitations = FolderInvitationOut(many=True)


class MountingSessionOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.EmailField()
    is_readonly = serializers.BooleanField()
    status = serializers.CharField()


class MountingSessionsOut(serializers.Serializer[Any]):
    sessions = MountingSessionOut(many=True)


class MountingSessionsInput(InputSerializer):
    sessions = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=200)


class EndedSessionsOut(serializers.Serializer[Any]):
    ended = serializers.IntegerField(help_text="Number of sessions that are being ended.")


class LinkInput(InputSerializer):
    path = TextField(
        max_length=4096, required=False, allow_blank=True, default="",
        help_text="File or directory in the folder; empty: all of it. Directories are sent as ZIP archives.",
    )  # fmt: skip
    days = serializers.IntegerField(
        min_value=1, max_value=links.MOST_DAYS, required=False, default=links.DEFAULT_DAYS,
        help_text="Days after which the link expires.",
    )  # fmt: skip
    max_downloads = serializers.IntegerField(
        min_value=1, max_value=links.MOST_DOWNLOADS, required=False, allow_null=True, default=None,
        help_text="Number of downloads; null: any number.",
    )  # fmt: skip


class LinkOut(serializers.ModelSerializer[FolderLink]):
    creator = serializers.EmailField(source="creator.email")

    class Meta:
        model = FolderLink
        fields: tuple[str, ...] = (
            "id",
            "path",
            "creator",
            "created_at",
            "expires_at",
            "max_downloads",
            "downloads",
        )
        read_only_fields = fields


class LinksOut(serializers.Serializer[Any]):
    links = LinkOut(many=True)


class LinkCreatedOut(LinkOut):
    url = serializers.CharField(help_text="Address of the link; shown only in this answer.")

    class Meta(LinkOut.Meta):
        fields = (*LinkOut.Meta.fields, "url")
        read_only_fields = fields


class ShareListView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="list_folder_shares", responses={200: SharesOut, 403: ErrorOut, 404: ErrorOut}
    )
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List with whom the folder is shared, and open invitations."""
        return Response(SharesOut({"shares": folder_shares(actor_of(request), folder_id)}).data)

    @extend_schema(operation_id="share_folder", request=ShareInput, responses={201: ShareOut, **_REFUSALS})
    @takes_idempotency_key
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Invite a person of the folder's domain, or share with a project at once."""
        share = service.share_folder(
            actor=actor_of(request), folder_id=folder_id, **ShareInput.parse(request)
        )
        return Response(ShareOut(share).data, status=201)


class ShareView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="change_folder_share", request=ShareChangeInput, responses={200: ShareOut, **_REFUSALS}
    )
    def patch(self, request: Request, folder_id: UUID, share_id: UUID) -> Response:
        """Change the right of a share or an invitation, or its end. Holds at once."""
        wanted = ShareChangeInput.parse(request)
        is_endless = "expires_at" in wanted and wanted["expires_at"] is None
        share = service.change_share(
            actor=actor_of(request), folder_id=folder_id, share_id=share_id, is_endless=is_endless, **wanted
        )
        return Response(ShareOut(share).data)

    @extend_schema(operation_id="revoke_folder_share", responses={204: None, 403: ErrorOut, 404: ErrorOut})
    def delete(self, request: Request, folder_id: UUID, share_id: UUID) -> Response:
        """Take back a share, or withdraw an invitation. Transfers end at once; sessions that mount the
        folder keep it until they end.
        """
        service.revoke_share(actor=actor_of(request), folder_id=folder_id, share_id=share_id)
        return Response(status=204)


class LeaveFolderView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="leave_folder", request=None, responses={204: None, 404: ErrorOut, 409: ErrorOut}
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Give back your own share of a folder."""
        service.leave_folder(actor=actor_of(request), folder_id=folder_id)
        return Response(status=204)


class MountingSessionsView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="list_sessions_without_right",
        responses={200: MountingSessionsOut, 403: ErrorOut, 404: ErrorOut},
    )
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List the live sessions that mount the folder though their owner has no right to it any more."""
        folder = access_folder(actor_of(request), folder_id, Action.SHARE)
        return Response(MountingSessionsOut({"sessions": sessions_without_right(folder)}).data)

    @extend_schema(
        operation_id="end_sessions_without_right",
        request=MountingSessionsInput,
        responses={200: EndedSessionsOut, **_REFUSALS},
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """End those of these sessions that mount the folder without a right."""
        ids = MountingSessionsInput.parse(request)["sessions"]
        ended = service.end_sessions_without_right(
            actor=actor_of(request), folder_id=folder_id, session_ids=ids
        )
        return Response(EndedSessionsOut({"ended": ended}).data)


class FolderInvitationListView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="list_folder_invitations", responses={200: FolderInvitationsOut})
    def get(self, request: Request) -> Response:
        """List the invitations to folders that you can answer now."""
        return Response(FolderInvitationsOut({"invitations": own_invitations(actor_of(request))}).data)


class AcceptShareView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="accept_folder_invitation",
        request=None,
        responses={200: FolderOut, 404: ErrorOut, 409: ErrorOut, 422: ErrorOut},
    )
    def post(self, request: Request, share_id: UUID) -> Response:
        """Accept an invitation to a folder, or become its owner. A repeat changes nothing."""
        folder: VFolder = service.accept_share(actor=actor_of(request), share_id=share_id)
        return Response(FolderOut(folder).data)


class DeclineShareView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(
        operation_id="decline_folder_invitation",
        request=None,
        responses={204: None, 404: ErrorOut, 409: ErrorOut},
    )
    def post(self, request: Request, share_id: UUID) -> Response:
        """Decline an invitation to a folder."""
        service.decline_share(actor=actor_of(request), share_id=share_id)
        return Response(status=204)


class LinkListView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="list_folder_links", responses={200: LinksOut, 403: ErrorOut, 404: ErrorOut})
    def get(self, request: Request, folder_id: UUID) -> Response:
        """List the public links of a folder."""
        return Response(LinksOut({"links": links.folder_links(actor_of(request), folder_id)}).data)

    @extend_schema(
        operation_id="create_folder_link", request=LinkInput, responses={201: LinkCreatedOut, **_REFUSALS}
    )
    def post(self, request: Request, folder_id: UUID) -> Response:
        """Create a link by which anybody downloads a file or directory without signing in."""
        link, url = links.create_link(
            actor=actor_of(request), folder_id=folder_id, **LinkInput.parse(request)
        )
        return Response({**LinkOut(link).data, "url": url}, status=201)


class LinkView(APIView):
    token_scopes = FOR_FOLDERS

    @extend_schema(operation_id="revoke_folder_link", responses={204: None, 403: ErrorOut, 404: ErrorOut})
    def delete(self, request: Request, folder_id: UUID, link_id: UUID) -> Response:
        """Revoke a public link. Downloads under way end."""
        links.revoke_link(actor=actor_of(request), folder_id=folder_id, link_id=link_id)
        return Response(status=204)
