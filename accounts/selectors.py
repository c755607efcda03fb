"""Queries for domains, projects and users. `visible_*` is the only list source, `access_*` the only
single fetch.
"""

from collections.abc import Collection

from django.db.models import F, Prefetch, Q, QuerySet, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils.translation import gettext as _

from accounts.core import authorization
from accounts.core.authorization import Action, Actions, ActorScope
from accounts.core.roles import OVERSEERS_OF_ALL, OVERSEERS_OF_DOMAIN, ProjectRole, Role
from accounts.models import Domain, Membership, PeopleImport, Project, User
from common.actors import Actor, ActorKind
from common.errors import BerthError, NotFound, PermissionDenied
from common.messaging.live_updates import Listener
from common.values.text import quoted


def _lookup_id(number: int | None) -> int:
    """Return an id for lookups; 0, which matches no row, for the system and for anonymous actors."""
    return number or 0


def may_do_everything(actor: Actor) -> bool:
    """Return true for superadmins and the system; the only place of the superadmin bypass."""
    return actor.is_superadmin or actor.is_system


def sees_everything(actor: Actor) -> bool:
    """Return true for superadmins, the system, and monitors, who are read-only."""
    return may_do_everything(actor) or actor.is_monitor


def require_superadmin(actor: Actor) -> None:
    """Raise PermissionDenied unless the actor is a superadmin or the system."""
    if not may_do_everything(actor):
        raise PermissionDenied(_("Only a superadmin may do this."), hint=_("Ask a superadmin."))


def get_acting_user(actor: Actor, *, is_locked: bool = False) -> User:
    """Return the acting user. With `is_locked` the row is locked until the transaction ends. Raises
    NotFound for the system and for users who were removed meanwhile.
    """
    people = User.objects.select_related("domain")
    if is_locked:
        people = people.select_for_update(of=("self",), no_key=True)
    user = people.filter(pk=_lookup_id(actor.user_id), is_active=True).first()
    if user is None:
        raise NotFound(_("This account does not exist any more."))
    return user


def user_actor(user: User) -> Actor:
    """Return an actor with the present rights of `user`, to check these without a request. No query."""
    return Actor(
        kind=ActorKind.USER,
        user_id=user.pk,
        label=user.email,
        domain_id=user.domain_id,
        is_superadmin=user.is_superuser,
        is_monitor=user.is_monitor,
        is_domain_monitor=user.is_domain_monitor,
    )


def overseen_domain_id(actor: Actor) -> int | None:
    """Return the id of the domain whose admin or monitor the actor is, else None. One query."""
    return overseen_domain_ids(actor).first()


def overseen_domain_ids(actor: Actor) -> QuerySet[User, int]:
    """Return the id of `overseen_domain_id` as a subquery with at most one row."""
    overseers = User.objects.filter(
        pk=_lookup_id(actor.user_id), is_active=True, role__in=OVERSEERS_OF_DOMAIN
    )
    return overseers.values_list("domain_id", flat=True)


def oversees_others(actor: Actor) -> bool:
    """Return true if lists may show the actor objects of other users: administrators and monitors.
    At most one query.
    """
    if sees_everything(actor):
        return True
    is_overseer = Q(role__in=OVERSEERS_OF_DOMAIN) | Q(memberships__role=ProjectRole.ADMIN)
    return User.objects.filter(is_overseer, pk=_lookup_id(actor.user_id), is_active=True).exists()


def administered_project_ids(actor: Actor) -> QuerySet[Membership, int]:
    """Ids of own-domain projects that the actor administers, as a subquery; none for monitors."""
    admins = Membership.objects.filter(user_id=_lookup_id(actor.user_id), role=ProjectRole.ADMIN)
    if actor.is_read_only:
        admins = admins.none()
    return admins.filter(project__domain_id=_lookup_id(actor.domain_id)).values_list("project_id", flat=True)


PROJECT_TITLE = Coalesce(NullIf("title", Value("")), "name")  # Equals str(project), for queries


def visible_projects(actor: Actor) -> QuerySet[Project]:
    """Active projects the actor may see: own ones; all of the domain for its admin and monitor; all
    for superadmins and monitors. Other roles never see another domain.
    """
    projects = Project.objects.select_related("domain").filter(is_active=True, domain__is_active=True)
    if sees_everything(actor):
        return projects
    own = Membership.objects.filter(user_id=_lookup_id(actor.user_id)).values("project_id")
    is_seen = Q(pk__in=own) | Q(domain_id__in=overseen_domain_ids(actor))
    return projects.filter(is_seen, domain_id=_lookup_id(actor.domain_id))


