"""Imports users from a file: previews the effect of each row, then applies the valid rows one by
one.

A row and its result are one transaction, and a row that already holds changes nothing. So the next
run continues an interrupted import, and importing the same file again has no effect.
"""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.roles import Role
from accounts.core.user_csv import ROW_FAULT, CsvRow, parse_user_csv
from accounts.models import Domain, PeopleImport, PeopleImportLine, Project, ResourcePolicy, User
from accounts.policies.selectors import visible_policies
from accounts.policies.service import assign_policy
from accounts.selectors import (
    access_import,
    manageable_projects,
    may_do_everything,
    read_actor_scope,
    visible_domains,
    visible_users,
    with_projects,
)
from accounts.tenancy.bulk_users import NewUser, create_users
from accounts.tenancy.service import add_member, create_sign_in_link, create_user, update_user
from common import clock
from common.actors import Actor, ActorKind
from common.audit import audit_log
from common.db.advisory_locks import try_exclusive
from common.errors import BerthError, InvalidInput, PermissionDenied
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.text import quoted

log = structlog.get_logger(__name__)

Outcome = PeopleImportLine.Outcome
SYNC_ROWS = 200
# Rows per transaction. It locks the importer and all superadmins, for a fraction of a second.
BATCH_ROWS = 100
WORK_S = 60
RESULT_FIELDS = ("outcome", "changes", "faults", "is_done")
RETENTION = timedelta(days=7)
MAX_UNSTARTED = 10  # unstarted imports kept per user


@dataclass(frozen=True, slots=True)
class RowResult:
    """Effect of a row; `changes` are the fields that differ."""

    outcome: str
    changes: tuple[str, ...] = ()
    faults: dict[str, str] = field(default_factory=dict)


@transaction.atomic
def check_import(*, actor: Actor, name: str, content: bytes) -> PeopleImport:
    """Store the effect of each row of a file. Raises InvalidInput, PermissionDenied."""
    if not authorization.assignable_roles(read_actor_scope(actor)):
        raise PermissionDenied(_("You may not add people."), hint=_("Ask an administrator of the domain."))
    try:
        lines = parse_user_csv(content)
    except ValueError as error:
        raise InvalidInput.at("file", str(error), hint=_("Begin with the template.")) from error
    results = check_lines(actor, lines)

    people_import = PeopleImport.objects.create(asked_by_id=actor.user_id or 0, name=name[:120])
    PeopleImportLine.objects.bulk_create(
        PeopleImportLine(
            people_import=people_import, number=line.number, values=line.values, outcome=result.outcome,
            changes=list(result.changes), faults=result.faults,
        )
        for line, result in zip(lines, results, strict=True)
    )  # fmt: skip
    checks = PeopleImport.objects.select_for_update().filter(
        asked_by=people_import.asked_by_id, started_at=None
    )
    PeopleImport.objects.filter(pk__in=list(checks.values_list("pk", flat=True)[MAX_UNSTARTED:])).delete()
    audit_log.record(
        actor=actor, action="accounts.check_import", target=people_import, changes={"rows": len(lines)}
    )
    return people_import


def start_import(*, actor: Actor, import_id: int) -> PeopleImport:
    """Apply the valid rows: at once for few rows, else in the background. Also continues a started
    import. Raises NotFound.
    """
    with transaction.atomic():
        people_import = access_import(actor, import_id, is_locked=True)
        if people_import.started_at is None:
            people_import.started_at = clock.now()
            people_import.save(update_fields=["started_at"])
            audit_log.record(actor=actor, action="accounts.start_import", target=people_import)
        is_small = people_import.lines.count() <= SYNC_ROWS
        if not is_small:
            enqueue_on_commit(TaskName.CONTINUE_IMPORTS)
    if is_small:
        continue_import(import_id)
    return access_import(actor, import_id)


def continue_imports() -> None:
    """Continue each import that is started and not finished. Safe to run concurrently."""
    for import_id in PeopleImport.objects.under_way().values_list("pk", flat=True):
        try:
            continue_import(import_id)
        except Exception:  # others continue, and the next run retries this one
            log.exception("import.failed", import_id=import_id)


