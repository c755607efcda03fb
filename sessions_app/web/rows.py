"""Build the rows of the page “Sessions” as plain values, so that a row is rendered again only if it
changed.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _

from common.actors import Actor
from common.templatetags.berth import ago
from common.values.resources import CPU, MEM, ResourceSlots, format_slots
from sessions_app.app_services.urls import app_links
from sessions_app.core.states import Reason
from sessions_app.idle.messages import NearEnd, near_end
from sessions_app.metrics.history import CurrentUse, current_use_by_kernel
from sessions_app.models import ComputeSession
from sessions_app.presentation.session import agent_names, list_explanation, short_explanation, slot_words
from sessions_app.selectors import Action, is_stoppable, may

TENTH = 10


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """Use of a running session in base units, None if unknown; `devices` are its other resources in
    words, with the mean use of the measured ones to a tenth. CPU is rounded to a tenth of a core, so
    that rows rarely change.
    """

    cpu: int | None
    cpu_limit: int
    mem: int | None
    mem_limit: int
    devices: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session, ready for display.

    `details` is shown below the name and holds values without a column. `exit_code` is set only if
    the command failed. `note` is the short explanation of the state, `whole_note` the full
    sentence. `app` is the name of the app to open, or ""; the tag app_url gives its URL.
    """

    pk: UUID
    host_label: str
    name: str
    details: str
    status: str
    exit_code: int | None
    note: str
    whole_note: str
    ends: NearEnd | None
    type: str
    project: str
    owner: str
    image: str
    slots: str
    use: ResourceUse | None
    group: str
    priority: int
    machines: str
    started: str
    ended: str
    app: str
    app_title: str
    can_stop: bool
    can_open_terminal: bool
    can_start_again: bool


def session_rows(
    actor: Actor, sessions: Iterable[ComputeSession], shown: Collection[str]
) -> list[SessionRow]:
    """Return rows for sessions loaded with `for_rows`, for the columns in `shown`. One query, for
    the use of running sessions.
    """
    found = list(sessions)
    running = [kernel.pk for session in found if session.is_running for kernel in session.kernels.all()]
    uses = current_use_by_kernel(running) if "resources" in shown and running else {}
    return [_row(actor, session, shown, uses) for session in found]


def _row(
    actor: Actor,
    session: ComputeSession,
    shown: Collection[str],
    uses: dict[UUID, CurrentUse],
) -> SessionRow:
    is_own = session.owner_id == actor.user_id
    apps = app_links(session) if may(actor, session, Action.OPEN_APP) else []
    has_failed = session.status_reason == Reason.COMMAND_FAILED
    return SessionRow(
        pk=session.pk,
        host_label=session.host_label,
        name=session.name,
        details=" · ".join(_details(session, is_own, shown)),
        status=session.status,
        exit_code=session.exit_code if has_failed else None,
        note=list_explanation(session),
        whole_note=short_explanation(session),
        ends=near_end(session),
        type=str(session.get_type_display()),
        project=session.project.name,
        owner=session.owner.email,
        image=session.image_reference,
        slots=slot_words(session.slots_of_all, session.kernel_count),
        use=_resource_use(session, uses),
        group=session.resource_group.name,
        priority=session.priority,
        machines=agent_names(session),
        started=ago(session.created_at),
        ended=ago(session.ended_at),
        app=str(apps[0]["name"]) if apps else "",
        app_title=str(apps[0]["title"]) if apps else "",
        can_stop=not session.stops_at and is_stoppable(session) and may(actor, session, Action.TERMINATE),
        can_open_terminal=session.is_running and may(actor, session, Action.OPEN_TERMINAL),
        can_start_again=is_own and not session.is_live,
    )


def _details(session: ComputeSession, is_own: bool, shown: Collection[str]) -> Sequence[str]:
    owner = [] if is_own or "owner" in shown else [session.owner.email]
    project = [] if "project" in shown else [session.project.name]
    return [*array_position(session), *owner, *project, str(session.image)]


def array_position(session: ComputeSession) -> list[str]:
    """Return the position in the array as words; [] for a session without array. No query if the
    session was loaded with `for_rows` or `with_kernels`.
    """
    if session.array is None:
        return []
    words = _("element {index} of {array} ({count})")
    return [words.format(index=session.array_index, array=session.array.name, count=session.array.count)]


def _resource_use(session: ComputeSession, uses: dict[UUID, CurrentUse]) -> ResourceUse | None:
    """Return the use of all containers together; None if none was measured recently."""
    kernels = session.kernels.all()
    measured = [use for kernel in kernels if (use := uses.get(kernel.pk))]
    if not measured or not session.is_running:
        return None
    limits = sum((kernel.slots for kernel in kernels), ResourceSlots())
    cpu = _sum(use.cpu_milli for use in measured)
    devices = {name: amount for name, amount in limits.items() if name not in (CPU, MEM)}
    return ResourceUse(
        cpu=None if cpu is None else round(cpu, -2),
        cpu_limit=limits[CPU],
        mem=_sum(use.mem_bytes for use in measured),
        mem_limit=limits[MEM],
        devices=_device_words(format_slots(devices), measured) if devices else "",
    )


def _device_words(slots: str, measured: Iterable[CurrentUse]) -> str:
    percents = [use.device_percent for use in measured if use.device_percent is not None]
    if not percents:
        return slots
    mean = -(-sum(percents) // len(percents))
    return _("{devices}, {percent} % busy").format(
        devices=slots, percent=mean if mean < TENTH else round(mean, -1)
    )


def _sum(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
