"""Events about users, published after commit."""

from dataclasses import dataclass

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class PasswordGuessingDetected(Event):
    """Password guessing has made the throttle reject unknown devices for an account. Published at
    most once a day per account.
    """

    user_id: int
