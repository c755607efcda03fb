"""Syntax of membership rules, and comparison of directory groups."""

import pytest

from accounts.core.membership_rules import (
    MOST_RULES,
    MemberRule,
    RuleKind,
    check_rules,
    group_aliases,
    group_name,
    split_distinguished_name,
)

PROVIDERS = ("campus", "ldap")


def test_rules_are_stored_once_in_a_normal_form() -> None:
    found = check_rules(
        [
            ("mail", "@Uni.Example"),
            ("group", "ldap:CN=Staff, OU=Groups"),
            ("mail", "uni.example"),
            ("all", ""),
            ("group", "campus:Staff"),
        ],
        PROVIDERS,
    )
    assert found == (
        MemberRule(RuleKind.ALL),
        MemberRule(RuleKind.GROUP, "campus:Staff"),
        MemberRule(RuleKind.GROUP, "ldap:cn=staff,ou=groups"),
        MemberRule(RuleKind.MAIL, "uni.example"),
    )


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        ("all", "x", "has no value"),
        ("mail", "", "after the @"),
        ("mail", "not one", "is no mail domain"),
        ("group", "staff", "Providers here: campus, ldap"),
        ("group", "campus:", "Providers here"),
        ("group", "elsewhere:staff", "Providers here"),
        ("group", "campus:a\x07", "Control characters"),
        ("group", r"ldap:cn=a\00b,ou=groups", "NUL character"),
        ("group", "ldap:cn=" + 140 * r"\,", "At most 300 characters; these are 428"),
    ],
)
def test_what_no_rule_can_say_is_refused_with_a_sentence(kind: str, value: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_rules([(kind, value)], PROVIDERS)


def test_without_providers_there_are_no_groups_and_rules_are_bounded() -> None:
    with pytest.raises(ValueError, match="here: —"):
        check_rules([("group", "campus:staff")], ())
    with pytest.raises(ValueError, match="at most 50"):
        check_rules([("mail", f"a{number}.example") for number in range(MOST_RULES + 1)], ())


@pytest.mark.parametrize(
    "group",
    ["CN=Staff,OU=Groups,DC=uni", "cn = staff , ou=groups;dc=UNI", r"cn=\53taff,ou=groups,dc=uni"],
)
def test_a_group_that_is_named_by_its_place_is_compared_whole(group: str) -> None:
    assert group_name(group) == "cn=staff,ou=groups,dc=uni"
    assert "cn=staff,ou=groups,dc=uni" in group_aliases(group)


def test_a_name_alone_stays_as_it_is_written() -> None:
    assert group_name("Staff, second") == "Staff, second"
    assert group_aliases("Staff") == {"Staff"}
    assert group_aliases("CN=Staff,OU=Groups") == {"cn=staff,ou=groups", "Staff"}
    assert group_aliases("OU=Staff,DC=uni") == {"ou=staff,dc=uni"}


def test_a_group_is_one_in_all_its_unicode_forms() -> None:
    apart, composed = "cn=E\u0301quipe,ou=e\u0301", "cn=\u00e9quipe,ou=\u00e9"
    assert group_name(apart) == group_name(composed) == composed
    assert group_aliases(apart) == {composed, "\u00c9quipe"}
    assert group_name("e\u0301quipe") == "\u00e9quipe"


@pytest.mark.parametrize(
    "group", [r"cn=cn\=staff\,ou\=groups,ou=mine", r"cn=staff\,x,ou=mine", "cn=a=b,ou=mine"]
)
def test_a_common_name_passes_for_no_other_group(group: str) -> None:
    """Whoever may name a group may not give it the place of another."""
    names = group_aliases(group)
    assert len(names) == 1
    assert names.isdisjoint({"cn=staff,ou=groups", "staff", "cn=staff"})


def test_what_is_no_place_has_no_parts() -> None:
    for group in ("", "staff", "cn=", "=x", "cn=a,,ou=b", "cn=a,b"):
        assert split_distinguished_name(group) == ()
    assert split_distinguished_name("cn=a\\") == ("cn=a",)
