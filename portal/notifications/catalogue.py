"""Catalogue of notifications: codes with their texts, styles and kinds. Pure.

Rows store the code and the arguments, not the text, so that each user reads
it in their own language.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from common.i18n import gettext_noop
from common.pages.status_styles import Tone
from sessions_app.core.idle_rules import Cause
from sessions_app.core.states import Reason, Status


class Code(StrEnum):
    COMMAND_FINISHED = "command_finished"
    COMMAND_FAILED = "command_failed"
    COMMAND_TIMED_OUT = "command_timed_out"
    CONTAINER_EXITED = "container_exited"
    OUT_OF_MEMORY = "out_of_memory"
    MACHINE_LOST = "machine_lost"
    PULL_FAILED = "pull_failed"
    STOPPED_BY_ADMIN = "stopped_by_admin"
    LIFETIME_OVER = "lifetime_over"
    NOT_STARTED = "not_started"
    WAITED_TOO_LONG = "waited_too_long"
    WAITED_IN_VAIN = "waited_in_vain"
    SHUT_OUT = "shut_out"
    ENDS_SOON = "ends_soon"
    LIFETIME_ENDS_SOON = "lifetime_ends_soon"
    UNUSED_ENDS_SOON = "unused_ends_soon"
    UNDERUSED_ENDS_SOON = "underused_ends_soon"
    PREEMPTED_SOON = "preempted_soon"
    PREEMPTED = "preempted"
    ENDED_UNUSED = "ended_unused"
    ENDED_UNDERUSED = "ended_underused"
    TOKEN_ENDS_SOON = "token_ends_soon"
    MONEY_NEARLY_SPENT = "money_nearly_spent"
    HOURS_NEARLY_SPENT = "hours_nearly_spent"
    MONEY_SPENT = "money_spent"
    HOURS_SPENT = "hours_spent"
    PASSWORDS_TRIED = "passwords_tried"
    DEVICE_TROUBLE = "device_trouble"
    ARRAY_FINISHED = "array_finished"
    ARRAY_FAILED = "array_failed"
    DEVICE_LIMITS_LOST = "device_limits_lost"
    MACHINE_DRAINED = "machine_drained"
    FOLDER_LOST = "folder_lost"
    FOLDER_INVITED = "folder_invited"
    FOLDER_OFFERED = "folder_offered"
    FOLDER_ACCEPTED = "folder_accepted"
    FOLDER_DECLINED = "folder_declined"
    FOLDER_TAKEN = "folder_taken"
    FOLDER_LEFT = "folder_left"
    FOLDER_RIGHT_CHANGED = "folder_right_changed"
    FOLDER_REVOKED = "folder_revoked"
    STORAGE_FILLING = "storage_filling"
    STORAGE_FULL = "storage_full"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Text and style of a notification. `text` takes the arguments {name}, {exit_code},
    {image}, {date}, {minutes}, {left}, {amount}, {day}, {count}, {failed}, {because}, {by}, {used},
    {percent}; `more` is advice.
    Both are English and translated when shown. `page` is the linked page if the notification
    is not about a session.
    """

    text: str
    more: str
    icon: str
    tone: Tone
    page: str = "notifications"


