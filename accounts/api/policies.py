"""REST endpoints of resource policies, their assignment, and the limits that apply to a user."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.policy_serializers import (
    AssignmentInput,
    AssignmentOut,
    ImpactOut,
    PolicyChangeInput,
    PolicyCreateInput,
    PolicyOut,
    PolicyUserOut,
)
from accounts.core import allow_lists
from accounts.core.authorization import Action
from accounts.core.limits import Level, Scope, all_limits, effective_limits
from accounts.limits import allow_list_json, read_scopes, scope_ids, user_scopes
from accounts.models import ResourcePolicy
from accounts.policies import service
from accounts.policies.selectors import (
    access_policy,
    assignable_policies,
    find_policy,
    limited_objects,
    policy_impact,
    visible_policies,
)
from accounts.selectors import (
    access_usable_project,
    find_domain,
    find_shared_project,
    find_user,
    may_do_everything,
)
from common.actors import Actor
from common.errors import NotFound
from common.rest.actor import actor_of
from common.rest.errors import AllowListOut, ErrorOut, LimitOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import query_value
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN

MOST_USERS = 1000


class EffectiveLimitsOut(serializers.Serializer[Any]):
    user = serializers.CharField(allow_blank=True, help_text="E-mail address in the request; empty: you.")
    project = serializers.CharField(allow_blank=True)
    limits = LimitOut(many=True, help_text="Tightest value of each limit, and all values with `is_joint`.")
    levels = LimitOut(many=True, help_text="Each limit of each level.")
    allow_lists = AllowListOut(
        many=True, help_text="Allow-lists of each level; a value must be in all lists of its kind."
    )


class PolicyFilter(filters.FilterSet):
    name = filters.CharFilter(max_length=64)
    domain = filters.CharFilter(field_name="domain__name", max_length=64)

    class Meta:
        model = ResourcePolicy
        fields = ("name", "domain")


@extend_schema_view(get=extend_schema(operation_id="list_policies"))
class PolicyListView(ListAPIView[ResourcePolicy]):
    """List resource policies that you manage or that apply in your domain; superadmins see all."""

    token_scopes = FOR_ADMIN
    serializer_class = PolicyOut
    filterset_class = PolicyFilter
    queryset = ResourcePolicy.objects.none()

    def get_queryset(self) -> QuerySet[ResourcePolicy]:
        return visible_policies(actor_of(self.request)).order_by("name", "pk")

    @extend_schema(operation_id="create_policy", request=PolicyCreateInput, responses={201: PolicyOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a policy of your domain or, as a superadmin, of the whole installation. It is not
        assigned yet.
        """
        values = PolicyCreateInput.parse(request)
        actor, name, home = actor_of(request), values.pop("name"), values.pop("domain")
        domain = find_domain(actor, home) if home or not may_do_everything(actor) else None
        policy = service.create_policy(actor=actor, name=name, domain=domain, limits=values)
        return Response(PolicyOut(policy).data, status=201)


class PolicyView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_policy", responses={200: PolicyOut})
    def get(self, request: Request, policy_id: int) -> Response:
        """Show one resource policy."""
        return Response(PolicyOut(access_policy(actor_of(request), policy_id, Action.VIEW)).data)

    @extend_schema(operation_id="change_policy", request=PolicyChangeInput, responses={200: PolicyOut})
    def patch(self, request: Request, policy_id: int) -> Response:
        """Change the given fields; null removes a limit. Running sessions continue even above a
        limit, except idle or under-utilised ones: they end by the new limits, after a warning to
        their owners. `impact/` previews the affected objects.
        """
        actor = actor_of(request)
        access_policy(actor, policy_id, Action.EDIT)
        values = PolicyChangeInput.parse(request)
        name, is_default = values.pop("name", None), values.pop("is_default", None)
        policy = service.update_policy(actor=actor, policy_id=policy_id, name=name, limits=values)
        if is_default:
            policy = service.make_default(actor=actor, policy_id=policy_id)
        return Response(PolicyOut(policy).data)

    @extend_schema(operation_id="delete_policy", responses={204: None, 409: ErrorOut})
    def delete(self, request: Request, policy_id: int) -> Response:
        """Delete a policy that is not assigned."""
        service.delete_policy(actor=actor_of(request), policy_id=policy_id)
        return Response(status=204)


