"""What the next tick would do with one more session: the engine is asked, on the picture that a tick would have."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from accounts.quota import Level
from agents.models import Agent
from common import clock
from common.kept_sentences import KeptSentence
from common.languages import gettext_noop
from common.slots import ResourceSlots
from scheduler.engine import Needs, PendingSession, plan
from scheduler.reasons import sentence_for
from scheduler.snapshot import OWNERS, read_snapshot, scope_key
from sessions_app.forecast import STARTS_NOW, Outlook

STARTS = gettext_noop("Starts now on {agent}.")


def foresee(
    group_id: int,
    architecture: str,
    slots: ResourceSlots,
    scopes: Collection[tuple[Level, int]],
    lasts_s: int | None,
    priority: int = 0,
) -> Outlook:
    """The outlook of a session of these scopes that would be enqueued now, behind all of its priority that wait. At most 6 queries.
    Nothing is kept free for it: whoever asks first gets the room."""
    snapshot, now = read_snapshot(group_id, also=scopes), clock.now()
    named = tuple(scope_key(*key) for key in scopes)
    asked = PendingSession(
        id=uuid4(),
        enqueued_at=now,
        needs=Needs(architecture, (slots,)),
        kernel_ids=(uuid4(),),
        priority=priority,
        scopes=named,
        tenants=named[:OWNERS],
        lasts=None if lasts_s is None else timedelta(seconds=lasts_s),
    )
    planned = plan(replace(snapshot, pending=(*snapshot.pending, asked)), now)
    for placement in planned.placements:
        if placement.session is asked:
            agent = Agent.objects.only("name").get(pk=placement.agent_ids[0]).name
            return Outlook(agent, STARTS_NOW, KeptSentence(STARTS, {"agent": agent}))
    (deferral,) = (each for each in planned.deferrals if each.session_id == asked.id)
    why = deferral.why
    sentence = sentence_for(why, snapshot.group_name)
    room = ResourceSlots() if why.excess else why.best_agent
    return Outlook("", deferral.reason.value, sentence, deferral.position, room)
