"""Watches that an actor still has a right on a folder while data is being transferred."""

import time
from abc import ABC, abstractmethod
from collections.abc import Hashable
from uuid import UUID
from weakref import WeakValueDictionary

from django.utils.translation import gettext as _

from accounts.logins.service import Login, valid_logins
from accounts.models import User
from common.actors import Actor
from common.db.streaming import in_own_thread
from common.errors import PermissionDenied
from vfolders.core.permissions import Action
from vfolders.selectors import access_folder

RECHECK_S = 1.0


class Turn:
    """Time of the next check of one right, shared by the transfers that need this right."""

    def __init__(self) -> None:
        self.due_at = time.monotonic() + RECHECK_S


_turns: WeakValueDictionary[Hashable, Turn] = WeakValueDictionary()


class Watch(ABC):
    """Right of one transfer, already checked when the transfer begins.

    A transfer calls `check` (in a thread with a database connection) or `acheck` for each piece, and
    ends when it raises. Transfers of this process with the same `right` check it in turn, so that many
    cost no more than one.
    """

    def __init__(self, right: Hashable) -> None:
        self._turn = _turns.setdefault(right, Turn())

    def check(self) -> None:
        """Read the right again if RECHECK_S have passed since the last time.
        Raises PermissionDenied or NotFound.
        """
        if self.is_due():
            self._turn.due_at = time.monotonic() + RECHECK_S
            try:
                self.require_access()
            except BaseException:
                self._turn.due_at = 0.0  # the others see for themselves
                raise

    async def acheck(self) -> None:
        """Do as `check`, for asynchronous code."""
        if self.is_due():
            await in_own_thread(self.check)

    @abstractmethod
    def require_access(self) -> None:
        """Raise PermissionDenied or NotFound if the right is gone."""

    def is_due(self) -> bool:
        """Return True if `check` would read the right now."""
        return time.monotonic() >= self._turn.due_at


class AccessWatch(Watch):
    """Right of an actor to a folder; with `login` it ends at a sign-out, too."""

    def __init__(self, actor: Actor, folder_id: UUID, action: Action, *, login: Login | None = None) -> None:
        self._actor, self._folder_id, self._action = actor, folder_id, action
        self._login = login or _login_of_token(actor)
        super().__init__((actor.kind, actor.user_id, self._login, folder_id, action))

    def require_access(self) -> None:
        if not self._is_signed_in():
            raise PermissionDenied(_("The account, token or sign-in has ended, and so has the transfer."))
        access_folder(self._actor, self._folder_id, self._action)

    def _is_signed_in(self) -> bool:
        if self._login is not None:
            return self._login in valid_logins({self._login})
        people = User.objects.filter(pk=self._actor.user_id or 0, is_active=True, domain__is_active=True)
        return self._actor.is_system or people.exists()


def _login_of_token(actor: Actor) -> Login | None:
    if actor.keypair_id is None or actor.user_id is None:
        return None
    return Login(user_id=actor.user_id, keypair_id=actor.keypair_id, ip=actor.ip)
