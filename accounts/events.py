"""News of people: announced after commit, whoever listens."""

from dataclasses import dataclass

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class PasswordsTried(Event):
    """Strangers have tried so many passwords for an account that theirs are not asked any more. Once a day for an account."""

    user_id: int
