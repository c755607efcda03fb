"""Budgets and prices on the command line, on a test transport."""

import json
from typing import Any

import httpx
import pytest

from tests.client.cli.test_people import PROJECT_ROW, USER_ROW, made, portal
from tests.client.conftest import Command
from tests.client.wires import page

__all__ = ("portal",)
BUDGET_ROW: dict[str, Any] = {
    "id": 4, "level": "project", "owner": "vision", "unit": "device_hours", "amount": "100.00", "spent": "90.00",
    "left": "10.00", "is_hard": True, "warn_percent": 80, "is_nearly_used_up": True, "is_used_up": False,
    "period": "month", "first": "2026-11-01", "end": "2026-12-01", "is_current": True,
}  # fmt: skip
IMPACT: dict[str, Any] = {
    "people": 3, "owner": "vision", "amount": "50.00", "spent": "90.00", "first": "2026-11-01",
    "end": "2026-12-01", "is_nearly_used_up": True, "is_used_up": True, "refuses": True,
}  # fmt: skip
PRICE_ROW = {"id": 9, "slot_name": "cuda", "since": "2026-11-01", "per_hour": "2.000000"}


def test_budgets_are_listed_with_what_is_left(portal: Any, command: Command) -> None:
    over = {**BUDGET_ROW, "is_current": False}
    wire = portal(page(BUDGET_ROW, {**BUDGET_ROW, "is_used_up": True}, over))
    done = command("budget", "list")
    first, second, third = done.out.splitlines()[1:]
    assert first.split("\t") == [
        "4", "project", "vision", "GPU-hours", "100.00", "90.00", "10.00", "nearly used up", "2026-11-01 to 2026-11-30",
    ]  # fmt: skip
    assert ("refuses" in second, "not now" in third) == (True, True)
    assert wire.requests[-1].url.params["current"] == "true"
    wire = portal(page(USER_ROW), page(BUDGET_ROW))
    assert json.loads(command("budget", "list", "--user", "kim@berth.test", "--all", "--json").out) == [
        BUDGET_ROW
    ]
    assert dict(wire.requests[-1].url.params)["user"] == "3"
    assert "current" not in wire.requests[-1].url.params


def test_money_is_told_in_the_currency_of_the_portal(portal: Any, command: Command) -> None:
    portal(page({**BUDGET_ROW, "unit": "money", "currency": "EUR"}))
    assert command("budget", "list").out.splitlines()[1].split("\t")[3:5] == ["EUR", "100.00"]
    portal(page({**PRICE_ROW, "currency": "EUR"}))
    assert command("price", "list").out.splitlines()[1] == "cuda\t2.000000 EUR\t2026-11-01"


def test_a_budget_is_made_for_a_project(portal: Any, command: Command) -> None:
    wire = portal(page(PROJECT_ROW), made(BUDGET_ROW, 201))
    done = command("budget", "create", "100", "--project", "vision", "--hard", "--warn", "90")
    assert (done.code, "refuses new sessions" in done.out) == (0, True)
    assert wire.body() == {
        "level": "project", "id": 5, "amount": "100", "unit": "device_hours", "period": "month", "is_hard": True,
        "warn_percent": 90,
    }  # fmt: skip
    wire = portal(page(PROJECT_ROW), made(IMPACT))
    done = command("budget", "create", "50", "--project", "vision", "--hard", "--dry-run")
    assert ("90.00 of 50.00" in done.out, "refuse new sessions at once" in done.err) == (True, True)
    assert wire.requests[-1].url.path.endswith("/budgets/impact/")


def test_a_budget_is_changed_and_deleted(portal: Any, command: Command) -> None:
    wire = portal(made(BUDGET_ROW))
    typed = ("--period", "term", "--from", "2026-09-01", "--to", "2027-02-28", "--soft", "--unit", "money")
    assert command("budget", "set", "4", *typed).code == 0
    assert wire.body() == {
        "period": "term", "starts_on": "2026-09-01", "ends_on": "2027-02-28", "is_hard": False, "unit": "money",
    }  # fmt: skip
    portal(made({**IMPACT, "refuses": False}))
    assert "It would warn at once" in command("budget", "set", "4", "--amount", "50", "--dry-run").err
    wire = portal(httpx.Response(204))
    assert command("budget", "delete", "4").code == 0
    assert wire.requests[-1].method == "DELETE"
    portal(made(BUDGET_ROW))
    assert json.loads(command("budget", "show", "4", "--json").out) == BUDGET_ROW


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("budget", "create", "much", "--user", "a@b.test"), "“much” is no amount"),
        (("budget", "create", "1"), "Say whose budget it is"),
        (("budget", "create", "1", "--user", "a@b.test", "--project", "p"), "Say whose budget it is"),
        (("budget", "create", "1", "--user", "a@b.test", "--unit", "euros"), "nothing that a budget counts"),
        (("budget", "create", "1", "--user", "a@b.test", "--period", "year"), "is no period"),
        (("budget", "set", "4"), "Say what to change"),
        (("budget", "set", "4", "--from", "tomorrow"), "“tomorrow” is no day"),
        (("price", "set", "cuda", "-1"), ""),
        (("price", "set", "cuda", "2,5"), "is no amount"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    portal: Any, command: Command, words: tuple[str, ...], sentence: str
) -> None:
    wire = portal()
    done = command(*words)
    assert (done.code, sentence in done.err, wire.requests) == (2, True, [])


def test_prices_are_listed_set_and_taken_back(portal: Any, command: Command) -> None:
    portal(page(PRICE_ROW))
    assert command("price", "list").out.splitlines()[1] == "cuda\t2.000000\t2026-11-01"
    portal(page(PRICE_ROW))
    assert json.loads(command("price", "list", "--json").out) == [PRICE_ROW]
    wire = portal(made(PRICE_ROW, 201))
    assert command("price", "set", "cuda", "2", "--from", "2026-11-01").code == 0
    assert wire.body() == {"slot_name": "cuda", "since": "2026-11-01", "per_hour": "2"}
    wire = portal(page(PRICE_ROW), httpx.Response(204))
    assert command("price", "delete", "cuda", "--from", "2026-11-01").code == 0
    assert wire.requests[-1].url.path.endswith("/prices/9/")
    portal(page())
    assert "There is no price of “cuda”" in command("price", "delete", "cuda", "--from", "2026-11-01").err