def continue_import(import_id: int) -> None:
    """Apply rows for at most WORK_S. No effect while another worker does it."""
    with try_exclusive(f"import:{import_id}") as is_mine:
        if not is_mine:
            return
        people_import = PeopleImport.objects.select_related("asked_by").get(pk=import_id)
        actor, until = user_actor(people_import.asked_by), time.monotonic() + WORK_S
        waiting = people_import.lines.filter(is_done=False).exclude(outcome=Outcome.REFUSED)
        with override(people_import.asked_by.language or None):
            while batch := list(waiting[:BATCH_ROWS]):
                if time.monotonic() > until:
                    return
                _apply_batch(actor, batch)
        PeopleImport.objects.filter(pk=import_id, finished_at=None).update(finished_at=clock.now())


def _apply_batch(actor: Actor, batch: Sequence[PeopleImportLine]) -> None:
    """Create new users and note rows without changes in one transaction. All other rows, or all
    rows if that fails, are applied one by one.
    """
    try:
        with transaction.atomic():
            finished = _apply_lines(actor, batch)
    except (BerthError, IntegrityError):  # caused by one of the rows
        finished = frozenset()
    for line in batch:
        if line.pk not in finished:
            _apply_row(actor, line)


def _apply_lines(actor: Actor, batch: Sequence[PeopleImportLine]) -> frozenset[int]:
    """Create the new users of a batch in bulk, with the result of `apply_line`. Returns the keys of
    the finished rows.
    """
    context = ImportContext(actor, [row.line for row in batch])
    results = {row.pk: context.result(row.line) for row in batch}
    finished = [row for row in batch if results[row.pk].outcome != Outcome.CHANGED]
    new = [row.line for row in finished if results[row.pk].outcome == Outcome.NEW]
    create_users(actor=actor, new_users=[context.new_user(line) for line in new])
    for row in finished:
        _set_result(row, results[row.pk])
    _save_results(finished)
    return frozenset(row.pk for row in finished)


def _save_results(rows: Sequence[PeopleImportLine]) -> None:
    """Save the results with one query per distinct result; only rows with faults of their own differ."""
    same: dict[str, list[PeopleImportLine]] = {}
    for row in rows:
        same.setdefault(json.dumps([row.outcome, row.changes, row.faults]), []).append(row)
    for alike in same.values():
        values = {name: getattr(alike[0], name) for name in RESULT_FIELDS}
        PeopleImportLine.objects.filter(pk__in=[row.pk for row in alike]).update(**values)


def _apply_row(actor: Actor, row: PeopleImportLine) -> None:
    try:
        with transaction.atomic():
            result = apply_line(actor=actor, line=row.line)
            _save_result(row, result)
    except BerthError as refusal:
        faults = {name: " ".join(map(str, sentences)) for name, sentences in refusal.fields.items()}
        _save_result(row, RowResult(Outcome.REFUSED, faults=faults or {ROW_FAULT: refusal.message}))


def _save_result(row: PeopleImportLine, result: RowResult) -> None:
    _set_result(row, result)
    row.save(update_fields=RESULT_FIELDS)


def _set_result(row: PeopleImportLine, result: RowResult) -> None:
    row.outcome, row.changes, row.faults = result.outcome, list(result.changes), result.faults
    row.is_done = True


def apply_line(*, actor: Actor, line: CsvRow) -> RowResult:
    """Apply one row through the services that pages use, and return its result. Raises BerthError."""
    context = ImportContext(actor, [line])
    result = context.result(line)
    if result.outcome not in (Outcome.NEW, Outcome.CHANGED):
        return result
    person, role = context.people.get(line.email), line.values.get("role")
    name = line.values.get("name")
    if person is None:
        person = create_user(
            actor=actor, email=line.email, password=None, domain=context.domain_for(line),
            role=Role(role or Role.USER), name=name or "",
        )  # fmt: skip
    elif {"name", "role"} & set(result.changes):
        new_role = Role(role) if "role" in result.changes and role else None
        update_user(actor=actor, user_id=person.pk, name=name, role=new_role)
    for project in context.projects_for(line, without=context.project_ids_for(person)):
        add_member(actor=actor, project=project, user=person)
    policy = context.policy_for(line, person.domain_id)
    if policy is not None and policy.pk != person.policy_id:
        assign_policy(actor=actor, target=person, policy=policy)
    return result


