"""Statuses of a compute session, their legal transitions, deadlines and reasons. Pure."""

from enum import StrEnum
from types import MappingProxyType

from common.i18n import gettext_noop
from common.values.stored_message import StoredMessage


class Status(StrEnum):
    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PREPARING = "PREPARING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    CANCELLED = "CANCELLED"
    ERROR = "ERROR"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


# The only legal transitions. A failed session goes through TERMINATING too, so that its agent is
# cleaned up; `outcome` on its row records whether TERMINATED or ERROR follows, unless it is retried
# (`termination/retries.py`).
TRANSITIONS = MappingProxyType(
    {
        Status.PENDING: frozenset({Status.SCHEDULED, Status.CANCELLED, Status.ERROR}),
        Status.SCHEDULED: frozenset({Status.PREPARING, Status.TERMINATING}),
        Status.PREPARING: frozenset({Status.STARTING, Status.TERMINATING}),
        Status.STARTING: frozenset({Status.RUNNING, Status.TERMINATING}),
        Status.RUNNING: frozenset({Status.TERMINATING}),
        Status.TERMINATING: frozenset({Status.TERMINATED, Status.ERROR, Status.PENDING}),
        Status.TERMINATED: frozenset(),
        Status.CANCELLED: frozenset(),
        Status.ERROR: frozenset(),
    }
)
TERMINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
LIVE = frozenset(Status) - TERMINAL
HOLDING = LIVE - {Status.PENDING}
LAUNCHING = (Status.SCHEDULED, Status.PREPARING, Status.STARTING)

# Seconds after which a session must have left the status; `reconciler/loop.py` handles those that
# have not. RUNNING is also limited by the session's own `max_runtime_s`; SCHEDULED includes the wait
# for a worker behind other launches, PREPARING the pull of a large image.
DEADLINES_S = MappingProxyType(
    {
        Status.PENDING: 30 * 24 * 3600,
        Status.SCHEDULED: 3600,
        Status.PREPARING: 3600,
        Status.STARTING: 180,
        Status.RUNNING: 30 * 24 * 3600,
        Status.TERMINATING: 120,
    }
)


# Deadline while a session is under a queue hold; its wait for an agent has not begun.
HELD_DEADLINE_S = 400 * 24 * 3600


def is_legal(current: Status, to: Status) -> bool:
    return to in TRANSITIONS[current]


class Reason(StrEnum):
    """Reasons for a status: codes for programs. `REASON_SENTENCES` has the sentences for users."""

    ENQUEUED = "enqueued"
    PLACED = "placed"
    PREPARING = "preparing"
    IMAGE_READY = "image_ready"
    CONTAINERS_UP = "containers_up"
    USER_REQUESTED = "user_requested"
    ADMIN_REQUESTED = "admin_requested"
    COMMAND_FINISHED = "command_finished"
    COMMAND_FAILED = "command_failed"
    COMMAND_TIMED_OUT = "command_timed_out"
    CONTAINER_EXITED = "container_exited"
    OUT_OF_MEMORY = "out_of_memory"
    CONTAINER_LOST = "container_lost"
    AGENT_LOST = "agent_lost"
    IMAGE_MISSING = "image_missing"
    IMAGE_PULL_FAILED = "image_pull_failed"
    ENGINE_REFUSED = "engine_refused"
    NO_ROOM_ON_AGENT = "no_room_on_agent"
    DEVICE_UNAVAILABLE = "device_unavailable"
    ISOLATION_TOO_WEAK = "isolation_too_weak"
    WALLS_MISSING = "walls_missing"
    FOLDER_UNAVAILABLE = "folder_unavailable"
    FOLDER_REVOKED = "folder_revoked"
    OWNER_LEFT = "owner_left"
    DEADLINE_PASSED = "deadline_passed"
    LIFETIME_OVER = "lifetime_over"
    START_TIME = "start_time"
    PENDING_TIMEOUT = "pending_timeout"
    DEPENDENCY = "dependency"
    DEPENDENCY_IN_VAIN = "dependency_in_vain"
    GROUP_CLOSED = "group_closed"
    ARRAY_LIMIT = "array_limit"
    RETRIED = "retried"
    REQUEUED = "requeued"
    UNUSED = "unused"
    UNDERUSED = "underused"
    PREEMPTED = "preempted"


