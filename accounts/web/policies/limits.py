"""Rows and cards that show limits, allow-lists and budgets on pages."""

from collections.abc import Iterable, Sequence
from typing import Any

from accounts.budgets.selectors import budget_states
from accounts.core import allow_lists
from accounts.core.allow_lists import AllowList
from accounts.core.limits import (
    Level,
    LimitState,
    Scope,
    all_limits,
    effective_limits,
    format_limit,
    is_floor,
    is_summed,
)
from accounts.limits import read_scopes, scope_ids
from accounts.selectors import usable_projects
from accounts.web.budgets.budgets import budget_rows
from common.actors import Actor
from common.pages.status_styles import Tone

FULL, NEARLY_FULL = 100, 85


def limits_card(actor: Actor, chosen: str) -> dict[str, Any]:
    """Return {"project", "rows", "lists", "budgets"} for the project named `chosen`, else the
    actor's first project, else without project. 3 queries, 4 more if there are budgets.
    """
    projects = list(usable_projects(actor).order_by("name"))
    project = next((each for each in projects if each.name == chosen), projects[0] if projects else None)
    owners = [(Level.USER, actor.user_id or 0), *([(Level.PROJECT, project.pk)] if project else [])]
    scopes = read_scopes(scope_ids(actor, project).keys())
    return {
        "project": project,
        "rows": [_row(state) for state in effective_limits(scopes)],
        "lists": list_rows(scopes),
        "budgets": budget_rows(budget_states(owners)),
    }


def limit_rows(scopes: Sequence[Scope]) -> list[dict[str, Any]]:
    """Return each limit of each scope; `counts` marks the one with the least rest."""
    tightest = {(state.limit, state.level, state.scope) for state in effective_limits(scopes)}
    return [
        {
            **_row(state),
            "who": state.scope_name,
            "counts": (state.limit, state.level, state.scope) in tightest,
        }
        for state in all_limits(scopes)
    ]


def list_rows(scopes: Sequence[Scope], kinds: Iterable[AllowList] = AllowList) -> list[dict[str, Any]]:
    """Return each allow-list of these kinds in each scope; all of them apply together."""
    return [
        {
            "title": each.title, "who": each.scope_name, "set_by": each.scope_title, "policy": each.policy,
            "entries": each.entries, "words": each.words,
        }
        for each in allow_lists.all_lists(scopes, kinds)
    ]  # fmt: skip


def _row(state: LimitState) -> dict[str, Any]:
    is_counted = is_summed(state.limit) and state.value > 0
    percent = min(FULL, round(FULL * state.used / state.value)) if state.value else FULL
    tone = Tone.BAD if not state.left else Tone.WARN if percent >= NEARLY_FULL else Tone.BUSY
    return {
        "title": state.title,
        "value": format_limit(state.limit, state.value) if state.value else "",
        "used": format_limit(state.limit, state.used) if is_counted else None,
        "left": "" if is_floor(state.limit) else format_limit(state.limit, state.left),
        "is_floor": is_floor(state.limit),
        "is_joint": state.is_joint,
        "percent": percent,
        "tone": tone,
        "set_by": state.scope_title,
        "policy": state.policy,
    }