def check_lines(actor: Actor, lines: Sequence[CsvRow]) -> list[RowResult]:
    """Return the effect of each row now. 9 queries for any number of rows."""
    context = ImportContext(actor, lines)
    return [context.result(line) for line in lines]


def create_links(*, actor: Actor, import_id: int) -> list[tuple[str, str]]:
    """Create sign-in links as (address, code), valid once within a day, for all users added by this
    import who never signed in. Raises NotFound.
    """
    emails = access_import(actor, import_id).lines.filter(outcome=Outcome.NEW, is_done=True)
    new_users = [line.line.email for line in emails]
    people = (
        visible_users(actor).filter(email__in=new_users, is_active=True, last_login=None).order_by("email")
    )
    return [
        (person.email, create_sign_in_link(actor=actor, user=person))
        for person in people
        if not person.has_usable_password()
    ]


def purge_imports() -> None:
    """Delete imports older than KEPT."""
    PeopleImport.objects.filter(asked_at__lt=clock.now() - RETENTION).delete()


def user_actor(person: User) -> Actor:
    """Return the actor for a user in background work, with current rights."""
    return Actor(
        kind=ActorKind.USER, user_id=person.pk, label=person.email, domain_id=person.domain_id,
        is_superadmin=person.is_superuser, is_monitor=person.is_monitor,
        is_domain_monitor=person.is_domain_monitor,
    )  # fmt: skip