class PolicyUserListView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="list_policy_users", responses={200: PolicyUserOut(many=True)})
    def get(self, request: Request, policy_id: int) -> Response:
        """List the objects that the policy limits, at most a thousand of each level."""
        actor = actor_of(request)
        policy = access_policy(actor, policy_id, Action.VIEW)
        found = limited_objects(actor, policy, most=MOST_USERS)
        rows = [{"level": level, "id": pk, "name": name} for level, pk, name in found]
        return Response(PolicyUserOut(rows, many=True).data)


class PolicyImpactView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="check_policy_change", request=PolicyChangeInput, responses={200: ImpactOut})
    def post(self, request: Request, policy_id: int) -> Response:
        """Show the effect of a change without making it: the number of objects limited, and those
        that already use more. These would keep running sessions and could start none until their
        use is below the limit. Idle or under-utilised sessions, which would end after a warning,
        are not counted.
        """
        actor = actor_of(request)
        policy = access_policy(actor, policy_id, Action.EDIT)
        return Response(ImpactOut(policy_impact(actor, policy, PolicyChangeInput.parse(request))).data)


class PolicyAssignmentView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="assign_policy",
        request=AssignmentInput,
        responses={200: AssignmentOut, 400: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    def post(self, request: Request) -> Response:
        """Assign a policy to a domain, project, user or token; an empty name removes it. Running
        sessions continue, except idle or under-utilised ones: they end by the policy's limits,
        after a warning to their owners.
        """
        values = AssignmentInput.parse(request)
        actor, level = actor_of(request), Level(values["level"])
        target = service.access_limited(actor, level, values["id"])
        policy = _wanted_policy(request, level, service.target_domain_id(target), values["policy"])
        service.assign_policy(actor=actor, target=target, policy=policy)
        body: dict[str, Any] = {
            "level": level, "id": target.pk, "name": str(target), "policy": policy.name if policy else ""
        }  # fmt: skip
        return Response(AssignmentOut(body).data)


def _wanted_policy(request: Request, level: Level, domain_id: int, name: str) -> ResourcePolicy | None:
    """Return the policy by name or number among those that may be assigned there; otherwise any
    visible one, so that the refusal explains the reason.
    """
    if not name:
        return None
    actor = actor_of(request)
    here = assignable_policies(actor, level, domain_id).filter(name=name)
    if len(found := here[:2]) == 1:
        return found[0]
    if name.isascii() and name.isdecimal() and len(name) < 18:
        try:
            return access_policy(actor, int(name), Action.VIEW)
        except NotFound:
            pass
    return find_policy(actor, name)


class LimitListView(APIView):
    token_scopes = EVERY_TOKEN

    @extend_schema(
        operation_id="list_limits",
        parameters=[
            OpenApiParameter(
                "user", OpenApiTypes.STR, description="E-mail address of a user visible to you; default: you."
            ),
            OpenApiParameter(
                "project",
                OpenApiTypes.STR,
                description="Name of a project of the user; without it, limits of projects are left out.",
            ),
        ],
        responses={200: EffectiveLimitsOut, 401: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    def get(self, request: Request) -> Response:
        """Show your limits, or those of a user visible to you: the tightest value of each limit with
        its source, use and rest; then each limit of each level, and each allow-list. A limit that
        is not listed is unlimited.
        """
        email, name = query_value(request, "user"), query_value(request, "project")
        scopes = _scopes(actor_of(request), email, name)
        lists = [allow_list_json(each) for each in allow_lists.all_lists(scopes)]
        body = {
            "user": email,
            "project": name,
            "limits": effective_limits(scopes),
            "levels": all_limits(scopes),
        }
        body["allow_lists"] = lists
        return Response(EffectiveLimitsOut(body).data)


def _scopes(actor: Actor, email: str, name: str) -> list[Scope]:
    if not email:
        project = access_usable_project(actor, name) if name else None
        return read_scopes(scope_ids(actor, project).keys())
    user = find_user(actor, email, field="user")
    return user_scopes(user, find_shared_project(actor, user, name) if name else None)