def read_actor_scope(actor: Actor) -> ActorScope:
    """Read the actor's current role, domain and projects from the database, not from the request.
    One query; none for the system.
    """
    if actor.is_system:
        return ActorScope(role=Role.SUPERADMIN)
    people = User.objects.filter(pk=_lookup_id(actor.user_id), is_active=True, domain__is_active=True)
    columns = ("memberships__project_id", "memberships__role", "memberships__project__domain_id")
    rows = list(people.values_list("role", "domain_id", *columns))  # without projects one row with nulls
    if not rows:
        return ActorScope()
    role, domain_id = rows[0][:2]
    projects = [(row[2], row[3]) for row in rows if row[4] == domain_id]
    return ActorScope(
        user_id=_lookup_id(actor.user_id),
        role=Role(role),
        domain_id=domain_id,
        project_ids=frozenset(project_id for project_id, _role in projects),
        administered_ids=frozenset(pk for pk, project_role in projects if project_role == ProjectRole.ADMIN),
    )


def visible_domains(actor: Actor) -> QuerySet[Domain]:
    """The actor's own domain; all domains, closed ones included, for superadmins and monitors."""
    domains = Domain.objects.all()
    return domains if sees_everything(actor) else domains.filter(pk=_lookup_id(actor.domain_id))


def overseen_projects(actor: Actor) -> QuerySet[Project]:
    """Projects whose members the actor may see, archived ones included."""
    projects = Project.objects.select_related("domain")
    if sees_everything(actor):
        return projects
    is_overseen = Q(domain_id__in=overseen_domain_ids(actor)) | Q(pk__in=administered_project_ids(actor))
    return projects.filter(is_overseen, domain_id=_lookup_id(actor.domain_id))


def manageable_projects(actor: Actor) -> QuerySet[Project]:
    """Projects whose members the actor may manage, archived ones included."""
    return Project.objects.none() if actor.is_read_only else overseen_projects(actor)


def known_projects(actor: Actor) -> QuerySet[Project]:
    """Projects that are visible to the actor or overseen by the actor."""
    is_known = Q(pk__in=overseen_projects(actor).values("pk")) | Q(
        pk__in=visible_projects(actor).values("pk")
    )
    return Project.objects.select_related("domain").filter(is_known)


def visible_users(actor: Actor) -> QuerySet[User]:
    """Users the actor may see: oneself and members of administered projects; all of the domain for
    its admin and monitor; all for superadmins and monitors. Purged users are never included.
    """
    people = User.objects.select_related("domain").filter(purged_at=None)
    if sees_everything(actor):
        return people
    members = Membership.objects.filter(project_id__in=administered_project_ids(actor)).values("user_id")
    is_overseen = Q(domain_id__in=overseen_domain_ids(actor))
    is_seen = Q(pk=_lookup_id(actor.user_id)) | Q(pk__in=members) | is_overseen
    return people.filter(is_seen, domain_id=_lookup_id(actor.domain_id))


def known_memberships(actor: Actor) -> QuerySet[Membership]:
    """Memberships with their projects. Those of other users only for projects that the actor is a
    member of or oversees. At most one additional query.
    """
    memberships = Membership.objects.select_related("project").order_by("project__name")
    if sees_everything(actor):
        return memberships
    own = Membership.objects.filter(user_id=_lookup_id(actor.user_id)).values("project_id")
    is_known = Q(project_id__in=own) | Q(project__domain_id__in=overseen_domain_ids(actor))
    return memberships.filter(is_known)


def with_projects(actor: Actor, people: QuerySet[User]) -> QuerySet[User]:
    """Prefetch the memberships known to the actor, with their projects. One additional query."""
    return people.prefetch_related(Prefetch("memberships", known_memberships(actor)))


def actions_on_user(actor_scope: ActorScope, user: User) -> Actions:
    """Return the allowed actions on a user. At most one query, for common projects."""
    is_distant = actor_scope.domain_id == user.domain_id and actor_scope.role is Role.USER
    ids = user.memberships.values_list("project_id", flat=True) if is_distant else ()
    return authorization.user_actions(
        actor_scope, user_id=user.pk, role=Role(user.role), domain_id=user.domain_id, project_ids=set(ids)
    )


def actions_on_project(actor_scope: ActorScope, project: Project) -> Actions:
    return authorization.project_actions(actor_scope, project_id=project.pk, domain_id=project.domain_id)


def access_user(actor: Actor, user_id: int, action: Action) -> User:
    """Fetch one user for an action. Raises NotFound (absent, hidden, purged) or PermissionDenied
    (visible, not allowed).
    """
    return access_user_in(visible_users(actor), user_id, action, read_actor_scope(actor))


