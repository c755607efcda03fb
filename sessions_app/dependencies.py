"""Sessions that start after others have ended: which may be named, what they wait for, and what becomes of them then.

The row of a session that others come after says so (`is_awaited`), under its lock: its end finds it, and asks for
`settle_dependents`. Reconciling does the same for whatever that missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext as _

from accounts.models import Project
from common.actors import SYSTEM, Actor
from common.errors import InvalidInput, NotFound
from common.kept_sentences import KeptSentence
from common.languages import gettext_noop
from common.texts import quoted
from sessions_app import holds, lifecycle
from sessions_app.arrays import release_elements
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionDependency, SessionType
from sessions_app.queueing import DependencyRequest, Hold, When
from sessions_app.selectors import visible_sessions
from sessions_app.states import REASON_SENTENCES, Reason, Status

_SUCCEEDED = Q(after__status_reason=Reason.COMMAND_FINISHED) | (
    ~Q(after__type=SessionType.BATCH) & Q(after__status=Status.TERMINATED)
)
_ENDED = Q(after__ended_at__isnull=False)
_IN_VAIN = _ENDED & (Q(when=When.SUCCESS) & ~_SUCCEEDED | Q(when=When.FAILURE) & _SUCCEEDED)
# By what is waited for; {others} is how many more there are.
_WAITS = {
    When.SUCCESS: gettext_noop("Waits until “{name}” has ended well."),
    When.ANY: gettext_noop("Waits until “{name}” has ended."),
    When.FAILURE: gettext_noop("Waits until “{name}” has failed."),
}
_WAITS_FOR_MORE = {
    When.SUCCESS: gettext_noop("Waits until “{name}” has ended well, and for {others} more."),
    When.ANY: gettext_noop("Waits until “{name}” has ended, and for {others} more."),
    When.FAILURE: gettext_noop("Waits until “{name}” has failed, and for {others} more."),
}
_AHEAD = {
    When.SUCCESS: gettext_noop("once it has ended well"),
    When.ANY: gettext_noop("once it has ended"),
    When.FAILURE: gettext_noop("once it has failed"),
}
_NEVER = {
    When.SUCCESS: gettext_noop("It was to start after “{name}” had ended well, which did not come about."),
    When.FAILURE: gettext_noop("It was to start after “{name}” had failed, which did not come about."),
}


@dataclass(frozen=True, slots=True)
class Dependency:
    """Another session, and how it is to end."""

    after: ComputeSession
    when: When

    @property
    def words(self) -> str:
        """How it is to end, or that it did."""
        if self.after.ended_at is None:
            return _(_AHEAD[self.when])
        return _("did not end so") if self.is_in_vain else _("has ended")

    @property
    def is_met(self) -> bool:
        return self.after.ended_at is not None and not self.is_in_vain

    @property
    def is_in_vain(self) -> bool:
        """Whether it ended otherwise: ends are final."""
        if self.after.ended_at is None or self.when is When.ANY:
            return False
        return has_succeeded(self.after) is (self.when is When.FAILURE)


def has_succeeded(session: ComputeSession) -> bool:
    """Of one that has ended: a command did what it was to; of others, that they ended without a fault."""
    if session.type == SessionType.BATCH:
        return session.status_reason == Reason.COMMAND_FINISHED
    return session.status == Status.TERMINATED


def resolve_dependencies(
    actor: Actor, project: Project, asked: Sequence[DependencyRequest]
) -> tuple[Dependency, ...]:
    """Sessions that the actor sees, and that are their own or of this project. By id, or by name: of their own, a live one before the
    newest. 2 queries. Raises NotFound, InvalidInput, at the field."""
    if not asked:
        return ()
    seen = visible_sessions(actor).filter(Q(owner_id=actor.user_id) | Q(project=project))
    ids = {found for each in asked if (found := _id_of(each.session))}
    names = {each.session for each in asked if not _id_of(each.session)}
    by_key = {str(session.pk): session for session in seen.filter(pk__in=ids)} if ids else {}
    own = seen.filter(owner_id=actor.user_id, name__in=names).order_by("name", "-ended_at", "-created_at")
    for session in own.distinct("name") if names else ():  # those that live have no end, and come first
        by_key[session.name] = session
    known = tuple(_known(by_key, index, each) for index, each in enumerate(asked))
    if len({each.after.pk for each in known}) < len(known):
        sentence = _("Name each session once.")
        raise InvalidInput(sentence, fields={"dependencies": [sentence]})
    return known


def _known(by_key: dict[str, ComputeSession], index: int, asked: DependencyRequest) -> Dependency:
    session = by_key.get(str(_id_of(asked.session) or asked.session))
    if session is None:
        sentence = _("There is no session {name} that yours may come after.").format(
            name=quoted(asked.session)
        )
        raise NotFound(sentence, fields={f"dependencies.{index}.session": [sentence]})
    dependency = Dependency(session, asked.when)
    demand_possible(index, dependency)
    return dependency


def demand_possible(index: int, dependency: Dependency) -> None:
    """Raises InvalidInput for one that has ended otherwise already."""
    if dependency.is_in_vain:
        sentence = _("“{name}” has ended otherwise already, so this would never start.")
        sentence = sentence.format(name=dependency.after.name)
        raise InvalidInput(sentence, fields={f"dependencies.{index}.session": [sentence]})


def hold_awaited(dependencies: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """The same as they are now, marked, their rows locked until the transaction ends: an end that comes later finds the
    mark. Raises InvalidInput for one that has ended otherwise meanwhile."""
    if not dependencies:
        return ()
    ids = [each.after.pk for each in dependencies]
    rows = ComputeSession.objects.filter(pk__in=ids).order_by("pk")
    fresh = {row.pk: row for row in rows.select_for_update(no_key=True)}
    held = tuple(Dependency(fresh[each.after.pk], each.when) for each in dependencies)
    for index, each in enumerate(held):
        demand_possible(index, each)
    ComputeSession.objects.filter(pk__in=ids, is_awaited=False).update(is_awaited=True)
    return held


def hold_for(dependencies: Sequence[Dependency], project_id: int) -> KeptSentence | None:
    """What a session of this project waits for that comes after these; None where all have ended. The sentence is read by all who
    see the session: what is in another project is not named."""
    ahead = [each for each in dependencies if not each.is_met]
    if not ahead:
        return None
    if ahead[0].after.project_id != project_id:
        return REASON_SENTENCES[Reason.DEPENDENCY]
    name, others = ahead[0].after.name, len(ahead) - 1
    if not others:
        return KeptSentence(_WAITS[ahead[0].when], {"name": name})
    return KeptSentence(_WAITS_FOR_MORE[ahead[0].when], {"name": name, "others": others})


def settle_dependents(session_id: UUID) -> None:
    """After the end of this one: let those that came after it into the queue, or end those that never can start. May run twice,
    or never."""
    _settle(_held().filter(dependencies__after=session_id))


def settle_all() -> None:
    """Those that no end has found: whatever was lost with a process."""
    theirs = SessionDependency.objects.filter(session=OuterRef("pk"))
    is_due = ~Exists(theirs.exclude(_ENDED)) | Exists(theirs.filter(_IN_VAIN))
    _settle(_held().filter(is_due))


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.waiting().filter(held_for=Hold.DEPENDENCY.value)
    return held


def _settle(sessions: ComputeSessionQuerySet) -> None:
    found = dict(sessions.values_list("pk", "array_id"))
    for session_id in found:
        with transaction.atomic():
            session = _held().select_for_update(skip_locked=True).filter(pk=session_id).first()
            if session is not None:
                _settle_one(session)
    for array_id in {each for each in found.values() if each is not None}:
        release_elements(array_id)


def _settle_one(session: ComputeSession) -> None:
    dependencies = dependencies_of(session)
    in_vain = next((each for each in dependencies if each.is_in_vain), None)
    if in_vain is not None:
        message = None
        if in_vain.after.project_id == session.project_id:
            message = KeptSentence(_NEVER[in_vain.when], {"name": in_vain.after.name})
        reason = Reason.DEPENDENCY_IN_VAIN
        lifecycle.transition(session.pk, to=Status.CANCELLED, reason=reason, actor=SYSTEM, message=message)
        return
    waits_for = hold_for(dependencies, session.project_id)
    if waits_for is None:
        holds.go_on(session)
    elif waits_for != session.status_message:
        session.status_message = waits_for
        session.save(update_fields=["status_message"])
        lifecycle.push_session_change(session)


def dependencies_of(session: ComputeSession) -> list[Dependency]:
    """As they are now. One query."""
    rows = session.dependencies.select_related("after")
    return [Dependency(row.after, When(row.when)) for row in rows]


def is_named(after: ComputeSession, session: ComputeSession, *, user_id: int | None) -> bool:
    """Whether who sees `session` is told which one it comes after: its owner is, and others where it is of the same project."""
    return after.project_id == session.project_id or session.owner_id == user_id


def _id_of(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == len(str(UUID(int=0))) else None
    except ValueError:
        return None
