"""REST endpoints of projects with their members, and of domains."""

from types import MappingProxyType
from typing import Any

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.people import STATES
from accounts.api.people_serializers import (
    DomainChangeInput,
    DomainCreateInput,
    ManagedDomainOut,
    ManagedProjectOut,
    MemberInput,
    MemberOut,
    NamedChangeInput,
    ProjectCreateInput,
)
from accounts.core.authorization import Action
from accounts.core.roles import ProjectRole
from accounts.models import Domain, Membership, Project
from accounts.selectors import (
    access_domain,
    access_member,
    access_project,
    find_domain,
    find_domain_user,
    known_projects,
    visible_domains,
)
from accounts.tenancy import archiving, service
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN


class NamedFilter(filters.FilterSet):
    q = filters.CharFilter(method="narrow", label="Part of the name or title.", max_length=100)
    state = filters.ChoiceFilter(choices=STATES, method="in_state")

    def narrow(self, rows: QuerySet[Any], name: str, text: str) -> QuerySet[Any]:
        return rows.filter(Q(name__icontains=text) | Q(title__icontains=text))

    def in_state(self, rows: QuerySet[Any], name: str, state: str) -> QuerySet[Any]:
        return rows.filter(is_active=state == "open")


class ProjectFilter(NamedFilter):
    domain = filters.CharFilter(field_name="domain__name", max_length=64)

    class Meta:
        model = Project
        fields = ("q", "state", "domain")


class DomainFilter(NamedFilter):
    class Meta:
        model = Domain
        fields = ("q", "state")


@extend_schema_view(get=extend_schema(operation_id="list_projects"))
class ProjectListView(ListAPIView[Project]):
    """List the projects visible to you: your own; for administrators and monitors all in
    their scope, archived ones included.
    """

    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"GET": EVERY_TOKEN})
    serializer_class = ManagedProjectOut
    filterset_class = ProjectFilter
    queryset = Project.objects.none()

    def get_queryset(self) -> QuerySet[Project]:
        return known_projects(actor_of(self.request))

    @extend_schema(
        operation_id="create_project", request=ProjectCreateInput, responses={201: ManagedProjectOut}
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a project, as an administrator of the domain."""
        values = ProjectCreateInput.parse(request)
        actor = actor_of(request)
        domain = find_domain(actor, values.pop("domain"))
        project = service.create_project(actor=actor, domain=domain, **values)
        return Response(ManagedProjectOut(project).data, status=201)


class ProjectView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_project", responses={200: ManagedProjectOut})
    def get(self, request: Request, project_id: int) -> Response:
        """Show one project."""
        return Response(ManagedProjectOut(access_project(actor_of(request), project_id, Action.VIEW)).data)

    @extend_schema(
        operation_id="change_project", request=NamedChangeInput, responses={200: ManagedProjectOut}
    )
    def patch(self, request: Request, project_id: int) -> Response:
        """Change a project, archive it (`is_active` false) or restore it. A project with live
        sessions cannot be archived.
        """
        actor = actor_of(request)
        access_project(actor, project_id, Action.EDIT)
        project = archiving.update_project(
            actor=actor, project_id=project_id, **NamedChangeInput.parse(request)
        )
        return Response(ManagedProjectOut(project).data)

    @extend_schema(operation_id="purge_project", responses={204: None})
    def delete(self, request: Request, project_id: int) -> Response:
        """Purge an archived project without folders and without sessions in its history."""
        archiving.purge_project(actor=actor_of(request), project_id=project_id)
        return Response(status=204)


@extend_schema_view(
    get=extend_schema(operation_id="list_members", responses={200: MemberOut(many=True), 403: ErrorOut})
)
class MemberListView(ListAPIView[Membership]):
    """List the members of a project that you administer or monitor."""

    token_scopes = FOR_ADMIN
    serializer_class = MemberOut
    filterset_fields = ("role",)
    queryset = Membership.objects.none()

    def get_queryset(self) -> QuerySet[Membership]:
        if getattr(self, "swagger_fake_view", False):
            return Membership.objects.none()
        project_id = self.kwargs["project_id"]
        project = access_project(actor_of(self.request), project_id, Action.VIEW_MEMBERS)
        return project.memberships.select_related("user").order_by("user__email")

    @extend_schema(operation_id="add_member", request=MemberInput, responses={201: MemberOut})
    @takes_idempotency_key
    def post(self, request: Request, project_id: int) -> Response:
        """Add a user of the domain to the project, or change the role of a member."""
        actor = actor_of(request)
        project = access_project(actor, project_id, Action.MANAGE_MEMBERS)
        values = MemberInput.parse(request)
        user = find_domain_user(project, values["email"])
        role = ProjectRole(values["role"])
        membership = service.add_member(actor=actor, project=project, user=user, role=role)
        return Response(MemberOut(membership).data, status=201)


class MemberView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="remove_member", responses={204: None})
    def delete(self, request: Request, project_id: int, user_id: int) -> Response:
        """Remove a user from the project. Their sessions in it are not stopped, but they lose
        access to them.
        """
        actor = actor_of(request)
        membership = access_member(actor, project_id, user_id)
        service.remove_member(actor=actor, project=membership.project, user=membership.user)
        return Response(status=204)


@extend_schema_view(get=extend_schema(operation_id="list_domains"))
class DomainListView(ListAPIView[Domain]):
    """List your domain; superadmins and monitors see all domains."""

    token_scopes = FOR_ADMIN
    serializer_class = ManagedDomainOut
    filterset_class = DomainFilter
    queryset = Domain.objects.none()

    def get_queryset(self) -> QuerySet[Domain]:
        return visible_domains(actor_of(self.request))

    @extend_schema(operation_id="create_domain", request=DomainCreateInput, responses={201: ManagedDomainOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a domain, as a superadmin."""
        domain = service.create_domain(actor=actor_of(request), **DomainCreateInput.parse(request))
        return Response(ManagedDomainOut(domain).data, status=201)


class DomainView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_domain", responses={200: ManagedDomainOut})
    def get(self, request: Request, domain_id: int) -> Response:
        """Show one domain."""
        return Response(ManagedDomainOut(access_domain(actor_of(request), domain_id, Action.VIEW)).data)

    @extend_schema(operation_id="change_domain", request=DomainChangeInput, responses={200: ManagedDomainOut})
    def patch(self, request: Request, domain_id: int) -> Response:
        """Change a domain, close it (`is_active` false) or reopen it, as a superadmin."""
        actor = actor_of(request)
        access_domain(actor, domain_id, Action.EDIT)
        domain = archiving.update_domain(actor=actor, domain_id=domain_id, **DomainChangeInput.parse(request))
        return Response(ManagedDomainOut(domain).data)

    @extend_schema(operation_id="purge_domain", responses={204: None})
    def delete(self, request: Request, domain_id: int) -> Response:
        """Purge a closed domain without users, projects and history."""
        archiving.purge_domain(actor=actor_of(request), domain_id=domain_id)
        return Response(status=204)
