"""Import users from a CSV file: check the rows, then apply them."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from berth.decoding import Record, decode
from berth.errors import InvalidInput, UnexpectedAnswer, WaitedTooLong
from berth.paging import Endpoint, iterate
from berth.transport import parse_json

ASKED_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserImport(Record):
    """Uploaded user file. `counts` are rows by outcome; `done` of `to_do` rows have been applied."""

    id: int
    started_at: datetime | None = None
    finished_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    done: int = 0
    to_do: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserImportRow(Record):
    """Row of a user file. `outcome` is new, changed, unchanged or refused.

    `faults` maps each wrong column to its error.
    """

    number: int
    outcome: str
    values: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink(Record):
    email: str
    sign_in_url: str


class UserImports(Endpoint):
    """User imports, as `client.user_imports`; for administrators."""

    def check(self, content: bytes, *, name: str = "people.csv") -> UserImport:
        """Upload and check a CSV file without changing users.

        Raises InvalidInput for a file that cannot be read, Refused.
        """
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise InvalidInput(
                f"Line {line} is not UTF-8 (byte 0x{content[error.start]:02x}).",
                hint="Save the file as “CSV UTF-8”.",
            ) from error
        body = {"content": text, "name": name, "is_dry_run": True}
        return self._send(UserImport, "POST", "user-imports/", body)

    def start(self, number: int) -> UserImport:
        """Apply the valid rows, each on its own; long files in the background. Idempotent."""
        return self._send(UserImport, "POST", f"user-imports/{number}/")

    def get(self, number: int) -> UserImport:
        return self._get(UserImport, f"user-imports/{number}/")

    def rows(self, number: int, *, outcome: str = "") -> Iterator[UserImportRow]:
        """Yield the rows in the order of the file."""
        return iterate(
            self._transport, f"user-imports/{number}/rows/", UserImportRow, outcome=outcome or None
        )

    def links(self, number: int) -> list[SignInLink]:
        """Create sign-in links for all added users who never signed in; each works once, for a day."""
        links = parse_json(self._transport.request("POST", f"user-imports/{number}/links/"))
        if not isinstance(links, list):
            raise UnexpectedAnswer("The portal sent no list of links.")
        return [decode(SignInLink, row) for row in links]

    def wait_finished(
        self,
        started: UserImport,
        *,
        timeout_s: float | None = None,
        watcher: Callable[[UserImport], None] | None = None,
    ) -> UserImport:
        """Wait until all rows are applied and return the result; `watcher` is called with the
        progress.

        Raises WaitedTooLong; the import continues.
        """
        found = started
        end = time.monotonic() + timeout_s if timeout_s is not None else None
        while found.finished_at is None:
            if watcher:
                watcher(found)
            if end is not None and time.monotonic() >= end:
                raise WaitedTooLong(
                    f"The import {found.id} goes on: {found.done} of {found.to_do} rows are done after {timeout_s:g} s.",
                    hint=f"Look at it with: berth user import-status {found.id}",
                )
            time.sleep(ASKED_EVERY_S)
            found = self.get(found.id)
        return found