def access_user_in(visible: QuerySet[User], user_id: int, action: Action, actor_scope: ActorScope) -> User:
    """Fetch one user from an extended `visible_users` query for an action. `actor_scope` is the scope
    of the actor. Raises as `access_user`.
    """
    user = visible.filter(pk=user_id).first()
    if user is None:
        raise NotFound(_("There is no such person among those whom you may see."))
    if action not in actions_on_user(actor_scope, user):
        raise permission_refusal(_("You may not do this to the account of {name}."), user.email)
    return user


def access_project(actor: Actor, project_id: int, action: Action) -> Project:
    """Fetch one project for an action, also an archived one if the actor manages it. Raises
    NotFound, PermissionDenied.
    """
    project = known_projects(actor).filter(pk=project_id).first()
    if project is None:
        raise NotFound(_("There is no such project among those that you may see."))
    if action not in actions_on_project(read_actor_scope(actor), project):
        raise permission_refusal(_("You may not do this to the project “{name}”."), project.name)
    return project


def access_member(actor: Actor, project_id: int, user_id: int) -> Membership:
    """Fetch one membership for an actor who manages members. Raises NotFound, PermissionDenied."""
    project = access_project(actor, project_id, Action.MANAGE_MEMBERS)
    membership = project.memberships.select_related("project__domain", "user").filter(user_id=user_id).first()
    if membership is None:
        raise NotFound(_("There is no such person in the project “{name}”.").format(name=project.name))
    return membership


def access_domain(actor: Actor, domain_id: int, action: Action) -> Domain:
    """Fetch one domain for an action. Raises NotFound, PermissionDenied."""
    domain = visible_domains(actor).filter(pk=domain_id).first()
    if domain is None:
        raise NotFound(_("There is no such domain among those that you may see."))
    if action not in authorization.domain_actions(read_actor_scope(actor), domain.pk):
        raise permission_refusal(_("You may not do this to the domain “{name}”."), domain.name)
    return domain


def find_domain(actor: Actor, name: str) -> Domain:
    """Return the visible domain with this name; the actor's own domain for "". Raises NotFound."""
    domains = visible_domains(actor)
    domain = (domains.filter(name=name) if name else domains.filter(pk=_lookup_id(actor.domain_id))).first()
    if domain is None:
        sentence = _("There is no domain {name} among those that you may see.").format(name=quoted(name, 64))
        raise NotFound.at("domain", sentence)
    return domain


def find_user(actor: Actor, email: str, *, field: str) -> User:
    """Return the visible user with this e-mail address. Raises NotFound, which marks `field`."""
    user = visible_users(actor).filter(email=email.strip().lower()).first()
    if user is None:
        sentence = _("There is nobody with the address {email} among those whom you may see.").format(
            email=quoted(email, 80)
        )
        raise NotFound.at(field, sentence)
    return user


def find_domain_user(project: Project, email: str) -> User:
    """Return the user with this e-mail address and an active account in the project's domain, for
    an actor who manages members of `project`. Raises NotFound.
    """
    people = User.objects.select_related("domain").filter(domain_id=project.domain_id, is_active=True)
    user = people.filter(email=email.strip().lower()).first()
    if user is None:
        sentence = _("Nobody with the address {email} has an open account in this domain.").format(
            email=quoted(email, 80)
        )
        raise NotFound.at("email", sentence, hint=_("A domain admin can add the person."))
    return user


def access_import(actor: Actor, import_id: int, *, is_locked: bool = False) -> PeopleImport:
    """Fetch one of the actor's own imports. With `is_locked` the row is locked until the
    transaction ends. Raises NotFound.
    """
    imports = PeopleImport.objects.select_for_update() if is_locked else PeopleImport.objects.all()
    found = imports.filter(pk=import_id, asked_by_id=_lookup_id(actor.user_id)).first()
    if found is None:
        raise NotFound(_("There is no such import among yours."))
    return found


def permission_refusal(sentence: str, name: str) -> PermissionDenied:
    return PermissionDenied(
        sentence.format(name=name), hint=_("Ask an administrator of the domain, or a superadmin.")
    )


def usable_projects(actor: Actor) -> QuerySet[Project]:
    """Active projects in which the actor may start sessions: own memberships in the own domain."""
    return Project.objects.select_related("domain").filter(
        is_active=True,
        domain__is_active=True,
        domain_id=_lookup_id(actor.domain_id),
        memberships__user_id=_lookup_id(actor.user_id),
    )


