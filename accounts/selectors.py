"""Reads of people. `visible_*` is the only list source, `access_*` the only single fetch."""

from collections.abc import Collection

from django.db.models import F, Prefetch, Q, QuerySet, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils.translation import gettext as _

from accounts.core import authorization
from accounts.core.authorization import Action, Actions, Standing
from accounts.core.roles import OVERSEERS_OF_ALL, OVERSEERS_OF_DOMAIN, ProjectRole, Role
from accounts.models import Domain, Membership, PeopleImport, Project, User
from common.actors import Actor
from common.errors import BerthError, NotFound, PermissionDenied
from common.messaging.live_updates import Listener
from common.values.text import quoted


def _key(number: int | None) -> int:
    """For lookups: no row has the key of the system or of nobody."""
    return number or 0


def may_do_everything(actor: Actor) -> bool:
    """The superadmin bypass, in one place: superadmins and Berth itself see and may do everything."""
    return actor.is_superadmin or actor.is_system


def sees_everything(actor: Actor) -> bool:
    """Those, and monitors, who may do nothing with what they see."""
    return may_do_everything(actor) or actor.is_monitor


def require_superadmin(actor: Actor) -> None:
    """Raises PermissionDenied for everybody but superadmins and Berth itself."""
    if not may_do_everything(actor):
        raise PermissionDenied(_("Only a superadmin may do this."), hint=_("Ask a superadmin."))


def user_of(actor: Actor, *, is_locked: bool = False) -> User:
    """The person who acts; if `is_locked`, nobody else gets them so until the transaction ends. Raises NotFound for the
    system and for people who were removed meanwhile."""
    people = User.objects.select_related("domain")
    if is_locked:
        people = people.select_for_update(of=("self",), no_key=True)
    user = people.filter(pk=_key(actor.user_id), is_active=True).first()
    if user is None:
        raise NotFound(_("This account does not exist any more."))
    return user


def overseen_domain_id(actor: Actor) -> int | None:
    """The domain that this actor sees whole, as its admin or monitor, else None. One query."""
    return overseen_domain_ids(actor).first()


def overseen_domain_ids(actor: Actor) -> QuerySet[User, int]:
    """The same as a subquery: none or one."""
    overseers = User.objects.filter(pk=_key(actor.user_id), is_active=True, role__in=OVERSEERS_OF_DOMAIN)
    return overseers.values_list("domain_id", flat=True)


def looks_after_others(actor: Actor) -> bool:
    """Whether lists may show this actor what belongs to others: administrators of anything, and monitors. At most one query."""
    if sees_everything(actor):
        return True
    is_overseer = Q(role__in=OVERSEERS_OF_DOMAIN) | Q(memberships__role=ProjectRole.ADMIN)
    return User.objects.filter(is_overseer, pk=_key(actor.user_id), is_active=True).exists()


def administered_project_ids(actor: Actor) -> QuerySet[Membership, int]:
    """Ids of projects of the own domain in which the actor is project admin, as a subquery; of a monitor none."""
    admins = Membership.objects.filter(user_id=_key(actor.user_id), role=ProjectRole.ADMIN)
    if actor.only_looks:
        admins = admins.none()
    return admins.filter(project__domain_id=_key(actor.domain_id)).values_list("project_id", flat=True)


PROJECT_TITLE = Coalesce(NullIf("title", Value("")), "name")  # what str() of a project says, for queries


def visible_projects(actor: Actor) -> QuerySet[Project]:
    """Own projects; all of the domain for its admin and monitor; all for superadmins. None of other domains."""
    projects = Project.objects.select_related("domain").filter(is_active=True, domain__is_active=True)
    if sees_everything(actor):
        return projects
    own = Membership.objects.filter(user_id=_key(actor.user_id)).values("project_id")
    is_seen = Q(pk__in=own) | Q(domain_id__in=overseen_domain_ids(actor))
    return projects.filter(is_seen, domain_id=_key(actor.domain_id))