REASON_SENTENCES = MappingProxyType(
    {
        Reason.ENQUEUED: StoredMessage(gettext_noop("Waiting for a machine.")),
        Reason.PLACED: StoredMessage(gettext_noop("A machine with room was found.")),
        Reason.PREPARING: StoredMessage(gettext_noop("The machine prepares the image, network and folders.")),
        Reason.IMAGE_READY: StoredMessage(gettext_noop("The containers are being started.")),
        Reason.CONTAINERS_UP: StoredMessage(gettext_noop("Running.")),
        Reason.USER_REQUESTED: StoredMessage(gettext_noop("Stopped by its owner.")),
        Reason.ADMIN_REQUESTED: StoredMessage(gettext_noop("Stopped by an administrator.")),
        Reason.COMMAND_FINISHED: StoredMessage(gettext_noop("The command finished.")),
        Reason.COMMAND_FAILED: StoredMessage(
            gettext_noop("The command ended with an error. The log says why.")
        ),
        Reason.COMMAND_TIMED_OUT: StoredMessage(gettext_noop("The command was stopped at its time limit.")),
        Reason.CONTAINER_EXITED: StoredMessage(
            gettext_noop("The container ended by itself. The log may say why.")
        ),
        Reason.OUT_OF_MEMORY: StoredMessage(
            gettext_noop("It needed more memory than it asked for. Start it again with more memory.")
        ),
        Reason.CONTAINER_LOST: StoredMessage(
            gettext_noop("Its container is gone from the machine; somebody removed it there.")
        ),
        Reason.AGENT_LOST: StoredMessage(gettext_noop("The machine did not answer any more.")),
        Reason.IMAGE_MISSING: StoredMessage(
            gettext_noop(
                "No registry and no other machine has the image. Choose another image, or ask an administrator to bring it."
            )
        ),
        Reason.IMAGE_PULL_FAILED: StoredMessage(
            gettext_noop(
                "The image could not be pulled from its registry, and no other machine has it. Try again or choose another."
            )
        ),
        Reason.ENGINE_REFUSED: StoredMessage(
            gettext_noop("The machine's container engine refused to start it.")
        ),
        Reason.NO_ROOM_ON_AGENT: StoredMessage(
            gettext_noop("The machine ran out of disk, memory or network addresses.")
        ),
        Reason.DEVICE_UNAVAILABLE: StoredMessage(
            gettext_noop("The machine could not give it its accelerators.")
        ),
        Reason.ISOLATION_TOO_WEAK: StoredMessage(
            gettext_noop("The machine did not isolate its part of a device as well as it demanded.")
        ),
        Reason.WALLS_MISSING: StoredMessage(
            gettext_noop("The machine cannot keep sessions apart from itself, so nothing was started there.")
        ),
        Reason.FOLDER_UNAVAILABLE: StoredMessage(
            gettext_noop("One of its folders is not there any more. Start it again without that folder.")
        ),
        Reason.FOLDER_REVOKED: StoredMessage(
            gettext_noop("Its owner may not use one of its folders any more. Start it again without it.")
        ),
        Reason.OWNER_LEFT: StoredMessage(
            gettext_noop("Its owner may not use its project any more, so it was not started.")
        ),
        Reason.DEADLINE_PASSED: StoredMessage(
            gettext_noop("A stage took longer than it may, so the session was ended.")
        ),
        Reason.LIFETIME_OVER: StoredMessage(gettext_noop("It reached its maximum lifetime.")),
        Reason.START_TIME: StoredMessage(gettext_noop("Waits for its start time.")),
        Reason.PENDING_TIMEOUT: StoredMessage(
            gettext_noop("It reached its maximum wait: no machine had room by then.")
        ),
        Reason.DEPENDENCY: StoredMessage(gettext_noop("Waits until another session has ended.")),
        Reason.DEPENDENCY_IN_VAIN: StoredMessage(gettext_noop("A dependency did not meet its condition.")),
        Reason.GROUP_CLOSED: StoredMessage(
            gettext_noop("Its resource group was not open to it any more. Start it in another one.")
        ),
        Reason.ARRAY_LIMIT: StoredMessage(gettext_noop("Waits until others of its array have ended.")),
        Reason.RETRIED: StoredMessage(gettext_noop("It failed and waits for a machine again.")),
        Reason.REQUEUED: StoredMessage(gettext_noop("Its machine was lost, so it waits for another one.")),
        Reason.UNUSED: StoredMessage(gettext_noop("It reached its idle timeout. Its owner was warned.")),
        Reason.UNDERUSED: StoredMessage(
            gettext_noop("It was ended for low utilization. Its owner was warned.")
        ),
        Reason.PREEMPTED: StoredMessage(
            gettext_noop("It was preempted by a session with a higher priority. Its owner was warned.")
        ),
    }
)

