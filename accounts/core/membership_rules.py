"""Membership rules of projects: kinds, syntax, and comparison of group names. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from accounts.core.sign_up import check_mail_domains
from common.i18n import gettext as _
from common.values.text import check_text, normalised, quoted

MOST_RULES = 50
LONGEST_GROUP = 300


class RuleKind(StrEnum):
    ALL = "all"  # every user of the domain
    MAIL = "mail"  # users with a verified address that ends with @value
    GROUP = "group"  # members of a group of an identity provider, “provider:group”


@dataclass(frozen=True, slots=True, order=True)
class MemberRule:
    kind: RuleKind
    value: str = ""


def check_rules(rules: Iterable[tuple[str, str]], providers: Collection[str]) -> tuple[MemberRule, ...]:
    """Return the rules from (kind, value) pairs, sorted, without duplicates. `providers` are the
    names of providers that report groups. Raises ValueError with a sentence.
    """
    found = sorted({_check_rule(RuleKind(kind), value.strip(), providers) for kind, value in rules})
    if len(found) > MOST_RULES:
        raise ValueError(
            _("{count} rules are too many: give at most {most}.").format(count=len(found), most=MOST_RULES)
        )
    return tuple(found)


def _check_rule(kind: RuleKind, value: str, providers: Collection[str]) -> MemberRule:
    if kind is RuleKind.ALL:
        if value:
            raise ValueError(_("The rule for everybody has no value."))
        return MemberRule(kind)
    if kind is RuleKind.MAIL:
        names = check_mail_domains([value])
        if not names:
            raise ValueError(_("Give the part of the addresses after the @."))
        return MemberRule(kind, names[0])
    provider, colon, group = check_text(value, max_length=LONGEST_GROUP).partition(":")
    if not colon or not group.strip() or provider not in providers:
        known = ", ".join(sorted(providers)) or "—"
        raise ValueError(
            _("{value} is no “provider:group”. Providers here: {known}.").format(
                value=quoted(value, 80), known=known
            )
        )
    written = f"{provider}:{group_name(group.strip())}"  # may be longer than the input
    return MemberRule(kind, check_text(written, max_length=LONGEST_GROUP))


def group_name(group: str) -> str:
    """Return the canonical form of a group name for comparison. A distinguished name is compared
    without regard to case and to spaces between its parts, other names literally; both in Unicode
    normalisation form C.
    """
    parts = split_distinguished_name(group)
    return normalised(",".join(parts) if parts else group)


def split_distinguished_name(group: str) -> tuple[str, ...]:
    """Split a distinguished name: `CN=Staff, OU=Groups` gives ("cn=staff", "ou=groups"). Empty for
    other names. A character escaped by a backslash, as hexadecimal digits or literally, is that
    character and separates nothing.
    """
    group = normalised(group)
    parts, part, position = [], "", 0
    while position < len(group):
        character = group[position]
        if character == "\\":
            digits = group[position + 1 : position + 3]
            is_hex = len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
            character = chr(int(digits, 16)) if is_hex else digits[:1]
            part += f"\\{ord(character):02x}" if character and character in ",+=\\" else character
            position += 3 if is_hex else 2
            continue
        if character in ",;":
            parts.append(part)
            part = ""
        else:
            part += character
        position += 1
    found = [_normalise_part(each) for each in (*parts, part)]
    return tuple(found) if all(found) else ()


def _normalise_part(part: str) -> str:
    attribute, character, value = part.partition("=")
    if not character or not attribute.strip() or not value.strip():
        return ""
    return f"{attribute.strip().lower()}={value.strip().lower()}"


def group_aliases(group: str) -> frozenset[str]:
    """Return the names by which rules may refer to a directory group: its distinguished name, or
    its common name alone; for other groups the name. A common name that looks like a distinguished
    name is left out, because it would match another group.
    """
    parts = split_distinguished_name(group)
    if not parts:
        return frozenset({group_name(group)})
    attribute, _sign, name = parts[0].partition("=")
    names = {group_name(group)}
    if attribute == "cn" and "=" not in name and "\\" not in name:
        names.add(_common_name(group))
    return frozenset(names)


def _common_name(group: str) -> str:
    """Return the common name as it is written, with its case."""
    return normalised(group).partition(",")[0].partition("=")[2].strip()
