"""Users, projects, domains, tokens and the audit log, for administrators."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from berth.decoding import Record, get_field
from berth.errors import InvalidInput, NotFound
from berth.models import KeyPair
from berth.paging import Endpoint, iterate
from berth.transport import parse_json

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOfAccount(Record):
    id: int
    name: str
    role: str = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(Record):
    """User account. `sign_in_url` is set only when an account was created without a password."""

    id: int
    email: str
    name: str = ""
    role: str = "user"
    domain: str = ""
    is_active: bool = True
    created_at: datetime | None = None
    last_login: datetime | None = None
    projects: tuple[ProjectOfAccount, ...] = ()
    sign_in_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Record):
    """A domain, or a project of `domain`."""

    id: int
    name: str
    title: str = ""
    domain: str = ""
    is_active: bool = True
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Record):
    id: int
    email: str
    name: str = ""
    role: str = "member"
    is_by_rule: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRule(Record):
    """Membership rule. `kind` is all, mail or group.

    `value` is the part of the address after the @ for mail, and “provider:group” for group.
    """

    kind: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailure(Record):
    """User for whom the membership rules could not be applied, and the reason."""

    email: str
    reason: str = ""
    since: datetime | None = None
    tried_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRules(Record):
    rules: tuple[MemberRule, ...] = ()
    failures: tuple[RuleFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleImpact(Record):
    """Effect of membership rules: how many users join and leave, with the first addresses."""

    joining_count: int = 0
    leaving_count: int = 0
    joining: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Record):
    """Result of offboarding one resource of a user."""

    name: str
    is_done: bool = False
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffBoarding(Record):
    folders: str = "keep"
    finished_at: datetime | None = None
    report: tuple[Settled, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing(Record):
    """Effects of closing an account, and the report of the last offboarding."""

    is_active: bool = True
    affected: tuple[str, ...] = ()
    offboarding: OffBoarding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserLogin(Record):
    """Browser in which you are signed in."""

    id: str
    device: str = ""
    ip: str = ""
    signed_in_at: datetime | None = None
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn(Record):
    """Sign-in settings of a user."""

    must_change_password: bool = False
    allowed_networks: tuple[str, ...] = ()
    has_password: bool = True
    has_second_factor: bool = False
    logins: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine(Record):
    id: int
    recorded_at: datetime
    actor: str = ""
    action: str = ""
    object_kind: str = ""
    object: str = ""
    outcome: str = ""
    ip: str = ""
    count: int = 1


class Rows(Endpoint, Generic[R]):
    """List at one REST address, with its operations. Changes are {field: value}, as in the API."""

    kind: type[R]
    path: str
    word: str
    key: str

    def list(self, **filters: Any) -> Iterator[R]:
        return iterate(self._transport, self.path, self.kind, **filters)

    def get(self, number: int) -> R:
        return self._get(self.kind, f"{self.path}{number}/")

    def find(self, text: str) -> R:
        """Find an item by name or id. Raises NotFound, and InvalidInput if several have the name."""
        named = [one for one in self.list(**self._narrowed(text)) if getattr(one, self.key) == text]
        if not named and text.isascii() and text.isdecimal():
            return self.get(int(text))
        if not named:
            raise NotFound(
                f"There is no {self.word} “{text[:80]}” among those that you may see.",
                hint=f"Which there are: berth {self.word} list.",
            )
        if len(named) > 1:
            numbers = ", ".join(str(one.raw["id"]) for one in named)
            raise InvalidInput(
                f"Several are called “{text[:80]}”: the numbers {numbers}.", hint="Say the number."
            )
        return named[0]

    def create(self, **fields: Any) -> R:
        return self._send(self.kind, "POST", self.path, fields, is_new=True)

    def change(self, number: int, **fields: Any) -> R:
        return self._send(self.kind, "PATCH", f"{self.path}{number}/", fields)

    def delete(self, number: int) -> None:
        self._transport.request("DELETE", f"{self.path}{number}/")

    def _narrowed(self, text: str) -> dict[str, Any]:
        """Return the query parameters by which the portal narrows the search for `text`."""
        return {"q": text}


class Tokens(Rows[KeyPair]):
    """Your own API tokens, as `client.tokens`.

    `create` and `rotate` return the text in `token`; it is never shown again.
    """

    kind, path, word, key = KeyPair, "keypairs/", "token", "name"

    def rotate(self, number: int, *, grace_hours: float = 0) -> KeyPair:
        """Replace the secret of a token; the old one works for `grace_hours` more."""
        return self._send(self.kind, "POST", f"{self.path}{number}/rotate/", {"grace_hours": grace_hours})

    def _narrowed(self, text: str) -> dict[str, Any]:
        return {}


class Browsers(Endpoint):
    """Browsers in which you are signed in, as `client.browsers`."""

    def list(self) -> Iterator[BrowserLogin]:
        return iterate(self._transport, "me/logins/", BrowserLogin)

    def end(self, browser: str) -> None:
        """Sign out one browser, by its id. Raises NotFound."""
        self._transport.request("DELETE", f"me/logins/{quote(browser, safe='')}/")

    def end_all(self) -> int:
        """Sign out all browsers. Returns their number."""
        return get_field(parse_json(self._transport.request("DELETE", "me/logins/")), "ended", int)


class Users(Rows[Account]):
    """Users that you may see, as `client.users`. `delete` purges a closed account."""

    kind, path, word, key = Account, "users/", "user", "email"

    def find(self, text: str) -> Account:
        """Find a user by e-mail address (case-insensitive) or id."""
        return super().find(text.lower())

    def closing(self, number: int) -> Closing:
        return self._get(Closing, f"{self.path}{number}/closing/")

    def close(self, number: int, *, folders: str = "keep", heir: str = "") -> Closing:
        """Close an account. Ends logins, tokens and memberships at once.

        `folders` is keep, hand_over (to the user `heir`) or delete.
        """
        body = {"folders": folders, "heir": heir}
        return self._send(Closing, "POST", f"{self.path}{number}/closing/", body)

    def reopen(self, number: int) -> Account:
        return self._send(self.kind, "DELETE", f"{self.path}{number}/closing/", None)

    def sign_in(self, number: int) -> SignIn:
        return self._get(SignIn, f"{self.path}{number}/sign-in/")

    def change_sign_in(self, number: int, **fields: Any) -> SignIn:
        """Change the sign-in settings `must_change_password` and `allowed_networks`."""
        return self._send(SignIn, "PATCH", f"{self.path}{number}/sign-in/", fields)

    def reset_second_factor(self, number: int) -> None:
        self._transport.request("DELETE", f"{self.path}{number}/second-factor/")

    def end_logins(self, number: int) -> int:
        """Sign the user out of every browser. Returns the number of browsers."""
        answer = self._transport.request("DELETE", f"{self.path}{number}/logins/")
        return get_field(parse_json(answer), "ended", int)

    def mail_password_link(self, number: int) -> None:
        self._transport.request("POST", f"{self.path}{number}/password-mail/")

    def tokens(self, number: int) -> Iterator[KeyPair]:
        """Yield the tokens of a user whose account you may change."""
        return iterate(self._transport, f"{self.path}{number}/keypairs/", KeyPair)

    def revoke_token(self, number: int, token_number: int) -> None:
        self._transport.request("DELETE", f"{self.path}{number}/keypairs/{token_number}/")


class Projects(Rows[Group]):
    """Projects that you may see, as `client.managed_projects`. `delete` purges an archived one."""

    kind, path, word, key = Group, "projects/", "project", "name"

    def members(self, number: int) -> Iterator[Member]:
        return iterate(self._transport, f"{self.path}{number}/members/", Member)

    def rules(self, number: int) -> MemberRules:
        return self._get(MemberRules, f"{self.path}{number}/rules/")

    def set_rules(self, number: int, rules: Sequence[tuple[str, str]]) -> MemberRules:
        """Replace the membership rules of a project by `rules`, as (kind, value).

        Users who match join; users who joined by a rule and match no more leave.
        """
        return self._send(MemberRules, "PUT", f"{self.path}{number}/rules/", _rules_body(rules))

    def impact_of_rules(self, number: int, rules: Sequence[tuple[str, str]]) -> RuleImpact:
        """Return the effect that `set_rules` would have."""
        return self._send(RuleImpact, "POST", f"{self.path}{number}/rules/impact/", _rules_body(rules))

    def add_member(self, number: int, email: str, *, role: str = "member") -> Member:
        body = {"email": email, "role": role}
        path = f"{self.path}{number}/members/"
        return self._send(Member, "POST", path, body, is_new=True)

    def remove_member(self, number: int, email: str) -> None:
        """Remove a user from a project. Raises NotFound."""
        for member in self.members(number):
            if member.email == email.lower():
                self._transport.request("DELETE", f"{self.path}{number}/members/{member.id}/")
                return
        raise NotFound(
            f"“{email[:80]}” is not in the project.", hint="Who is: berth project members PROJECT."
        )


class Domains(Rows[Group]):
    """Domains, as `client.domains`. `delete` purges a closed domain."""

    kind, path, word, key = Group, "domains/", "domain", "name"


def _rules_body(rules: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {"rules": [{"kind": kind, "value": value} for kind, value in rules]}
