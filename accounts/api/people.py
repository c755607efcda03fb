"""REST endpoints of users: list, create, change, close, reopen, purge."""

from typing import Any

from django.db.models import Prefetch, Q, QuerySet, prefetch_related_objects
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.people_serializers import (
    CloseInput,
    ClosingOut,
    MeOut,
    OwnTokenOut,
    UserChangeInput,
    UserCreatedOut,
    UserCreateInput,
    UserOut,
    WhoAmIOut,
)
from accounts.core.authorization import Action
from accounts.core.roles import Role
from accounts.models import OffBoarding, User
from accounts.selectors import (
    access_user,
    find_domain,
    find_user,
    known_memberships,
    visible_users,
    with_projects,
)
from accounts.sign_in import onboarding
from accounts.tenancy import offboarding, owned_resources, service
from common.actors import Actor
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN

STATES = (("open", "open"), ("closed", "closed"))


class MeView(APIView):
    token_scopes = EVERY_TOKEN

    @extend_schema(operation_id="me", responses={200: WhoAmIOut})
    def get(self, request: Request) -> Response:
        """Show the user of the token or login, and the scopes of the token."""
        token = OwnTokenOut(request.auth).data if request.auth is not None else None
        return Response({**MeOut(request.user).data, "token": token})


class UserFilter(filters.FilterSet):
    q = filters.CharFilter(method="narrow", label="Part of the e-mail address or name.", max_length=100)
    role = filters.ChoiceFilter(choices=[(role.value, role.value) for role in Role])
    domain = filters.CharFilter(field_name="domain__name", max_length=64)
    project = filters.CharFilter(method="of_project", label="Name of a project.", max_length=64)
    state = filters.ChoiceFilter(choices=STATES, method="in_state")

    class Meta:
        model = User
        fields = ("q", "role", "domain", "project", "state")

    def narrow(self, people: QuerySet[User], name: str, text: str) -> QuerySet[User]:
        return people.filter(Q(email__icontains=text) | Q(name__icontains=text))

    def of_project(self, people: QuerySet[User], name: str, project: str) -> QuerySet[User]:
        known = known_memberships(actor_of(self.request)).filter(project__name=project)
        return people.filter(pk__in=known.order_by().values("user_id"))

    def in_state(self, people: QuerySet[User], name: str, state: str) -> QuerySet[User]:
        return people.filter(is_active=state == "open")


@extend_schema_view(get=extend_schema(operation_id="list_users"))
class UserListView(ListAPIView[User]):
    """List the users visible to you: yourself, members of projects that you administer, and for a
    domain's administrator and monitor all of the domain. Their projects are shown if you are
    a member, or administer or monitor them.
    """

    token_scopes = FOR_ADMIN
    serializer_class = UserOut
    filterset_class = UserFilter
    queryset = User.objects.none()

    def get_queryset(self) -> QuerySet[User]:
        actor = actor_of(self.request)
        return with_projects(actor, visible_users(actor))

    @extend_schema(operation_id="create_user", request=UserCreateInput, responses={201: UserCreatedOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a user, as an administrator of the domain. Without a password the response has a
        link for the first sign-in.
        """
        values = UserCreateInput.parse(request)
        values["role"] = Role(values["role"])
        user, url = onboarding.onboard_user(actor=actor_of(request), **values)
        return Response(
            {**UserOut(user).data, "sign_in_url": url}, status=201, headers={"Cache-Control": "no-store"}
        )


class UserView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_user", responses={200: UserOut})
    def get(self, request: Request, user_id: int) -> Response:
        """Show one user."""
        return Response(_shown(actor_of(request), user_id))

    @extend_schema(operation_id="change_user", request=UserChangeInput, responses={200: UserOut})
    def patch(self, request: Request, user_id: int) -> Response:
        """Change address, name, role or domain of a user. You cannot assign a role above your own
        or change your own role. A user with sessions, folders or memberships in a domain cannot
        move to another.
        """
        actor = actor_of(request)
        access_user(actor, user_id, Action.EDIT)
        changes = UserChangeInput.parse(request)
        if "domain" in changes:
            changes["domain"] = find_domain(actor, changes["domain"])
        if "role" in changes:
            changes["role"] = Role(changes["role"])
        service.update_user(actor=actor, user_id=user_id, **changes)
        return Response(_shown(actor, user_id))

    @extend_schema(operation_id="purge_user", responses={204: None})
    def delete(self, request: Request, user_id: int) -> Response:
        """Purge a closed account without folders. If history refers to it, an anonymised row
        stays.
        """
        offboarding.purge_user(actor=actor_of(request), user_id=user_id)
        return Response(status=204)


class UserClosingView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_user_closing", responses={200: ClosingOut, 403: ErrorOut})
    def get(self, request: Request, user_id: int) -> Response:
        """Show the resources that closing the account would affect, and the report of the last
        closing.
        """
        return Response(_closing(actor_of(request), user_id))

    @extend_schema(operation_id="close_user", request=CloseInput, responses={202: ClosingOut})
    def post(self, request: Request, user_id: int) -> Response:
        """Close an account. Logins, tokens and memberships end at once, sessions are stopped, and
        folders are kept, handed over or deleted. The report is updated meanwhile.
        """
        actor = actor_of(request)
        access_user(actor, user_id, Action.CLOSE)
        values = CloseInput.parse(request)
        folders, email = OffBoarding.Folders(values["folders"]), values["heir"]
        new_owner = find_user(actor, email, field="heir") if email else None
        offboarding.close_user(actor=actor, user_id=user_id, folders=folders, new_owner=new_owner)
        return Response(_closing(actor, user_id), status=202)

    @extend_schema(operation_id="reopen_user", responses={200: UserOut})
    def delete(self, request: Request, user_id: int) -> Response:
        """Reopen an account. Tokens and memberships are not restored."""
        return Response(UserOut(offboarding.reopen_user(actor=actor_of(request), user_id=user_id)).data)


def _shown(actor: Actor, user_id: int) -> dict[str, Any]:
    user = access_user(actor, user_id, Action.VIEW)
    prefetch_related_objects([user], Prefetch("memberships", known_memberships(actor)))
    return dict(UserOut(user).data)


def _closing(actor: Actor, user_id: int) -> dict[str, Any]:
    user = access_user(actor, user_id, Action.CLOSE)
    case = user.offboardings.select_related("heir").first()
    affected = [
        owned_resources.item_label(handler.NAME, item.name)
        for handler, item in owned_resources.owned_items(user)
    ]
    if case is not None:
        case.report = offboarding.offboarding_report(case)  # type: ignore[attr-defined]
    found = {"is_active": user.is_active, "affected": affected, "offboarding": case}
    return dict(ClosingOut(found).data)
