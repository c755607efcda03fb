"""REST endpoints of invitations and of a domain's sign-up settings."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.people_serializers import MOST_PROJECTS, ROLES
from accounts.core.authorization import Action
from accounts.core.roles import Role
from accounts.core.sign_up import MOST_MAIL_DOMAINS, InvitationState, SignUp
from accounts.models import Domain, Invitation
from accounts.selectors import access_domain
from accounts.tenancy import archiving, invitations
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_ADMIN

WAYS = [way.value for way in SignUp]
STATES = [state.value for state in InvitationState]


class NamesField(serializers.ListField):
    """List field of the names of related rows."""

    child = serializers.CharField()

    def to_representation(self, related: Any) -> list[str]:
        return [each.name for each in related.all()]


class InvitationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    email = serializers.CharField(
        help_text="E-mail address of the invited user; empty: anybody with the link."
    )
    role = serializers.ChoiceField(choices=ROLES)
    domain = serializers.CharField(source="domain.name")
    projects = NamesField()
    inviter = serializers.EmailField(source="inviter.email")
    state = serializers.SerializerMethodField()
    uses = serializers.IntegerField(help_text="Number of users who may accept the invitation.")
    used = serializers.IntegerField(help_text="Number of users who have accepted the invitation.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    mailed_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, invitation: Invitation) -> str:
        return invitations.current_state(invitation).value


class InvitationCreatedOut(InvitationOut):
    url = serializers.CharField(help_text="Link of the invitation; shown only in this response.")


class InvitationInput(InputSerializer):
    email = TextField(
        max_length=254,
        required=False,
        default="",
        allow_blank=True,
        help_text="E-mail address of the invited user; empty: anybody with the link.",
    )
    domain = TextField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Name of the domain; default: your own.",
    )
    role = serializers.ChoiceField(choices=ROLES, required=False, default=Role.USER.value)
    projects = serializers.ListField(
        child=TextField(max_length=64), required=False, default=list, max_length=MOST_PROJECTS
    )
    days = serializers.IntegerField(
        min_value=1, max_value=invitations.MOST_DAYS, required=False, default=invitations.DEFAULT_DAYS
    )
    uses = serializers.IntegerField(min_value=1, max_value=invitations.MAX_USES, required=False, default=1)


class SignUpOut(serializers.Serializer[Any]):
    sign_up = serializers.ChoiceField(choices=WAYS)
    mail_domains = NamesField()


class SignUpInput(InputSerializer):
    sign_up = serializers.ChoiceField(choices=WAYS)
    mail_domains = serializers.ListField(
        child=TextField(max_length=253),
        required=False,
        default=list,
        max_length=MOST_MAIL_DOMAINS,
        help_text="Mail domains of the domain: the part of addresses after the @.",
    )


class InvitationFilter(filters.FilterSet):
    email = filters.CharFilter(max_length=254)
    domain = filters.CharFilter(field_name="domain__name", max_length=64)

    class Meta:
        model = Invitation
        fields = ("email", "domain")


@extend_schema_view(get=extend_schema(operation_id="list_invitations"))
class InvitationListView(ListAPIView[Invitation]):
    """List invitations to your domain, as its administrator; superadmins see all."""

    token_scopes = FOR_ADMIN
    serializer_class = InvitationOut
    filterset_class = InvitationFilter
    queryset = Invitation.objects.none()

    def get_queryset(self) -> QuerySet[Invitation]:
        return invitations.visible_invitations(actor_of(self.request)).prefetch_related("projects")

    @extend_schema(
        operation_id="create_invitation", request=InvitationInput, responses={201: InvitationCreatedOut}
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Invite a user to a domain that accepts invitations. The response has the link. The link
        is also mailed if mail is configured and an address is given.
        """
        values = InvitationInput.parse(request)
        values["role"] = Role(values["role"])
        invitation, url = invitations.create_invitation(actor=actor_of(request), **values)
        return Response(
            {**InvitationOut(invitation).data, "url": url}, status=201, headers={"Cache-Control": "no-store"}
        )


class InvitationView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_invitation", responses={200: InvitationOut})
    def get(self, request: Request, invitation_id: int) -> Response:
        """Show one invitation, without its link."""
        return Response(InvitationOut(invitations.access_invitation(actor_of(request), invitation_id)).data)

    @extend_schema(operation_id="revoke_invitation", responses={204: None})
    def delete(self, request: Request, invitation_id: int) -> Response:
        """Revoke an invitation. Its link stops working; accounts created by it stay."""
        invitations.revoke_invitation(actor=actor_of(request), invitation_id=invitation_id)
        return Response(status=204)


class DomainSignUpView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_sign_up", responses={200: SignUpOut, 403: ErrorOut})
    def get(self, request: Request, domain_id: int) -> Response:
        """Show the sign-up mode of a domain and its mail domains."""
        return Response(SignUpOut(_domain_for_change(request, domain_id)).data)

    @extend_schema(operation_id="change_sign_up", request=SignUpInput, responses={200: SignUpOut})
    def patch(self, request: Request, domain_id: int) -> Response:
        """Set the sign-up mode, as a superadmin: `closed`, `invitation`, or `open` to addresses of
        `mail_domains`.
        """
        _domain_for_change(request, domain_id)
        values = SignUpInput.parse(request)
        domain = archiving.set_sign_up(
            actor=actor_of(request),
            domain_id=domain_id,
            sign_up=SignUp(values["sign_up"]),
            mail_domains=values["mail_domains"],
        )
        return Response(SignUpOut(domain).data)


def _domain_for_change(request: Request, domain_id: int) -> Domain:
    return access_domain(actor_of(request), domain_id, Action.EDIT)
