"""Address domains of sign-up, and states of an invitation."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.core.sign_up import (
    MOST_MAIL_DOMAINS,
    InvitationState,
    check_mail_domains,
    invitation_state,
    mail_domain,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("email", "name"),
    [("Ada@Uni.Example ", "uni.example"), ('"a@b"@c.example', "c.example"), ("nowhere", ""), ("@", "")],
)
def test_what_stands_behind_the_last_at(email: str, name: str) -> None:
    assert mail_domain(email) == name


def test_names_are_kept_in_lower_case_each_once() -> None:
    assert check_mail_domains([" @Uni.Example", "uni.example", "", "a-b.lab.example"]) == [
        "uni.example",
        "a-b.lab.example",
    ]


@pytest.mark.parametrize(
    "name", ["example", "-a.example", "a..example", "ada@uni.example", "*.example", "é.example"]
)
def test_what_is_no_such_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no mail domain"):
        check_mail_domains([name])


def test_too_many_names_are_refused() -> None:
    with pytest.raises(ValueError, match="At most"):
        check_mail_domains([f"d{number}.example" for number in range(MOST_MAIL_DOMAINS + 1)])


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, InvitationState.OPEN),
        ({"is_backed": False}, InvitationState.VOID),
        ({"expires_at": NOW}, InvitationState.EXPIRED),
        ({"expires_at": NOW, "is_revoked": True}, InvitationState.REVOKED),
        ({"is_revoked": True, "is_used_up": True}, InvitationState.USED),
    ],
)
def test_the_state_of_an_invitation(facts: dict[str, object], state: InvitationState) -> None:
    usual = {
        "now": NOW,
        "expires_at": NOW + timedelta(1),
        "is_revoked": False,
        "is_used_up": False,
        "is_backed": True,
    }
    assert invitation_state(**{**usual, **facts}) is state  # type: ignore[arg-type]