def standing_of(actor: Actor) -> Standing:
    """What the actor is now, whatever the request still believed. One query; none for Berth itself."""
    if actor.is_system:
        return Standing(role=Role.SUPERADMIN)
    people = User.objects.filter(pk=_key(actor.user_id), is_active=True, domain__is_active=True)
    its = ("memberships__project_id", "memberships__role", "memberships__project__domain_id")
    rows = list(people.values_list("role", "domain_id", *its))  # one without projects where there are none
    if not rows:
        return Standing()
    role, domain_id, *_its = rows[0]
    near = [(project_id, own) for *_who, project_id, own, home in rows if home == domain_id]
    return Standing(
        user_id=_key(actor.user_id),
        role=Role(role),
        domain_id=domain_id,
        project_ids=frozenset(project_id for project_id, _own in near),
        administered_ids=frozenset(project_id for project_id, own in near if own == ProjectRole.ADMIN),
    )


def visible_domains(actor: Actor) -> QuerySet[Domain]:
    """The own one; all, the closed ones too, for superadmins."""
    domains = Domain.objects.all()
    return domains if sees_everything(actor) else domains.filter(pk=_key(actor.domain_id))


def overseen_projects(actor: Actor) -> QuerySet[Project]:
    """Those whose members the actor may see, archived ones too."""
    projects = Project.objects.select_related("domain")
    if sees_everything(actor):
        return projects
    is_overseen = Q(domain_id__in=overseen_domain_ids(actor)) | Q(pk__in=administered_project_ids(actor))
    return projects.filter(is_overseen, domain_id=_key(actor.domain_id))


def manageable_projects(actor: Actor) -> QuerySet[Project]:
    """Those whose members the actor may manage, archived ones too."""
    return Project.objects.none() if actor.only_looks else overseen_projects(actor)


def known_projects(actor: Actor) -> QuerySet[Project]:
    """Those that are visible, and those that the actor oversees."""
    is_known = Q(pk__in=overseen_projects(actor).values("pk")) | Q(
        pk__in=visible_projects(actor).values("pk")
    )
    return Project.objects.select_related("domain").filter(is_known)


def visible_users(actor: Actor) -> QuerySet[User]:
    """Oneself and the members of administered projects; all of the domain for its admin and monitor; all for superadmins.
    Nobody sees those who are purged."""
    people = User.objects.select_related("domain").filter(purged_at=None)
    if sees_everything(actor):
        return people
    members = Membership.objects.filter(project_id__in=administered_project_ids(actor)).values("user_id")
    is_overseen = Q(domain_id__in=overseen_domain_ids(actor))
    is_seen = Q(pk=_key(actor.user_id)) | Q(pk__in=members) | is_overseen
    return people.filter(is_seen, domain_id=_key(actor.domain_id))


def known_memberships(actor: Actor) -> QuerySet[Membership]:
    """With their projects; of others only those in projects that the actor is in or oversees. At most one query more."""
    memberships = Membership.objects.select_related("project").order_by("project__name")
    if sees_everything(actor):
        return memberships
    own = Membership.objects.filter(user_id=_key(actor.user_id)).values("project_id")
    is_known = Q(project_id__in=own) | Q(project__domain_id__in=overseen_domain_ids(actor))
    return memberships.filter(is_known)


def with_projects(actor: Actor, people: QuerySet[User]) -> QuerySet[User]:
    """With the memberships that the actor knows and their projects, in 1 query more."""
    return people.prefetch_related(Prefetch("memberships", known_memberships(actor)))


def actions_on_user(standing: Standing, user: User) -> Actions:
    """One query where only a project in common could say more."""
    is_distant = standing.domain_id == user.domain_id and standing.role is Role.USER
    ids = user.memberships.values_list("project_id", flat=True) if is_distant else ()
    return authorization.on_person(
        standing, user_id=user.pk, role=Role(user.role), domain_id=user.domain_id, project_ids=set(ids)
    )


def actions_on_project(standing: Standing, project: Project) -> Actions:
    return authorization.on_project(standing, project_id=project.pk, domain_id=project.domain_id)