def own_project_ids(actor: Actor) -> QuerySet[Membership, int]:
    """Ids of the actor's projects in the own domain, closed ones included, as a subquery."""
    own = Membership.objects.filter(
        user_id=_lookup_id(actor.user_id), project__domain_id=_lookup_id(actor.domain_id)
    )
    return own.values_list("project_id", flat=True)


def shared_projects(actor: Actor, user: User) -> QuerySet[Project]:
    """Projects in which `user` may start sessions and which `actor` knows, ordered by name."""
    usable = known_projects(actor).filter(is_active=True, domain__is_active=True, domain_id=user.domain_id)
    return usable.filter(pk__in=Membership.objects.filter(user=user).values("project_id")).order_by("name")


def find_shared_project(actor: Actor, user: User, name: str) -> Project:
    """Return the project of `shared_projects` with this name. Raises NotFound."""
    project = shared_projects(actor, user).filter(name=name).first()
    if project is None:
        sentence = _("{person} is in no project {name} that you may see.").format(
            person=user.email, name=quoted(name, 64)
        )
        raise NotFound.at("project", sentence)
    return project


def cached_projects(user: User) -> list[Project]:
    """Usable projects of the signed-in user, each with `own_role`, ordered by name. Cached on
    `user`: one query per instance.
    """
    kept: list[Project] | None = getattr(user, "kept_projects", None)
    if kept is None:
        projects = Project.objects.select_related("domain").filter(
            is_active=True, domain__is_active=True, domain_id=user.domain_id, memberships__user_id=user.pk
        )
        kept = list(projects.annotate(own_role=F("memberships__role")).order_by("name"))
        user.kept_projects = kept  # type: ignore[attr-defined]
    return kept


def oversees_people(user: User) -> bool:
    """Return true if `user` may see all users of a domain, to edit or to view. No query."""
    return user.role in (*OVERSEERS_OF_DOMAIN, *OVERSEERS_OF_ALL)


def oversees_projects(user: User) -> bool:
    """Return true if `user` oversees users or administers a project. At most one query."""
    return oversees_people(user) or any(
        project.own_role == ProjectRole.ADMIN  # type: ignore[attr-defined]
        for project in cached_projects(user)
    )


def access_usable_project(actor: Actor, name: str) -> Project:
    """Return the actor's project with this name. Raises NotFound if there is none, PermissionDenied
    if it is only visible.
    """
    project = usable_projects(actor).filter(name=name).first()
    if project is None:
        raise project_refusal(actor, name)
    return project


def project_refusal(actor: Actor, name: str) -> BerthError:
    """Return the error that explains why the actor cannot use this project. At most 2 queries."""
    if visible_projects(actor).filter(name=name).exists():
        return PermissionDenied(
            _("You are not a member of the project {name}, so you cannot start sessions in it.").format(
                name=quoted(name, 64)
            ),
            hint=_("Ask an administrator of the domain to add you to the project."),
        )
    known = ", ".join(usable_projects(actor).values_list("name", flat=True)[:10])
    sentence = _("There is no project {name} among yours.").format(name=quoted(name, 64))
    return NotFound(
        sentence,
        hint=_("Your projects: {projects}.").format(projects=known)
        if known
        else _("Ask an administrator to add you to a project."),
        fields={"project": [sentence]},
    )


def own_memberships(actor: Actor) -> QuerySet[Membership]:
    """The actor's memberships in active projects, with the project, ordered by project name."""
    memberships = Membership.objects.select_related("project").filter(project__is_active=True)
    return memberships.filter(
        user_id=_lookup_id(actor.user_id), project__domain_id=_lookup_id(actor.domain_id)
    ).order_by("project__name")


def live_update_listeners(users: Collection[User]) -> dict[int, Listener]:
    """Return the live-update listener of each user, by user id. One query for any number of users."""
    admin_projects: dict[int, set[int]] = {user.pk: set() for user in users}
    home = {user.pk: user.domain_id for user in users}
    rows = Membership.objects.filter(user__in=users, role=ProjectRole.ADMIN)
    for user_id, project_id, domain_id in rows.values_list("user_id", "project_id", "project__domain_id"):
        if domain_id == home[user_id]:
            admin_projects[user_id].add(project_id)
    return {
        user.pk: Listener(
            user_id=user.pk,
            receives_all=user.role in OVERSEERS_OF_ALL,
            admin_project_ids=frozenset(admin_projects[user.pk]),
            overseen_domain_id=user.domain_id if user.role in OVERSEERS_OF_DOMAIN else None,
        )
        for user in users
    }