# Sentences for a reason code that usually has another cause: a command's end, lack of capacity.
OWN_LIMIT_OVER = StoredMessage(gettext_noop("It reached its time limit."))
NO_IMAGE_IN_TIME = StoredMessage(
    gettext_noop("It reached its maximum wait: no machine got its image by then. Choose another image.")
)
LATE_END = StoredMessage(
    gettext_noop(
        "Its machine has not removed its container yet and is asked again; until then its resources stay allocated."
    )
)

# The end status that follows TERMINATING, by reason; ERROR for all other reasons.
OUTCOMES = MappingProxyType(
    {
        Reason.USER_REQUESTED: Status.TERMINATED,
        Reason.ADMIN_REQUESTED: Status.TERMINATED,
        Reason.FOLDER_REVOKED: Status.TERMINATED,
        Reason.COMMAND_FINISHED: Status.TERMINATED,
        Reason.COMMAND_FAILED: Status.TERMINATED,
        Reason.COMMAND_TIMED_OUT: Status.TERMINATED,
        Reason.CONTAINER_EXITED: Status.TERMINATED,
        Reason.LIFETIME_OVER: Status.TERMINATED,
        Reason.UNUSED: Status.TERMINATED,
        Reason.UNDERUSED: Status.TERMINATED,
        Reason.PREEMPTED: Status.TERMINATED,
    }
)

# Failures that a retry may fix; not those that need more memory or time.
RETRIED = frozenset(
    {
        Reason.COMMAND_FAILED, Reason.CONTAINER_LOST, Reason.ENGINE_REFUSED, Reason.NO_ROOM_ON_AGENT,
        Reason.WALLS_MISSING, Reason.IMAGE_PULL_FAILED, Reason.DEVICE_UNAVAILABLE,
        Reason.ISOLATION_TOO_WEAK,
    }
)  # fmt: skip
REQUEUED = frozenset({Reason.AGENT_LOST, Reason.PREEMPTED})


def requeue_reason(
    outcome_reason: str, *, has_retries: bool, requeues: bool, may_change_devices: bool
) -> Reason | None:
    """Return the reason to queue the session again after this end; None if it is not queued again.
    `may_change_devices`: no machine has failed to give it its accelerators yet; the next one might.
    """
    if outcome_reason in REQUEUED:
        return Reason.REQUEUED if requeues else None
    if outcome_reason == Reason.DEVICE_UNAVAILABLE and may_change_devices:
        return Reason.REQUEUED
    return Reason.RETRIED if has_retries and outcome_reason in RETRIED else None


def end_status(reason: Reason) -> Status:
    return OUTCOMES.get(reason, Status.ERROR)