SENTENCES = MappingProxyType(
    {
        Code.COMMAND_FINISHED: Sentence(
            gettext_noop("“{name}” has finished."),
            gettext_noop("Its log is kept."),
            "circle-check",
            Tone.GOOD,
        ),
        Code.ARRAY_FINISHED: Sentence(
            gettext_noop("All {count} sessions of “{name}” have finished."),
            gettext_noop("Their logs are kept."),
            "circle-check",
            Tone.GOOD,
        ),
        Code.ARRAY_FAILED: Sentence(
            gettext_noop("“{name}” has ended: {failed} of its {count} sessions did not finish."),
            gettext_noop("Their logs say why."),
            "circle-x",
            Tone.BAD,
        ),
        Code.COMMAND_FAILED: Sentence(
            gettext_noop("“{name}” failed with exit code {exit_code}."),
            gettext_noop("The log says why."),
            "circle-x",
            Tone.BAD,
        ),
        Code.COMMAND_TIMED_OUT: Sentence(
            gettext_noop("“{name}” was stopped at its time limit."),
            gettext_noop("Start it again with a longer limit if it needs one."),
            "clock",
            Tone.WARN,
        ),
        Code.CONTAINER_EXITED: Sentence(
            gettext_noop("“{name}” ended by itself."),
            gettext_noop("The log may say why."),
            "player-stop",
            Tone.WARN,
        ),
        Code.OUT_OF_MEMORY: Sentence(
            gettext_noop("“{name}” needed more memory than it had."),
            gettext_noop("Start it again with more."),
            "cpu",
            Tone.BAD,
        ),
        Code.MACHINE_LOST: Sentence(
            gettext_noop("“{name}” was lost with its machine."),
            gettext_noop("What it had written into folders is kept. Start it again."),
            "plug-connected-x",
            Tone.BAD,
        ),
        Code.PULL_FAILED: Sentence(
            gettext_noop("“{name}” could not start: no image {image}."),
            gettext_noop("Try again, or choose another image."),
            "package",
            Tone.BAD,
        ),
        Code.STOPPED_BY_ADMIN: Sentence(
            gettext_noop("An administrator stopped “{name}”."),
            gettext_noop("Its history says when."),
            "player-stop",
            Tone.WARN,
        ),
        Code.LIFETIME_OVER: Sentence(
            gettext_noop("“{name}” reached its maximum lifetime and was ended."),
            gettext_noop("Start it again to go on."),
            "clock",
            Tone.WARN,
        ),
        Code.NOT_STARTED: Sentence(
            gettext_noop("“{name}” could not be started."),
            gettext_noop("Its history says why."),
            "alert-circle",
            Tone.BAD,
        ),
        Code.WAITED_TOO_LONG: Sentence(
            gettext_noop("“{name}” reached its maximum wait and was cancelled."),
            gettext_noop("Start it again, to wait longer or with less."),
            "clock-off",
            Tone.WARN,
        ),
        Code.WAITED_IN_VAIN: Sentence(
            gettext_noop("“{name}” was cancelled: a dependency did not meet its condition."),
            gettext_noop("Its history says which."),
            "clock-off",
            Tone.WARN,
        ),
        Code.SHUT_OUT: Sentence(
            gettext_noop("“{name}” was cancelled: its resource group was not open to it any more."),
            gettext_noop("Start it again in another one."),
            "clock-off",
            Tone.WARN,
        ),
        Code.ENDS_SOON: Sentence(
            gettext_noop("“{name}” reaches its time limit soon."),
            gettext_noop("Save what you need into a folder."),
            "hourglass",
            Tone.WARN,
        ),
        Code.LIFETIME_ENDS_SOON: Sentence(
            gettext_noop("“{name}” reaches its maximum lifetime in {minutes} min."),
            gettext_noop("Save what you need into a folder, or extend it on its page."),
            "hourglass",
            Tone.WARN,
        ),
        Code.UNUSED_ENDS_SOON: Sentence(
            gettext_noop("“{name}” reaches its idle timeout in {minutes} min."),
            gettext_noop("Go on in it, or extend it on its page."),
            "hourglass",
            Tone.WARN,
        ),
        Code.UNDERUSED_ENDS_SOON: Sentence(
            gettext_noop("“{name}” ends in {minutes} min for low utilization."),
            gettext_noop("Start what you have it for, or extend it on its page."),
            "hourglass",
            Tone.WARN,
        ),
        Code.PREEMPTED_SOON: Sentence(
            gettext_noop("“{name}” is preempted in {minutes} min by a session with a higher priority."),
            gettext_noop("Save what you need into a folder."),
            "hourglass",
            Tone.WARN,
        ),
        Code.PREEMPTED: Sentence(
            gettext_noop("“{name}” was preempted by a session with a higher priority."),
            gettext_noop("Start it again to go on when there is room."),
            "clock",
            Tone.WARN,
        ),
        Code.ENDED_UNUSED: Sentence(
            gettext_noop("“{name}” was ended by its idle timeout."),
            gettext_noop("Start it again to go on."),
            "clock",
            Tone.WARN,
        ),
        Code.ENDED_UNDERUSED: Sentence(
            gettext_noop("“{name}” was ended for low utilization."),
            gettext_noop("Start it again with less, or when you need it."),
            "clock",
            Tone.WARN,
        ),
        Code.DEVICE_LIMITS_LOST: Sentence(
            gettext_noop(
                "Programs of “{name}” on its accelerator failed: the MPS daemon of the device ended."
            ),
            gettext_noop("Start them again; the daemon is made again with the same limits."),
            "alert-triangle",
            Tone.WARN,
        ),
        Code.DEVICE_TROUBLE: Sentence(
            gettext_noop("An accelerator of “{name}” is in trouble: {because}"),
            gettext_noop("The session goes on. Check its results, and start it again if they look wrong."),
            "cpu",
            Tone.WARN,
        ),
        Code.MACHINE_DRAINED: Sentence(
            gettext_noop(
                "The machine “{name}”, on which sessions of yours run ({count}), is being taken out of use."
            ),
            gettext_noop(
                "They go on for now. Save what you need into a folder, and start them again elsewhere."
            ),
            "player-pause",
            Tone.WARN,
            "session-list",
        ),
        Code.FOLDER_LOST: Sentence(
            gettext_noop("“{name}” ended because you may not use one of its folders any more."),
            gettext_noop("Its history says when. Start it again without that folder."),
            "folder-off",
            Tone.WARN,
        ),
        Code.FOLDER_INVITED: Sentence(
            gettext_noop("{by} invites you to the folder “{name}”."),
            gettext_noop("Accept or decline it on the page Data."),
            "folder-share",
            Tone.GOOD,
            "data",
        ),
        Code.FOLDER_OFFERED: Sentence(
            gettext_noop("{by} wants to hand the folder “{name}” over to you."),
            gettext_noop("Accept or decline it on the page Data. Its size then counts for you."),
            "folder-share",
            Tone.GOOD,
            "data",
        ),
        Code.FOLDER_ACCEPTED: Sentence(
            gettext_noop("{by} has accepted the invitation to the folder “{name}”."),
            gettext_noop("The sharing drawer of the folder shows who has which right."),
            "folder-share",
            Tone.GOOD,
            "data",
        ),
        Code.FOLDER_DECLINED: Sentence(
            gettext_noop("{by} has declined the invitation to the folder “{name}”."),
            gettext_noop("The sharing drawer of the folder shows who has which right."),
            "folder-share",
            Tone.WARN,
            "data",
        ),
        Code.FOLDER_TAKEN: Sentence(
            gettext_noop("The folder “{name}” belongs to {by} now."),
            gettext_noop("Sessions of yours that mount it keep it until they end."),
            "folder-share",
            Tone.GOOD,
            "data",
        ),
        Code.FOLDER_LEFT: Sentence(
            gettext_noop("{by} has left the folder “{name}”."),
            gettext_noop("The sharing drawer of the folder shows who has which right."),
            "folder-share",
            Tone.WARN,
            "data",
        ),
        Code.FOLDER_RIGHT_CHANGED: Sentence(
            gettext_noop("{by} has changed your right to the folder “{name}”."),
            gettext_noop("The page Data shows what you may do now."),
            "folder-share",
            Tone.WARN,
            "data",
        ),
        Code.FOLDER_REVOKED: Sentence(
            gettext_noop("{by} does not share the folder “{name}” with you any more."),
            gettext_noop("Sessions that mount it keep it until they end; no new one gets it."),
            "folder-off",
            Tone.WARN,
            "data",
        ),
        Code.TOKEN_ENDS_SOON: Sentence(
            gettext_noop("The token “{name}” expires on {date}."),
            gettext_noop("Create another one for what uses it."),
            "key",
            Tone.WARN,
            "keys",
        ),
        Code.MONEY_NEARLY_SPENT: Sentence(
            gettext_noop("The budget of {name} is nearly used up: {left} of {amount} left until {day}."),
            gettext_noop("Your limits show what is left now."),
            "coins",
            Tone.WARN,
            "profile",
        ),
        Code.HOURS_NEARLY_SPENT: Sentence(
            gettext_noop(
                "The budget of {name} is nearly used up: {left} of {amount} GPU-hours left until {day}."
            ),
            gettext_noop("Your limits show what is left now."),
            "coins",
            Tone.WARN,
            "profile",
        ),
        Code.MONEY_SPENT: Sentence(
            gettext_noop("The budget of {name} is used up: all of {amount}. It holds until {day}."),
            gettext_noop("What runs goes on; new sessions are refused. Ask an administrator for more."),
            "coins",
            Tone.BAD,
            "profile",
        ),
        Code.HOURS_SPENT: Sentence(
            gettext_noop("The budget of {name} is used up: all of {amount} GPU-hours. It holds until {day}."),
            gettext_noop("What runs goes on; new sessions are refused. Ask an administrator for more."),
            "coins",
            Tone.BAD,
            "profile",
        ),
        Code.STORAGE_FILLING: Sentence(
            gettext_noop("Storage of “{name}” is {percent} % full: {used} of {amount}."),
            gettext_noop("The page of a folder shows what fills it."),
            "database",
            Tone.WARN,
            "data",
        ),
        Code.STORAGE_FULL: Sentence(
            gettext_noop("Storage of “{name}” is full: {used} of {amount}."),
            gettext_noop(
                "Nothing more is uploaded, and no new session mounts it for writing, until files are deleted."
            ),
            "database",
            Tone.BAD,
            "data",
        ),
        Code.PASSWORDS_TRIED: Sentence(
            gettext_noop("Many wrong passwords were tried for your account."),
            gettext_noop(
                "No more of them are checked for now. You can sign in where you signed in recently."
            ),
            "shield-lock",
            Tone.WARN,
        ),
    }
)


