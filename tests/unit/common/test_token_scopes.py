"""Scopes of tokens, and notice of their expiry."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from accounts.core.token_secrets import warning_due
from common.token_scopes import (
    EVERY_TOKEN,
    FOR_ADMIN,
    FOR_FOLDERS,
    TITLES,
    TokenScope,
    in_order,
    may,
    sufficient_scopes,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FOLDERS = SimpleNamespace(token_scopes=FOR_FOLDERS)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_only_reads_takes_read_as_well(method: str) -> None:
    assert sufficient_scopes(FOLDERS, method) == {TokenScope.READ, TokenScope.FOLDERS}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_changes_something_does_not(method: str) -> None:
    assert sufficient_scopes(FOLDERS, method) == {TokenScope.FOLDERS}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_view_that_declares_nothing_lets_no_token_in(method: str) -> None:
    assert sufficient_scopes(SimpleNamespace(), method) == frozenset()
    assert not may(EVERY_TOKEN, sufficient_scopes(SimpleNamespace(), method))


def test_single_methods_may_be_said_otherwise() -> None:
    view = SimpleNamespace(
        token_scopes=FOR_ADMIN, token_scopes_of={"DELETE": EVERY_TOKEN, "GET": FOR_FOLDERS}
    )
    assert sufficient_scopes(view, "DELETE") == EVERY_TOKEN
    assert sufficient_scopes(view, "HEAD") == FOR_FOLDERS
    assert sufficient_scopes(view, "PATCH") == FOR_ADMIN


def test_scopes_have_one_order_and_words() -> None:
    assert in_order(["admin", "read", "admin"]) == ["read", "admin"]
    assert set(TITLES) == set(TokenScope)
    with pytest.raises(ValueError, match="everything"):
        in_order(["everything"])


@pytest.mark.parametrize(
    ("life_days", "left_hours", "due_days"),
    [
        (90, 8 * 24, None),
        (90, 7 * 24, 7),
        (90, 24, 1),
        (90, 0, None),
        (13, 7 * 24, None),
        (13, 23, 1),
        (1, 2, None),
    ],
)
def test_expiry_notice_of_a_token_is_early_enough(
    life_days: int, left_hours: int, due_days: int | None
) -> None:
    ends_at = NOW + timedelta(hours=left_hours)
    due = warning_due(created_at=ends_at - timedelta(days=life_days), expires_at=ends_at, now=NOW)
    assert due == (None if due_days is None else timedelta(days=due_days))
