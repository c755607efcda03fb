"""REST views that add machines, issue and revoke their certificates, and change their state."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.selectors import require_superadmin
from agents.api.serializers import AgentOut
from agents.connections import invitations, service
from agents.connections.pasted import LONGEST_PEM, PastedCertificates
from agents.connections.ssh_keys import own_ssh_key
from agents.core.states import AgentState
from agents.machines.lifecycle import Maintenance
from agents.machines.service import change_agent_state
from agents.models import REASON_LENGTH, Agent, MachineInvitation
from agents.selectors import access_agent, access_resource_group, visible_agents
from common.actors import Actor
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_ADMIN

STATES = [state.value for state in AgentState if state is not AgentState.LOST]
_NAME = "Name of the machine; a known one is looked at again, at this address."
_ADDRESS = "tcp://host:2376, ssh://user@host or unix:///var/run/docker.sock."
_GROUP = "Name of the resource group; default: that in which it is, else the default group."
_CONFIRMED = "An address of the portal's own machine, or an engine without certificates, is meant."


class AgentInput(InputSerializer):
    name = TextField(max_length=64, help_text=_NAME)
    address = TextField(max_length=255, help_text=_ADDRESS)
    resource_group = TextField(max_length=64, required=False, help_text=_GROUP)
    ca = TextField(max_length=LONGEST_PEM, required=False, help_text="PEM: authority of the engine.")
    certificate = TextField(max_length=LONGEST_PEM, required=False, help_text="PEM: for Berth, as client.")
    key = TextField(max_length=LONGEST_PEM, required=False, help_text="PEM: key of this certificate.")
    host_key = TextField(
        max_length=2000,
        required=False,
        help_text="SSH host key that the machine must show; default: any, kept.",
    )
    is_plain_text = serializers.BooleanField(
        required=False, help_text="The engine has no certificates; needs is_confirmed."
    )
    is_confirmed = serializers.BooleanField(required=False, help_text=_CONFIRMED)


class MachineInvitationInput(InputSerializer):
    name = TextField(max_length=64)
    address = TextField(max_length=255, help_text="tcp://host:2376.")
    resource_group = TextField(max_length=64, required=False, help_text=_GROUP)
    more_names = serializers.ListField(
        child=TextField(max_length=255),
        required=False,
        max_length=20,
        help_text="Further host names and IP addresses in the certificate.",
    )
    is_confirmed = serializers.BooleanField(required=False, help_text=_CONFIRMED)


class CertificateInput(InputSerializer):
    is_compromised = serializers.BooleanField(
        required=False, help_text="true: the old certificate is not trusted from now on."
    )


class MachineInvitationOut(serializers.ModelSerializer[MachineInvitation]):
    class Meta:
        model = MachineInvitation
        fields: tuple[str, ...] = ("id", "name", "address", "token_ends_at", "fetched_at", "last_error")
        read_only_fields = fields


class IssuedCertificateOut(MachineInvitationOut):
    script_url: Any = serializers.SerializerMethodField(
        help_text="Script for the machine, to be run as root; works once, within an hour."
    )

    class Meta(MachineInvitationOut.Meta):
        fields = (*MachineInvitationOut.Meta.fields, "script_url")
        read_only_fields = fields

    def get_script_url(self, _invitation: MachineInvitation) -> str:
        return invitations.script_url(self.context["token"])


class AgentStateInput(InputSerializer):
    state = serializers.ChoiceField(choices=STATES)
    ends_at = serializers.DateTimeField(
        required=False,
        allow_null=True,
        help_text="End of a maintenance; the machine takes sessions again when it answers then.",
    )
    because = TextField(
        max_length=REASON_LENGTH,
        required=False,
        allow_blank=True,
        help_text="Reason of a maintenance, which people who wait for the machine read.",
    )


class AgentSshKeyOut(serializers.Serializer[Any]):
    public_key = serializers.CharField(help_text="Line for ~/.ssh/authorized_keys on machines.")


class InvitationListView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="list_machine_invitations", responses=MachineInvitationOut(many=True))
    def get(self, request: Request) -> Response:
        """List machines that were issued a certificate and have not answered yet. For superadmins."""
        require_superadmin(actor_of(request))
        return Response(MachineInvitationOut(MachineInvitation.objects.filter(agent=None), many=True).data)

    @extend_schema(
        operation_id="create_machine_invitation",
        request=MachineInvitationInput,
        responses={201: IssuedCertificateOut, 409: ErrorOut},
    )
    def post(self, request: Request) -> Response:
        """Issue a certificate for a machine, which is added when its engine answers. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = MachineInvitationInput(data=request.data)
        data.is_valid(raise_exception=True)
        invitation, token = invitations.invite_machine(actor=actor, **_with_group(actor, data.validated_data))
        return Response(IssuedCertificateOut(invitation, context={"token": token}).data, status=201)