class Kind(StrEnum):
    """Kinds of notifications that users can mute."""

    FINISHED = "finished"
    FAILED = "failed"
    ENDED = "ended"
    ENDS_SOON = "ends_soon"
    TOKENS = "tokens"
    BUDGETS = "budgets"
    DEVICES = "devices"
    MACHINES = "machines"
    FOLDERS = "folders"
    STORAGE = "storage"
    SAFETY = "safety"


KIND_TITLES = MappingProxyType(
    {
        Kind.FINISHED: gettext_noop("A command has finished"),
        Kind.FAILED: gettext_noop("A session failed or could not start"),
        Kind.ENDED: gettext_noop("A session was stopped by an administrator or by a limit"),
        Kind.ENDS_SOON: gettext_noop("A session ends soon"),
        Kind.TOKENS: gettext_noop("An API token expires soon"),
        Kind.BUDGETS: gettext_noop("A budget is nearly used up, or used up"),
        Kind.DEVICES: gettext_noop("An accelerator of a session is in trouble"),
        Kind.MACHINES: gettext_noop("A machine with a session is taken out of use"),
        Kind.FOLDERS: gettext_noop("A folder is shared with you, or a share of yours is answered"),
        Kind.STORAGE: gettext_noop("Storage is nearly full, or full"),
        Kind.SAFETY: gettext_noop("Somebody tries to get into your account"),
    }
)
# Codes whose {left} and {amount} are money.
MONEY_CODES = frozenset({Code.MONEY_NEARLY_SPENT, Code.MONEY_SPENT})
# Cannot be muted: an intruder could otherwise hide these from the owner of the account.
UNMUTABLE = frozenset({Kind.SAFETY})
MUTABLE = tuple(kind for kind in Kind if kind not in UNMUTABLE)
_CODES_BY_KIND = {
    Kind.FINISHED: (Code.COMMAND_FINISHED, Code.ARRAY_FINISHED),
    Kind.FAILED: (
        Code.ARRAY_FAILED,
        Code.COMMAND_FAILED,
        Code.COMMAND_TIMED_OUT,
        Code.CONTAINER_EXITED,
        Code.OUT_OF_MEMORY,
        Code.MACHINE_LOST,
        Code.PULL_FAILED,
        Code.DEVICE_LIMITS_LOST,
        Code.NOT_STARTED,
        Code.WAITED_TOO_LONG,
        Code.WAITED_IN_VAIN,
        Code.SHUT_OUT,
    ),
    Kind.ENDED: (
        Code.STOPPED_BY_ADMIN,
        Code.LIFETIME_OVER,
        Code.PREEMPTED,
        Code.ENDED_UNUSED,
        Code.ENDED_UNDERUSED,
        Code.FOLDER_LOST,
    ),
    Kind.ENDS_SOON: (
        Code.ENDS_SOON,
        Code.LIFETIME_ENDS_SOON,
        Code.UNUSED_ENDS_SOON,
        Code.UNDERUSED_ENDS_SOON,
        Code.PREEMPTED_SOON,
    ),
    Kind.TOKENS: (Code.TOKEN_ENDS_SOON,),
    Kind.BUDGETS: (Code.MONEY_NEARLY_SPENT, Code.HOURS_NEARLY_SPENT, Code.MONEY_SPENT, Code.HOURS_SPENT),
    Kind.DEVICES: (Code.DEVICE_TROUBLE,),
    Kind.MACHINES: (Code.MACHINE_DRAINED,),
    Kind.FOLDERS: (
        Code.FOLDER_INVITED,
        Code.FOLDER_OFFERED,
        Code.FOLDER_ACCEPTED,
        Code.FOLDER_DECLINED,
        Code.FOLDER_TAKEN,
        Code.FOLDER_LEFT,
        Code.FOLDER_RIGHT_CHANGED,
        Code.FOLDER_REVOKED,
    ),
    Kind.STORAGE: (Code.STORAGE_FILLING, Code.STORAGE_FULL),
    Kind.SAFETY: (Code.PASSWORDS_TRIED,),
}
KIND_BY_CODE = MappingProxyType({code: kind for kind, codes in _CODES_BY_KIND.items() for code in codes})

