"""Dependencies of sessions on other sessions and arrays: resolving, checking and describing them.

Their effect after an end is in `dependents.py`. Awaited rows are marked with `is_awaited`. A
session is marked under its lock, so that its end sees the mark and triggers `settle_dependents`.
The end of an element does not lock its array (ADR 8); so marking an array also triggers a check of
the array.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext as _

from accounts.models import Project
from common.actors import Actor
from common.errors import InvalidInput, NotFound
from common.i18n import gettext_noop
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.stored_message import StoredMessage
from common.values.text import quoted
from sessions_app.core.queue_options import DependencyRequest, When
from sessions_app.core.states import REASON_SENTENCES, Reason
from sessions_app.models import ComputeSession, SessionArray, SessionDependency
from sessions_app.queue.arrays import progress_by_array, visible_arrays
from sessions_app.queue.endings import Ending, ending_of
from sessions_app.selectors import visible_sessions

# By kind and condition; {others} is the number of further dependencies.
_WAITING = {
    (ComputeSession, When.SUCCESS): gettext_noop("Waits until “{name}” has succeeded."),
    (ComputeSession, When.ANY): gettext_noop("Waits until “{name}” has ended."),
    (ComputeSession, When.FAILURE): gettext_noop("Waits until “{name}” has failed."),
    (SessionArray, When.SUCCESS): gettext_noop("Waits until all of “{name}” have succeeded."),
    (SessionArray, When.ANY): gettext_noop("Waits until all of “{name}” have ended."),
    (SessionArray, When.FAILURE): gettext_noop("Waits until all of “{name}” have ended and one has failed."),
}
_WAITING_FOR_MORE = {
    (ComputeSession, When.SUCCESS): gettext_noop(
        "Waits until “{name}” has succeeded, and for {others} more."
    ),
    (ComputeSession, When.ANY): gettext_noop("Waits until “{name}” has ended, and for {others} more."),
    (ComputeSession, When.FAILURE): gettext_noop("Waits until “{name}” has failed, and for {others} more."),
    (SessionArray, When.SUCCESS): gettext_noop(
        "Waits until all of “{name}” have succeeded, and for {others} more."
    ),
    (SessionArray, When.ANY): gettext_noop("Waits until all of “{name}” have ended, and for {others} more."),
    (SessionArray, When.FAILURE): gettext_noop(
        "Waits until all of “{name}” have ended and one has failed, and for {others} more."
    ),
}
_NEVER = {
    (ComputeSession, When.SUCCESS): gettext_noop(
        "It was to start after “{name}” had succeeded, which did not happen."
    ),
    (ComputeSession, When.FAILURE): gettext_noop(
        "It was to start after “{name}” had failed, which did not happen."
    ),
    (SessionArray, When.SUCCESS): gettext_noop(
        "It was to start after all of “{name}” had succeeded, which did not happen."
    ),
    (SessionArray, When.FAILURE): gettext_noop(
        "It was to start after one of “{name}” had failed, which did not happen."
    ),
}
# For a session that never ran, and so neither succeeded nor failed.
_NEVER_RAN = {
    When.SUCCESS: gettext_noop("It was to start after “{name}” had succeeded, but “{name}” never ran."),
    When.FAILURE: gettext_noop("It was to start after “{name}” had failed, but “{name}” never ran."),
}
_CONDITIONS = {
    (ComputeSession, When.SUCCESS): gettext_noop("once it has succeeded"),
    (ComputeSession, When.ANY): gettext_noop("once it has ended"),
    (ComputeSession, When.FAILURE): gettext_noop("once it has failed"),
    (SessionArray, When.SUCCESS): gettext_noop("once all have succeeded"),
    (SessionArray, When.ANY): gettext_noop("once all have ended"),
    (SessionArray, When.FAILURE): gettext_noop("once all have ended and one has failed"),
}


@dataclass(frozen=True, slots=True)
class Dependency:
    """Session or array to wait for, the counts of its ends, and the required outcome."""

    after: ComputeSession | SessionArray
    when: When
    ended: int
    succeeded: int
    failed: int

    @property
    def count(self) -> int:
        """Number of sessions: elements of an array, else 1."""
        return self.after.count if isinstance(self.after, SessionArray) else 1

    @property
    def words(self) -> str:
        """Text for the required outcome, or for the one reached."""
        if self.is_impossible:
            return _("never ran") if self.never_ran else _("condition not met")
        if self.is_met:
            return _("has ended")
        return _(_CONDITIONS[type(self.after), self.when])

    @property
    def progress(self) -> str:
        """Text for the progress of an awaited array; "" otherwise."""
        if not self.is_array or self.is_met or self.is_impossible:
            return ""
        return _("{ended} of {count} have ended").format(ended=self.ended, count=self.count)

    @property
    def is_met(self) -> bool:
        return self.ended == self.count and not self.is_impossible

    @property
    def is_impossible(self) -> bool:
        """True if the condition can never be met, as ends are final.

        For an array, success is impossible after one element that did not succeed; failure is
        impossible when all have ended and none failed.
        """
        if self.when is When.SUCCESS:
            return self.succeeded < self.ended
        return self.when is When.FAILURE and self.ended == self.count and not self.failed

    @property
    def is_array(self) -> bool:
        return isinstance(self.after, SessionArray)

    @property
    def never(self) -> StoredMessage:
        """Sentence for a session whose dependency can never be met."""
        if self.never_ran:
            return StoredMessage(_NEVER_RAN[self.when], {"name": self.after.name})
        return StoredMessage(_NEVER[type(self.after), self.when], {"name": self.after.name})

    @property
    def never_ran(self) -> bool:
        """True for a session that neither succeeded nor failed."""
        return not self.is_array and self.ended > self.succeeded + self.failed

    def row_of(self, session: ComputeSession) -> SessionDependency:
        """Return the unsaved row for the dependency of `session`."""
        if isinstance(self.after, SessionArray):
            return SessionDependency(session=session, after_array=self.after, when=self.when.value)
        return SessionDependency(session=session, after=self.after, when=self.when.value)


def resolve_dependencies(
    actor: Actor, project: Project, requested: Sequence[DependencyRequest]
) -> tuple[Dependency, ...]:
    """Return the named sessions and arrays: visible to the actor, and own or in the project.

    A name is looked up among the actor's own: live ones first, then the newest. At most 5 queries.
    Raises NotFound, InvalidInput at the field.
    """
    if not requested:
        return ()
    found_by_key = _find_awaited(actor, project, {_key_of(each.session) for each in requested})
    known = tuple(_resolve_one(found_by_key, index, each) for index, each in enumerate(requested))
    if len({each.after.pk for each in known}) < len(known):
        sentence = _("Name each session once.")
        raise InvalidInput(sentence, fields={"dependencies": [sentence]})
    return known


def _find_awaited(actor: Actor, project: Project, keys: set[UUID | str]) -> dict[UUID | str, Dependency]:
    """Return the sessions and arrays for these ids and names, with the condition ANY."""
    scope = Q(owner_id=actor.user_id) | Q(project=project)
    sessions, arrays = visible_sessions(actor).filter(scope), visible_arrays(actor).filter(scope)
    ids = {key for key in keys if isinstance(key, UUID)}
    own = Q(owner_id=actor.user_id, name__in=keys - ids)
    by_id: list[ComputeSession | SessionArray] = [*sessions.filter(pk__in=ids)] if ids else []
    by_id += arrays.filter(pk__in=ids) if len(by_id) < len(ids) else ()
    by_name: list[ComputeSession | SessionArray] = []
    if len(ids) < len(keys):
        living = ComputeSession.objects.live().filter(owner_id=actor.user_id, array__isnull=False)
        lives = {ComputeSession: Q(ended_at=None), SessionArray: Q(pk__in=living.order_by().values("array"))}
        for rows in (sessions, arrays):
            named = rows.filter(own).annotate(lives=ExpressionWrapper(lives[rows.model], BooleanField()))
            by_name += named.order_by("name", "-lives", "-created_at").distinct("name")
    current = _current([(each, When.ANY) for each in (*by_id, *by_name)])
    found_by_key: dict[UUID | str, Dependency] = {each.after.pk: each for each in current[: len(by_id)]}
    for each in sorted(current[len(by_id) :], key=lambda each: (not each.is_met, each.after.created_at)):
        found_by_key[each.after.name] = each
    return found_by_key


def _resolve_one(
    found_by_key: Mapping[UUID | str, Dependency], index: int, requested: DependencyRequest
) -> Dependency:
    found = found_by_key.get(_key_of(requested.session))
    if found is None:
        sentence = _("There is no session or array {name} on which yours may depend.").format(
            name=quoted(requested.session)
        )
        raise NotFound(sentence, fields={f"dependencies.{index}.session": [sentence]})
    dependency = replace(found, when=requested.when)
    check_possible(index, dependency)
    return dependency


def check_possible(index: int, dependency: Dependency) -> None:
    """Raise InvalidInput if the dependency can never be met."""
    if dependency.is_impossible:
        sentence = _("“{name}” has ended already and does not meet the condition, so this would never start.")
        if dependency.never_ran:
            sentence = _("“{name}” was cancelled before it ran, so this would never start.")
        if dependency.ended < dependency.count:
            sentence = _("One of “{name}” has failed already, so this would never start.")
            if not dependency.failed:
                sentence = _("One of “{name}” was cancelled before it ran, so this would never start.")
        sentence = sentence.format(name=dependency.after.name)
        raise InvalidInput(sentence, fields={f"dependencies.{index}.session": [sentence]})


def lock_awaited(dependencies: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """Mark the awaited rows and return their current state, with sessions locked until commit.

    A later end sees the mark.
    """
    if not dependencies:
        return ()
    _mark_arrays([each.after.pk for each in dependencies if each.is_array])
    named = [each.after.pk for each in dependencies if not each.is_array]
    rows = ComputeSession.objects.filter(pk__in=named).order_by("pk").select_for_update(no_key=True)
    locked = {row.pk: row for row in rows} if named else {}
    if named:
        ComputeSession.objects.filter(pk__in=named, is_awaited=False).update(is_awaited=True)
    return tuple(_current([(locked.get(each.after.pk, each.after), each.when) for each in dependencies]))


def _mark_arrays(array_ids: Sequence[UUID]) -> None:
    """Mark the arrays as awaited and check them after commit.

    An element that ends before the commit does not see the mark, and may end after the array was
    read.
    """
    for array_id in sorted(array_ids):
        SessionArray.objects.filter(pk=array_id, is_awaited=False).update(is_awaited=True)
        enqueue_on_commit(TaskName.LOOK_AT_ARRAY, array_id=str(array_id))


def dependency_message(dependencies: Sequence[Dependency], project_id: int) -> StoredMessage | None:
    """Return the hold message for a session with these dependencies; None if all are met.

    Everyone who sees the session reads it, so it does not name sessions of other projects.
    """
    ahead = [each for each in dependencies if not each.is_met]
    if not ahead:
        return None
    if ahead[0].after.project_id != project_id:
        return REASON_SENTENCES[Reason.DEPENDENCY]
    kind, name, others = (type(ahead[0].after), ahead[0].when), ahead[0].after.name, len(ahead) - 1
    if not others:
        return StoredMessage(_WAITING[kind], {"name": name})
    return StoredMessage(_WAITING_FOR_MORE[kind], {"name": name, "others": others})


def dependencies_of(session: ComputeSession) -> list[Dependency]:
    """Return the current dependencies of the session. One query, two if it depends on arrays."""
    return dependencies_by_session([session])[0]


def dependencies_by_session(sessions: Sequence[ComputeSession]) -> list[list[Dependency]]:
    """Return the current dependencies of each session, in order. One query, two with arrays."""
    rows = SessionDependency.objects.filter(session__in=sessions).select_related("after", "after_array")
    found: dict[UUID, list[Dependency]] = {session.pk: [] for session in sessions}
    known = list(rows)
    current = _current([(row.awaited, When(row.when)) for row in known])
    for row, dependency in zip(known, current, strict=True):
        found[row.session_id].append(dependency)
    return list(found.values())


def _current(requested: Sequence[tuple[ComputeSession | SessionArray, When]]) -> list[Dependency]:
    """Return the current state: of sessions by their rows, of arrays by their elements.

    One query if there are arrays.
    """
    arrays = {after.pk: after for after, _when in requested if isinstance(after, SessionArray)}
    progress = progress_by_array(list(arrays.values())) if arrays else {}
    found = []
    for after, when in requested:
        if isinstance(after, SessionArray):
            current = progress[after.pk]
            found.append(Dependency(after, when, current.ended, current.succeeded, current.failed))
        else:
            ending = ending_of(after)
            counts = (ending is not None, ending is Ending.SUCCESS, ending is Ending.FAILURE)
            found.append(Dependency(after, when, *map(int, counts)))
    return found


def may_see_name(
    after: ComputeSession | SessionArray, session: ComputeSession, *, user_id: int | None
) -> bool:
    """Return True if viewers of `session` may see the name of `after`.

    The owner may; others only if it is in the same project.
    """
    return after.project_id == session.project_id or session.owner_id == user_id


def _key_of(text: str) -> UUID | str:
    """Return the text as a UUID if it is one, else as a name."""
    try:
        return UUID(text) if len(text) == len(str(UUID(int=0))) else text
    except ValueError:
        return text