def access_user(actor: Actor, user_id: int, action: Action) -> User:
    """Raises NotFound (absent, hidden, purged), PermissionDenied (seen, not allowed)."""
    return user_among(visible_users(actor), user_id, action, standing_of(actor))


def user_among(visible: QuerySet[User], user_id: int, action: Action, standing: Standing) -> User:
    """The same, of `visible_users` that are read with more, by the standing of the actor."""
    user = visible.filter(pk=user_id).first()
    if user is None:
        raise NotFound(_("There is no such person among those whom you may see."))
    if action not in actions_on_user(standing, user):
        raise refusal_about(_("You may not do this to the account of {name}."), user.email)
    return user


def access_project(actor: Actor, project_id: int, action: Action) -> Project:
    """An archived one too, for who manages it. Raises NotFound, PermissionDenied."""
    project = known_projects(actor).filter(pk=project_id).first()
    if project is None:
        raise NotFound(_("There is no such project among those that you may see."))
    if action not in actions_on_project(standing_of(actor), project):
        raise refusal_about(_("You may not do this to the project “{name}”."), project.name)
    return project


def access_member(actor: Actor, project_id: int, user_id: int) -> Membership:
    """For whoever manages members. Raises NotFound, PermissionDenied."""
    project = access_project(actor, project_id, Action.MANAGE_MEMBERS)
    membership = project.memberships.select_related("project__domain", "user").filter(user_id=user_id).first()
    if membership is None:
        raise NotFound(_("There is no such person in the project “{name}”.").format(name=project.name))
    return membership


def access_domain(actor: Actor, domain_id: int, action: Action) -> Domain:
    """Raises NotFound, PermissionDenied."""
    domain = visible_domains(actor).filter(pk=domain_id).first()
    if domain is None:
        raise NotFound(_("There is no such domain among those that you may see."))
    if action not in authorization.on_domain(standing_of(actor), domain.pk):
        raise refusal_about(_("You may not do this to the domain “{name}”."), domain.name)
    return domain


def domain_named(actor: Actor, name: str) -> Domain:
    """The visible one of this name; the own one for "". Raises NotFound."""
    domains = visible_domains(actor)
    domain = (domains.filter(name=name) if name else domains.filter(pk=_key(actor.domain_id))).first()
    if domain is None:
        sentence = _("There is no domain {name} among those that you may see.").format(name=quoted(name, 64))
        raise NotFound(sentence, fields={"domain": [sentence]})
    return domain


def person_with_address(actor: Actor, email: str, *, field: str) -> User:
    """The visible person with this address. Raises NotFound, which marks `field`."""
    user = visible_users(actor).filter(email=email.strip().lower()).first()
    if user is None:
        sentence = _("There is nobody with the address {email} among those whom you may see.").format(
            email=quoted(email, 80)
        )
        raise NotFound(sentence, fields={field: [sentence]})
    return user


def person_of_domain(project: Project, email: str) -> User:
    """The person with this address, for whoever manages members of `project`: with an account of its domain that is
    open. Raises NotFound."""
    people = User.objects.select_related("domain").filter(domain_id=project.domain_id, is_active=True)
    user = people.filter(email=email.strip().lower()).first()
    if user is None:
        sentence = _("Nobody with the address {email} has an open account in this domain.").format(
            email=quoted(email, 80)
        )
        raise NotFound(sentence, hint=_("A domain admin can add the person."), fields={"email": [sentence]})
    return user


def access_import(actor: Actor, import_id: int, *, is_locked: bool = False) -> PeopleImport:
    """One's own; if `is_locked`, nobody else gets it so until the transaction ends. Raises NotFound."""
    imports = PeopleImport.objects.select_for_update() if is_locked else PeopleImport.objects.all()
    found = imports.filter(pk=import_id, asked_by_id=_key(actor.user_id)).first()
    if found is None:
        raise NotFound(_("There is no such import among yours."))
    return found


def refusal_about(sentence: str, name: str) -> PermissionDenied:
    return PermissionDenied(
        sentence.format(name=name), hint=_("Ask an administrator of the domain, or a superadmin.")
    )


