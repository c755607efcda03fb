"""Changes, archives (closes) and purges projects and domains."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from guardian.models import UserObjectPermission

from accounts.admission_gate import precede_admissions
from accounts.core.authorization import Action
from accounts.core.sign_up import SignUp, check_mail_domains
from accounts.locks import lock_users
from accounts.models import Domain, MailDomain, Project
from accounts.selectors import access_domain, access_project
from accounts.tenancy import owned_resources
from common.actors import Actor
from common.audit import audit_log
from common.db.advisory_locks import lock_exclusive
from common.db.validation import validate_model
from common.errors import Conflict, InvalidInput, invalid_field
from common.i18n import paragraph


@transaction.atomic
def update_project(
    *,
    actor: Actor,
    project_id: int,
    name: str | None = None,
    title: str | None = None,
    is_active: bool | None = None,
) -> Project:
    """Set name or title (None keeps it), archive with `is_active` False, or reopen with True. An
    archived project keeps its data but cannot be used. Raises NotFound, PermissionDenied,
    InvalidInput, Conflict (live sessions).
    """
    project = _lock_project(actor, project_id, Action.EDIT)
    if is_active is not None and is_active != project.is_active:
        access_project(actor, project_id, Action.CLOSE)
        _check_can_close(project, is_active=is_active)
    changes = _apply_changes(project, name=name, title=title, is_active=is_active)
    audit_log.record(actor=actor, action="accounts.update_project", target=project, changes=changes)
    return project


@transaction.atomic
def purge_project(*, actor: Actor, project_id: int) -> None:
    """Delete an archived project that nothing refers to. Raises NotFound, PermissionDenied, Conflict."""
    project = _lock_project(actor, project_id, Action.PURGE)
    if project.is_active:
        raise Conflict(
            _("The project “{name}” is in use.").format(name=project.name), hint=_("Archive it first.")
        )
    if remains := owned_resources.retention_reasons(project):
        raise _still_needed(project.name, remains)

    audit_log.record(actor=actor, action="accounts.purge_project", target=project)
    _forget_permissions("project", project.pk)
    project.delete()


@transaction.atomic
def update_domain(
    *,
    actor: Actor,
    domain_id: int,
    name: str | None = None,
    title: str | None = None,
    is_active: bool | None = None,
    second_factor: str | None = None,
) -> Domain:
    """Set fields of a domain (None keeps them), close it with `is_active` False, or reopen it.
    `second_factor` is a `SecondFactor`. Users of a closed domain cannot sign in; its data stays.
    Raises NotFound, PermissionDenied, InvalidInput, Conflict.
    """
    access_domain(actor, domain_id, Action.EDIT)
    precede_admissions()
    superadmins = lock_users(actor).values()
    Domain.objects.select_for_update().filter(pk=domain_id).first()
    domain = access_domain(actor, domain_id, Action.EDIT)
    if is_active is not None and is_active != domain.is_active:
        access_domain(actor, domain_id, Action.CLOSE)
        _check_can_close(domain, is_active=is_active)
    elsewhere = (user for user in superadmins if user.domain_id != domain_id and user.domain.is_active)
    if domain.is_active and is_active is False and not any(user.is_superuser for user in elsewhere):
        raise Conflict(
            _("All superadmins are of the domain “{name}”; closed, nobody could open it again.").format(
                name=domain.name
            ),
            hint=_("Make somebody of another domain a superadmin first."),
        )
    changes = _apply_changes(domain, name=name, title=title, is_active=is_active, second_factor=second_factor)
    audit_log.record(actor=actor, action="accounts.update_domain", target=domain, changes=changes)
    return domain


@transaction.atomic
def set_sign_up(*, actor: Actor, domain_id: int, sign_up: SignUp, mail_domains: Sequence[str]) -> Domain:
    """Set the sign-up mode and the mail domains of a domain. Raises NotFound, PermissionDenied,
    InvalidInput (invalid name; name of another domain; open without a mail domain).
    """
    access_domain(actor, domain_id, Action.EDIT)
    precede_admissions()
    Domain.objects.select_for_update().filter(pk=domain_id).first()
    domain = access_domain(actor, domain_id, Action.EDIT)
    names = _check_mail_domains(domain, sign_up, mail_domains)
    before = {"sign_up": domain.sign_up, "mail_domains": [each.name for each in domain.mail_domains.all()]}

    domain.sign_up = sign_up.value
    domain.save(update_fields=["sign_up"])
    domain.mail_domains.exclude(name__in=names).delete()
    for name in names:
        MailDomain.objects.get_or_create(name=name, domain=domain)
    changes = audit_log.changed(before, {"sign_up": sign_up.value, "mail_domains": sorted(names)})
    audit_log.record(actor=actor, action="accounts.set_sign_up", target=domain, changes=changes)
    return domain


@transaction.atomic
def purge_domain(*, actor: Actor, domain_id: int) -> None:
    """Delete a closed domain without users, projects and history. Anonymised rows of purged users
    move to another domain, an open one if possible. Raises NotFound, PermissionDenied, Conflict.
    """
    access_domain(actor, domain_id, Action.PURGE)
    precede_admissions()
    successor = _lock_with_successor(domain_id)
    domain = access_domain(actor, domain_id, Action.PURGE)
    if domain.is_active:
        raise Conflict(_("The domain “{name}” is open.").format(name=domain.name), hint=_("Close it first."))
    remains = owned_resources.retention_reasons(domain)
    if people := domain.users.filter(purged_at=None).count():
        remains.append(_("people: {count}").format(count=people))
    if projects := domain.projects.count():
        remains.append(_("projects: {count}").format(count=projects))
    if remains:
        raise _still_needed(domain.name, remains)
    if successor is None and domain.users.exists():
        raise Conflict(
            _("“{name}” holds rows of purged people, and there is no other domain for them.").format(
                name=domain.name
            ),
            hint=_("Create another domain first."),
        )

    audit_log.record(actor=actor, action="accounts.purge_domain", target=domain)
    _forget_permissions("domain", domain.pk)
    if successor is not None:
        domain.users.update(domain=successor)
    domain.delete()


def _lock_project(actor: Actor, project_id: int, action: Action) -> Project:
    """Lock and return the project for a change, before admissions that begin later. Raises
    NotFound, PermissionDenied.
    """
    access_project(actor, project_id, action)
    precede_admissions()
    Project.objects.select_for_update().filter(pk=project_id).first()
    return access_project(actor, project_id, action)


def _lock_with_successor(domain_id: int) -> Domain | None:
    """Lock the domain and the one that receives its anonymised rows, and return the latter. Locks
    by id, so that two purges do not deadlock. None if there is none or it was purged meanwhile.
    """
    others = Domain.objects.exclude(pk=domain_id).order_by("-is_active", "pk")
    ids = [domain_id, *others.values_list("pk", flat=True)[:1]]
    locked = Domain.objects.select_for_update().filter(pk__in=ids).order_by("pk")
    return next((each for each in list(locked) if each.pk != domain_id), None)


def _apply_changes(owner: Project | Domain, **wanted: str | bool | None) -> dict[str, list[Any]]:
    """Save the given fields, skipping None; return the changes as {field: [before, after]}."""
    given = {field: value for field, value in wanted.items() if value is not None}
    changes = audit_log.changed({field: getattr(owner, field) for field in given}, given)
    for field in changes:
        setattr(owner, field, given[field])
    validate_model(owner)
    if changes:
        owner.save(update_fields=list(changes))
    return changes


def _check_can_close(owner: Project | Domain, *, is_active: bool) -> None:
    objections = [] if is_active else owned_resources.objections_to_closing(owner)
    if objections:
        raise Conflict(paragraph(objections), hint=_("Stop what runs there, or wait until it ends."))


def _check_mail_domains(domain: Domain, sign_up: SignUp, names: Sequence[str]) -> list[str]:
    with invalid_field("mail_domains"):
        names = check_mail_domains(names)
    lock_exclusive("mail-domains", wait_s=10)
    elsewhere = MailDomain.objects.select_related("domain").filter(name__in=names).exclude(domain=domain)
    if taken := elsewhere.first():
        sentence = _("The mail domain “{name}” belongs to the domain “{domain}”.").format(
            name=taken.name, domain=taken.domain.name
        )
        raise InvalidInput.at("mail_domains", sentence)
    if sign_up is SignUp.OPEN and not names:
        sentence = _("Give the mail domains of this domain; nobody could sign up otherwise.")
        raise InvalidInput.at("mail_domains", sentence)
    return names


def _still_needed(name: str, remains: list[str]) -> Conflict:
    return Conflict(
        _("“{name}” cannot be purged, because it still has {what}.").format(
            name=name, what=", ".join(remains)
        ),
        hint=_("What is closed harms nobody: leave it closed."),
    )


def _forget_permissions(model: str, object_id: int) -> None:
    granted = UserObjectPermission.objects.filter(object_pk=str(object_id))
    granted.filter(content_type__app_label="accounts", content_type__model=model).delete()