# Ends that are notified. An end requested by the owner is not; any other end in ERROR is NOT_STARTED.
_CODE_BY_REASON: Mapping[str, Code] = MappingProxyType(
    {
        Reason.COMMAND_FINISHED: Code.COMMAND_FINISHED,
        Reason.COMMAND_FAILED: Code.COMMAND_FAILED,
        Reason.COMMAND_TIMED_OUT: Code.COMMAND_TIMED_OUT,
        Reason.CONTAINER_EXITED: Code.CONTAINER_EXITED,
        Reason.OUT_OF_MEMORY: Code.OUT_OF_MEMORY,
        Reason.CONTAINER_LOST: Code.MACHINE_LOST,
        Reason.AGENT_LOST: Code.MACHINE_LOST,
        Reason.IMAGE_MISSING: Code.PULL_FAILED,
        Reason.IMAGE_PULL_FAILED: Code.PULL_FAILED,
        Reason.ADMIN_REQUESTED: Code.STOPPED_BY_ADMIN,
        Reason.LIFETIME_OVER: Code.LIFETIME_OVER,
        Reason.PENDING_TIMEOUT: Code.WAITED_TOO_LONG,
        Reason.DEPENDENCY_IN_VAIN: Code.WAITED_IN_VAIN,
        Reason.GROUP_CLOSED: Code.SHUT_OUT,
        Reason.PREEMPTED: Code.PREEMPTED,
        Reason.FOLDER_REVOKED: Code.FOLDER_LOST,
        Reason.UNUSED: Code.ENDED_UNUSED,
        Reason.UNDERUSED: Code.ENDED_UNDERUSED,
    }
)

# Warnings of an expected end, by cause.
CODE_BY_CAUSE = MappingProxyType(
    {
        Cause.LIFETIME: Code.LIFETIME_ENDS_SOON,
        Cause.INTERACTION: Code.UNUSED_ENDS_SOON,
        Cause.USE: Code.UNDERUSED_ENDS_SOON,
        Cause.PREEMPTION: Code.PREEMPTED_SOON,
    }
)
NOTIFIED_REASONS = frozenset(_CODE_BY_REASON)


def code_of_end(status: str, reason: str) -> Code | None:
    """Return the notification for a session's end; None if there is none."""
    known = _CODE_BY_REASON.get(reason)
    return known or (Code.NOT_STARTED if status == Status.ERROR else None)