def usable_projects(actor: Actor) -> QuerySet[Project]:
    """Projects in which the actor may start sessions: own memberships in the own domain."""
    return Project.objects.select_related("domain").filter(
        is_active=True,
        domain__is_active=True,
        domain_id=_key(actor.domain_id),
        memberships__user_id=_key(actor.user_id),
    )


def own_project_ids(actor: Actor) -> QuerySet[Membership, int]:
    """Ids of the projects of the own domain that the actor is in, as a subquery; closed ones too."""
    own = Membership.objects.filter(user_id=_key(actor.user_id), project__domain_id=_key(actor.domain_id))
    return own.values_list("project_id", flat=True)


def projects_in_common(actor: Actor, user: User) -> QuerySet[Project]:
    """Those in which `user` may start sessions and which `actor` knows, by name."""
    usable = known_projects(actor).filter(is_active=True, domain__is_active=True, domain_id=user.domain_id)
    return usable.filter(pk__in=Membership.objects.filter(user=user).values("project_id")).order_by("name")


def project_in_common(actor: Actor, user: User, name: str) -> Project:
    """The one of them with this name. Raises NotFound."""
    project = projects_in_common(actor, user).filter(name=name).first()
    if project is None:
        sentence = _("{person} is in no project {name} that you may see.").format(
            person=user.email, name=quoted(name, 64)
        )
        raise NotFound(sentence, fields={"project": [sentence]})
    return project


def projects_of(user: User) -> list[Project]:
    """The usable projects of who is signed in, each with `own_role`, by name. One query in the life of `user`."""
    kept: list[Project] | None = getattr(user, "kept_projects", None)
    if kept is None:
        projects = Project.objects.select_related("domain").filter(
            is_active=True, domain__is_active=True, domain_id=user.domain_id, memberships__user_id=user.pk
        )
        kept = list(projects.annotate(own_role=F("memberships__role")).order_by("name"))
        user.kept_projects = kept  # type: ignore[attr-defined]
    return kept


def governs_people(user: User) -> bool:
    """Whether the pages about all people of a domain are for `user`: to work with, or to look at. No query."""
    return user.role in (*OVERSEERS_OF_DOMAIN, *OVERSEERS_OF_ALL)


def governs_projects(user: User) -> bool:
    """That of `projects_of`, for people without such a role."""
    return governs_people(user) or any(
        project.own_role == ProjectRole.ADMIN  # type: ignore[attr-defined]
        for project in projects_of(user)
    )


def access_usable_project(actor: Actor, name: str) -> Project:
    """Return the own project called `name`. Raises NotFound if there is none, PermissionDenied if only visible."""
    project = usable_projects(actor).filter(name=name).first()
    if project is None:
        raise refused_project(actor, name)
    return project


def refused_project(actor: Actor, name: str) -> BerthError:
    """Return why the actor cannot use a project of this name. At most 2 queries."""
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
    """The actor's projects with the role in each."""
    memberships = Membership.objects.select_related("project").filter(project__is_active=True)
    return memberships.filter(user_id=_key(actor.user_id), project__domain_id=_key(actor.domain_id)).order_by(
        "project__name"
    )


def listeners_of(users: Collection[User]) -> dict[int, Listener]:
    """Whose news these people may hear, by user id. One query, any number of people."""
    admin_projects: dict[int, set[int]] = {user.pk: set() for user in users}
    home = {user.pk: user.domain_id for user in users}
    rows = Membership.objects.filter(user__in=users, role=ProjectRole.ADMIN)
    for user_id, project_id, domain_id in rows.values_list("user_id", "project_id", "project__domain_id"):
        if domain_id == home[user_id]:
            admin_projects[user_id].add(project_id)
    return {
        user.pk: Listener(
            user_id=user.pk,
            hears_all=user.role in OVERSEERS_OF_ALL,
            admin_project_ids=frozenset(admin_projects[user.pk]),
            overseen_domain_id=user.domain_id if user.role in OVERSEERS_OF_DOMAIN else None,
        )
        for user in users
    }
