"""Writes of sessions: enqueue, terminate, start an app."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn
from uuid import UUID

import redis
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.limits import write_within_limits
from accounts.quota import Scope
from accounts.selectors import access_usable_project
from agents.runtime.base import RuntimeFault
from agents.selectors import access_resource_group, has_machine_for, machine_sizes, runtime_of
from common import audit
from common.actors import Actor
from common.database import constraint_of
from common.dispatch import TaskName, enqueue_on_commit
from common.errors import BerthError, Conflict, InvalidInput, LimitExceeded, NotFound, Unavailable
from common.events import announce
from common.kept_sentences import KeptSentence
from common.languages import paragraph
from common.looks import look_of
from common.slots import ResourceSlots, format_slots
from common.texts import quoted
from images.labels import AppHint
from images.selectors import access_image
from sessions_app import holds, lifecycle
from sessions_app.arrays import elements_of, others_of
from sessions_app.asked import NOTHING, ResolvedMount, read_asked
from sessions_app.asked import ResolvedRequest as ResolvedRequest
from sessions_app.callbacks import demand_callback
from sessions_app.copied import check_alike, copy_session
from sessions_app.dependencies import resolve_dependencies
from sessions_app.designated import find_designated_agent
from sessions_app.device_models import demand_device_model
from sessions_app.events import SessionEnqueued, SessionsEnqueued
from sessions_app.group_rules import demand_group_takes
from sessions_app.inserting import insert_session
from sessions_app.limits import demand_within_limits, longest_lifetime_s
from sessions_app.models import ComputeSession
from sessions_app.requests import FolderRequest, SessionRequest, clash_sentence, clashing_path
from sessions_app.retries import give_up_retries
from sessions_app.selectors import Action, access_session, kernel_named, own_sessions
from sessions_app.specs import HOME, build_app_argv
from sessions_app.states import Reason, Status
from sessions_app.terms import TERMS_STAND, Overtaken
from vfolders.models import VFolder
from vfolders.selectors import access_mountable_folder, mountable_candidates

APP_START_S = 10
# An import changes terms again and again: who is overtaken twice looks whether it is concerned.
TRIES, HURRIED = 6, 2


def enqueue_session(*, actor: Actor, request: SessionRequest) -> ComputeSession:
    """A PENDING session of the actor; of a request for an array the first of its elements, which are all written or none.
    Raises NotFound, PermissionDenied, InvalidInput, LimitExceeded, Conflict."""
    return _enqueue(actor, elements_of(request))[0]


def enqueue_alike(*, actor: Actor, requests: Sequence[SessionRequest]) -> list[UUID]:
    """PENDING sessions of the actor in this order, all of them or none. The requests differ in `OWN_FIELDS` alone: one is checked and
    written, the others are its copies, by 5 statements however many. Raises what `enqueue_session` raises."""
    check_alike(requests)
    session, copies = _enqueue(actor, requests)
    return [session.pk, *copies]


def _enqueue(actor: Actor, requests: Sequence[SessionRequest]) -> tuple[ComputeSession, list[UUID]]:
    for attempt in range(TRIES):
        try:
            return _judge_and_write(actor, requests, looks_closely=attempt >= HURRIED)
        except Overtaken:
            continue
        except IntegrityError as error:
            if constraint_of(error) == "live_session_name_of_owner":
                raise name_is_used(_used_name(actor, requests)) from error
            if constraint_of(error) != TERMS_STAND:
                raise
    raise Conflict(
        _("Rights or limits were changed again and again at this moment."), hint=_("Try again in a minute.")
    )


def _judge_and_write(
    actor: Actor, requests: Sequence[SessionRequest], *, looks_closely: bool
) -> tuple[ComputeSession, list[UUID]]:
    """Raises IntegrityError by TERMS_STAND where anybody changed any terms meanwhile; `looks_closely`: Overtaken, and only where what this request
    was judged by was changed, which takes another query. Then nothing was written."""
    request = requests[0]
    resolved = resolve_request(actor, request)
    if looks_closely:
        resolved = replace(resolved, asked=replace(resolved.asked, seen=""))
    check_fits_somewhere(actor, resolved)
    read = [resolved.asked]  # by the first check alone: whoever is asked again finds what others took

    def check() -> list[Scope]:
        folders, asked = resolved.writable_folders, read.pop() if read else NOTHING
        return demand_within_limits(
            actor,
            resolved.project,
            resolved.image,
            request,
            folders,
            count=len(requests),
            budgets=() if asked.project and not asked.have_budgets else None,
            read=asked.scopes if asked.project else None,
        )

    def write(scopes: list[Scope]) -> tuple[ComputeSession, list[UUID]]:
        audit.demand_writer(actor)
        lifetime_s = longest_lifetime_s(scopes, resolved.group)
        session = insert_session(actor, resolved, lifetime_s=lifetime_s, action="sessions.enqueue_session")
        copies = copy_session(session, requests[1:], others_of(session, request.array))
        if looks_closely and read_asked(actor, request).terms != resolved.asked.terms:
            raise Overtaken
        _tell_enqueued(session, copies)
        return session, list(copies)

    is_one_statement = resolved.is_lone and len(requests) == 1 and not looks_closely
    return write_within_limits(check, write, by_one_statement=is_one_statement)


def _tell_enqueued(session: ComputeSession, copies: Mapping[UUID, str]) -> None:
    if not session.held_for:  # before the news for pages, which nobody waits for
        group_id = session.resource_group_id
        announce(SessionsEnqueued(group_id) if copies else SessionEnqueued(session.pk, group_id))
    if not copies:
        lifecycle.push_session_change(session)
    else:
        audit.copy_entries(session, copies)
        whose = (session.owner_id, session.project_id, session.domain_id)
        lifecycle.push_sessions_changed([(pk, *whose) for pk in (session.pk, *copies)], Status.PENDING)


def _used_name(actor: Actor, requests: Sequence[SessionRequest]) -> str:
    """The first of their names that a live session of the actor has; where it ended meanwhile, their first."""
    names = [request.name for request in requests]
    used = set(own_sessions(actor).live().filter(name__in=names).values_list("name", flat=True))
    return next((name for name in names if name in used), names[0])


def name_is_used(name: str) -> Conflict:
    return Conflict(
        _("You have a live session called “{name}” already.").format(name=name),
        hint=_("Choose another name, or stop that session first."),
        fields={"name": [_("Used by a live session of yours.")]},
    )


def resolve_request(actor: Actor, request: SessionRequest) -> ResolvedRequest:
    """Find what the request names, as this actor. One query, and at most 6 more, any number of folders."""
    holds.check_start_time(request)
    asked = read_asked(actor, request)
    project = asked.project or access_usable_project(actor, request.project)
    image = asked.image or access_image(actor, request.image)
    group = asked.group or access_resource_group(actor, request.resource_group, project)
    demand_group_takes(group, request)
    candidates = mountable_candidates(actor, [mount.folder for mount in request.mounts])
    mounts = tuple(
        _resolve_mount(actor, index, mount, candidates) for index, mount in enumerate(request.mounts)
    )
    if clash := clashing_path([mount.path for mount in mounts]):
        raise InvalidInput(clash_sentence(clash), fields={"mounts": [clash_sentence(clash)]})
    after = resolve_dependencies(actor, project, request.dependencies)
    demand_callback(actor, request.callback_url)
    demand_device_model(group, image, request)
    agent = find_designated_agent(group, image, request)
    return ResolvedRequest(request, project, image, group, mounts, after, agent, asked)


def _resolve_mount(
    actor: Actor, index: int, mount: FolderRequest, candidates: Sequence[VFolder]
) -> ResolvedMount:
    try:
        folder = access_mountable_folder(actor, mount.folder, candidates, is_readonly=mount.is_readonly)
    except BerthError as error:
        error.fields = {f"mounts.{index}.folder": [error.message]}
        raise
    return ResolvedMount(folder, mount.path or f"{HOME}/{folder.name}", mount.is_readonly)


def check_fits_somewhere(actor: Actor, resolved: ResolvedRequest) -> None:
    """Refuse what is too little for the image, or what no machine of the group that suits it could hold even when empty. Raises
    InvalidInput, and LimitExceeded with the largest that fits."""
    check_enough_for_image(resolved)
    request, architecture = resolved.request, resolved.image.architecture
    if resolved.asked.is_whole:
        has_machine = resolved.asked.has_machine
    else:
        has_machine = has_machine_for(
            resolved.group, request.slots, architecture=architecture, device_model=request.device_model
        )
    if not has_machine:
        refuse_size(actor, resolved)


def check_enough_for_image(resolved: ResolvedRequest) -> None:
    asked = resolved.request.slots
    minimum = ResourceSlots(resolved.image.min_slots)
    if not minimum.fits_in(asked):
        raise InvalidInput(
            _("The image {image} needs at least {least}; you asked for {asked}.").format(
                image=resolved.image, least=format_slots(minimum), asked=format_slots(asked)
            ),
            fields={"resources": [_("At least {amounts}.").format(amounts=format_slots(minimum))]},
        )


def refuse_size(actor: Actor, resolved: ResolvedRequest) -> NoReturn:
    """Of what no machine of the group could hold, among those that can run the image and have the accelerators that are named."""
    request, group, architecture = resolved.request, resolved.group.name, resolved.image.architecture
    asked, model = request.slots, request.device_model
    sizes = machine_sizes(actor, resolved.project)
    capacities = {
        name: [each.capacity for each in there if each.suits(architecture, model)]
        for name, there in sizes.items()
    }
    roomy = [name for name in sorted(capacities) if any(asked.fits_in(each) for each in capacities[name])]
    elsewhere = [
        _("The resource group “{group}” has a machine that is large enough.").format(group=name)
        for name in roomy[:1]
    ]
    here = capacities.get(group, [])
    if not here:
        raise _no_machine(resolved, elsewhere, is_empty=group not in sizes)
    largest = max(
        here, key=lambda capacity: sum(min(asked[name], capacity[name]) / asked[name] for name in asked)
    )
    sentence = (
        _("No machine of “{group}” with {model} has {amounts}.")
        if model
        else _("No machine of “{group}” has {amounts}.")
    ).format(group=group, model=model, amounts=format_slots(asked))
    fits = _("The largest that fits is {amounts}.").format(amounts=format_slots(largest))
    any_model = [_("Ask for less, or for any model.")] if model else []
    hint = paragraph([fits, *any_model, *elsewhere])
    field = "device_model" if model else "resources"
    raise LimitExceeded(sentence, hint=hint, fields={field: [paragraph([sentence, hint])]})


def _no_machine(resolved: ResolvedRequest, elsewhere: Sequence[str], *, is_empty: bool) -> LimitExceeded:
    """`is_empty`: none at all, not only none for the image."""
    hint = next(
        iter(elsewhere), _("Choose another resource group, or ask an administrator to add a machine.")
    )
    group, image = resolved.group.name, resolved.image
    if is_empty:
        return LimitExceeded(_("The resource group “{group}” has no machine.").format(group=group), hint=hint)
    sentence = _("The image {image} is for {architecture}, and no machine of “{group}” is.").format(
        image=image, architecture=image.architecture, group=group
    )
    return LimitExceeded(sentence, hint=hint, fields={"image": [paragraph([sentence, hint])]})


def terminate_session(*, actor: Actor, session_id: UUID) -> ComputeSession:
    """Ask a session to end. A waiting one is CANCELLED at once; an ended one is left as it is."""
    access_session(actor, session_id, Action.TERMINATE)
    with transaction.atomic():
        return end_asked(ComputeSession.objects.select_for_update().get(pk=session_id), actor=actor)


def end_asked(session: ComputeSession, *, actor: Actor) -> ComputeSession:
    """The same for a row that is locked, and an actor who may."""
    status = Status(session.status)
    if status is Status.TERMINATING:
        return give_up_retries(session, actor=actor)
    if status.is_terminal:
        return session
    reason = Reason.USER_REQUESTED if session.owner_id == actor.user_id else Reason.ADMIN_REQUESTED
    audit.record(actor=actor, action="sessions.terminate_session", target=session)
    if status is Status.PENDING:
        return lifecycle.transition(session.pk, to=Status.CANCELLED, reason=reason, actor=actor)
    return begin_termination(session.pk, reason=reason, actor=actor)


@transaction.atomic
def begin_termination(
    session_id: UUID,
    *,
    reason: Reason,
    actor: Actor,
    message: KeptSentence | None = None,
    exit_code: int | None = None,
) -> ComputeSession:
    """Move to TERMINATING and have the containers removed soon after."""
    session = lifecycle.transition(
        session_id, to=Status.TERMINATING, reason=reason, actor=actor, message=message, exit_code=exit_code
    )
    enqueue_on_commit(TaskName.TERMINATE_SESSION, session_id=str(session_id))
    return session


def start_app(session_id: UUID, app_name: str) -> None:
    """Start an app of the session's image in its main container. Asked again within APP_START_S it does nothing; a second
    start after that is harmless, because it finds the port taken and ends. Raises NotFound for an app that the image does not declare, Conflict if the session does not
    run, Unavailable if the engine does not answer."""
    session = ComputeSession.objects.with_parts().get(pk=session_id)
    if not session.is_running:
        sentence = _("The session “{session}” is {status}; this needs a running one.")
        raise Conflict(sentence.format(session=session.name, status=look_of(session.status).word.lower()))
    app = declared_app(session, app_name)
    kernel = kernel_named(session)
    if not app.command or not _is_first_ask(session_id, app_name):
        return  # the image starts it by itself, or it is starting
    argv = build_app_argv(app.command, port=app.port, start_dir=start_dir_of(session))
    try:
        runtime_of(kernel.placed_agent).start_process(
            kernel.container_name, argv, environment={"BERTH_APP_TOKEN": session.app_token}
        )
    except RuntimeFault as error:
        sentence = _("The machine of “{session}” did not start {app}: {error}")
        raise Unavailable(sentence.format(session=session.name, app=app.title, error=error)) from error


def _is_first_ask(session_id: UUID, app_name: str) -> bool:
    """Whether nobody asked for this app within the time that one takes to answer. Without Redis everybody is first: a
    second start is only noise in the log."""
    try:
        return bool(cache.add(f"app-asked:{session_id}:{app_name}", 1, timeout=APP_START_S))
    except redis.RedisError:
        return True


def start_dir_of(session: ComputeSession) -> str:
    """Where apps begin: in the first folder that may be written, because only files in folders are kept."""
    return next((mount.path for mount in session.mounts.all() if not mount.is_readonly), HOME)


def declared_app(session: ComputeSession, app_name: str) -> AppHint:
    """The app `app_name` as the session's image declares it. Raises NotFound."""
    apps = session.image.app_hints
    for app in apps:
        if app.name == app_name:
            return app
    known = ", ".join(app.name for app in apps)
    hint = (
        _("Its apps: {apps}. Any port answers as p<number>.").format(apps=known)
        if known
        else _("Any port answers as p<number>.")
    )
    sentence = _("The image of “{session}” has no app called {app}.")
    raise NotFound(sentence.format(session=session.name, app=quoted(app_name, 20)), hint=hint)


def suggest_name(actor: Actor, stem: str) -> str:
    """`stem`-1, -2 … : the first that no live session, and no array, of the actor has. One query."""
    names = own_sessions(actor).live().filter(name__startswith=f"{stem}-").values_list("name", flat=True)
    taken = {name.removeprefix(f"{stem}-").partition("-")[0] for name in names}  # an element is NAME-INDEX
    return next(f"{stem}-{number}" for number in range(1, len(taken) + 2) if str(number) not in taken)