class InvitationView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="cancel_machine_invitation", responses={204: None})
    def delete(self, request: Request, machine_invitation_id: int) -> Response:
        """Withdraw the certificate of a machine that has not answered. For superadmins."""
        invitations.cancel_invitation(actor=actor_of(request), invitation_id=machine_invitation_id)
        return Response(status=204)


class CertificateView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="rotate_agent_certificate",
        request=CertificateInput,
        responses={201: IssuedCertificateOut, 409: ErrorOut},
    )
    def post(self, request: Request, agent_id: int) -> Response:
        """Issue a new certificate for a machine that has one of Berth's. For superadmins."""
        actor = actor_of(request)
        require_superadmin(actor)
        data = CertificateInput(data=request.data)
        data.is_valid(raise_exception=True)
        issued, token = invitations.issue_again(actor=actor, agent_id=agent_id, **data.validated_data)
        return Response(IssuedCertificateOut(issued, context={"token": token}).data, status=201)

    @extend_schema(operation_id="revoke_connection", responses={204: None, 409: ErrorOut})
    def delete(self, request: Request, agent_id: int) -> Response:
        """Retire a machine and forget all by which it was reached. For superadmins."""
        service.revoke_connection(actor=actor_of(request), agent_id=agent_id)
        return Response(status=204)


class AgentStateView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="change_agent_state", request=AgentStateInput, responses={200: AgentOut, 409: ErrorOut}
    )
    def post(self, request: Request, agent_id: int) -> Response:
        """Drain a machine, put it into maintenance, retire it, or connect it again. For superadmins."""
        actor = actor_of(request)
        access_agent(actor, agent_id)
        require_superadmin(actor)
        data = AgentStateInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = data.validated_data
        maintenance = Maintenance(values.get("ends_at"), values.get("because", ""))
        change_agent_state(
            actor=actor, agent_id=agent_id, to=AgentState(values["state"]), maintenance=maintenance
        )
        return Response(agent_data(actor, agent_id))


class SshKeyView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_agent_ssh_key", responses=AgentSshKeyOut)
    def get(self, request: Request) -> Response:
        """Return the public key with which Berth signs in on machines by SSH. For superadmins."""
        require_superadmin(actor_of(request))
        return Response({"public_key": own_ssh_key().public_key})


def add_by_request(actor: Actor, body: Any) -> Agent:
    """Add the machine that the body of a request describes."""
    require_superadmin(actor)
    data = AgentInput(data=body)
    data.is_valid(raise_exception=True)
    values = _with_group(actor, data.validated_data)
    pem = [values.pop(name, "") for name in ("ca", "certificate", "key")]
    certificates = PastedCertificates(*pem) if any(pem) else None
    return service.add_agent(actor=actor, new=service.NewAgent(certificates=certificates, **values))


def agent_data(actor: Actor, agent_id: int) -> Any:
    return AgentOut(visible_agents(actor).with_parts().get(pk=agent_id)).data


def _with_group(actor: Actor, values: dict[str, Any]) -> dict[str, Any]:
    name = values.pop("resource_group", None)
    return {**values, "resource_group": access_resource_group(actor, name)} if name else values