class ImportContext:
    """Domains, projects, users and policies that some rows refer to, read at once."""

    def __init__(self, actor: Actor, lines: Collection[CsvRow]) -> None:
        emails = {line.email for line in lines}
        self.actor, self.actor_scope = actor, read_actor_scope(actor)
        seen = visible_users(actor).filter(email__in=emails)
        self.people: dict[str, User] = {person.email: person for person in with_projects(actor, seen)}
        self.taken = set(User.objects.filter(email__in=emails).values_list("email", flat=True)) - set(
            self.people
        )
        self.domains: dict[str, Domain] = {
            each.name: each for each in visible_domains(actor).filter(is_active=True)
        }
        names = {name for line in lines for name in line.projects}
        projects = manageable_projects(actor).filter(name__in=names, is_active=True)
        self.projects: dict[tuple[int, str], Project] = {
            (each.domain_id, each.name): each for each in projects
        }
        named = visible_policies(actor).filter(name__in={line.values.get("policy", "") for line in lines})
        self.policies = {(each.domain_id, each.name): each for each in named}

    def domain_for(self, line: CsvRow) -> Domain:
        """Return the domain of a row without faults."""
        name = line.values.get("domain")
        domain = self.domains.get(name) if name else self._own_domain()
        if domain is None:
            raise LookupError(name)
        return domain

    def projects_for(self, line: CsvRow, *, without: Collection[int]) -> list[Project]:
        person = self.people.get(line.email)
        domain_id = person.domain_id if person else self.domain_for(line).pk
        people_import = (self.projects.get((domain_id, name)) for name in line.projects)
        return [project for project in people_import if project is not None and project.pk not in without]

    def policy_for(self, line: CsvRow, domain_id: int) -> ResourcePolicy | None:
        """Return the policy named by the row; that of the domain takes precedence."""
        name = line.values.get("policy", "")
        return self.policies.get((domain_id, name)) or self.policies.get((None, name))

    def new_user(self, line: CsvRow) -> NewUser:
        """Return the account that a row creates."""
        domain = self.domain_for(line)
        return NewUser(
            email=line.email,
            name=line.values.get("name", ""),
            role=Role(line.values.get("role") or Role.USER),
            domain=domain,
            projects=tuple(self.projects_for(line, without=())),
            policy=self.policy_for(line, domain.pk),
        )

    def project_ids_for(self, person: User | None) -> set[int]:
        return {each.project_id for each in person.memberships.all()} if person else set()

    def result(self, line: CsvRow) -> RowResult:
        person = self.people.get(line.email)
        faults = {**self._faults(line, person), **line.faults}
        if faults:
            return RowResult(Outcome.REFUSED, faults=faults)
        if person is None:
            return RowResult(Outcome.NEW)
        changes = self._changes(line, person)
        refused = self._refused_changes(person, changes)
        if refused:
            return RowResult(Outcome.REFUSED, faults=refused)
        return RowResult(Outcome.CHANGED if changes else Outcome.UNCHANGED, changes)

    def _faults(self, line: CsvRow, person: User | None) -> dict[str, str]:
        faults: dict[str, str] = {}
        if line.email in self.taken:
            faults["email"] = _("This address is taken.")
        role = line.values.get("role")
        if role and role not in set(Role):
            faults["role"] = _("There is no role {name}.").format(name=quoted(role))
        elif (
            role
            and (person is None or role != person.role)
            and Role(role) not in authorization.assignable_roles(self.actor_scope)
        ):
            faults["role"] = _("You may not give this role.")
        domain = self._domain_named(line, person, faults)
        if domain is not None:
            unknown = [name for name in line.projects if (domain.pk, name) not in self.projects]
            if unknown:
                faults["projects"] = _("There is no project {name} in this domain.").format(
                    name=quoted(unknown[0], 64)
                )
            if line.values.get("policy") and (fault := self._policy_fault(line, domain)):
                faults["policy"] = fault
        return {**faults, **(self._of_new(line) if person is None and domain is not None else {})}

    def _policy_fault(self, line: CsvRow, domain: Domain) -> str:
        policy = self.policy_for(line, domain.pk)
        if policy is None:
            return _("There is no policy {name}.").format(name=quoted(line.values["policy"], 64))
        if policy.domain_id is None and not policy.is_default and not may_do_everything(self.actor):
            sentence = _("The policy “{name}” is of the whole installation; superadmins assign it.")
            return sentence.format(name=policy.name)
        return ""

    def _domain_named(self, line: CsvRow, person: User | None, faults: dict[str, str]) -> Domain | None:
        name = line.values.get("domain")
        if person is not None:
            if name and name != person.domain.name:
                faults["domain"] = _("The person belongs to the domain {name}; a file moves nobody.").format(
                    name=person.domain.name
                )
            return person.domain
        domain = self.domains.get(name) if name else self._own_domain()
        if domain is None:
            faults["domain"] = _("There is no domain {name} among those that you may see.").format(
                name=quoted(name or "", 64)
            )
        return domain

    def _own_domain(self) -> Domain | None:
        """Return the actor's domain; None if it was closed meanwhile."""
        return next((each for each in self.domains.values() if each.pk == self.actor.domain_id), None)

    def _of_new(self, line: CsvRow) -> dict[str, str]:
        """Return validation errors of the account fields as {field: sentence}."""
        values = {name: line.values.get(name, "") for name in ("email", "name")}
        try:
            User(**values).clean_fields(exclude=["password", "domain", "policy"])
        except ValidationError as error:
            return {name: " ".join(sentences) for name, sentences in error.message_dict.items()}
        return {}

    def _changes(self, line: CsvRow, person: User) -> tuple[str, ...]:
        now = {"name": person.name, "role": person.role}
        changes = [name for name, value in now.items() if line.values.get(name, value) != value]
        policy = self.policy_for(
            line, person.domain_id
        )  # a domain's policy of the same name takes precedence
        if policy is not None and policy.pk != person.policy_id:
            changes.append("policy")
        joins = self.projects_for(line, without=self.project_ids_for(person))
        return (*changes, *(["projects"] if joins else []))

    def _refused_changes(self, person: User, changes: Collection[str]) -> dict[str, str]:
        if not changes:
            return {}
        if not person.is_active:
            return {"email": _("The account of {name} is closed.").format(name=person.email)}
        allowed = authorization.user_actions(
            self.actor_scope, user_id=person.pk, role=Role(person.role), domain_id=person.domain_id
        )
        if Action.EDIT not in allowed:
            return {"email": _("You may not do this to the account of {name}.").format(name=person.email)}
        if "role" in changes and person.pk == self.actor_scope.user_id:
            return {"role": _("You cannot change your own role.")}
        return {}
