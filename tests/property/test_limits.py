"""Laws of limits, for any scopes and requests."""

from hypothesis import given
from hypothesis import strategies as st

from accounts.core.limits import (
    Level,
    Scope,
    effective_limits,
    is_summed,
    refused_limits,
    unsatisfiable_limits,
)
from accounts.core.utilization import UtilizationRule

NAMES = st.sampled_from(["sessions", "pending_sessions", "slots.cpu", "slots.cuda", "lifetime_s", "folders"])
LEASTS = st.sampled_from(["min_cpu_percent", "min_mem_percent", "min_device_percent"])
leasts = st.lists(
    st.builds(
        Scope, st.sampled_from(Level), st.integers(1, 3), st.just("a"), st.just("p"),
        st.dictionaries(LEASTS, st.integers(1, 3)), use_rule=st.sampled_from(UtilizationRule),
    ),
    max_size=5, unique_by=lambda scope: (scope.level, scope.id),
)  # fmt: skip
amounts = st.dictionaries(NAMES, st.integers(0, 6))
scopes = st.lists(
    st.builds(Scope, st.sampled_from(Level), st.integers(1, 3), st.just("a"), st.just("p"), amounts, amounts),
    max_size=5,
)


def after(scope: Scope, asked: dict[str, int]) -> dict[str, int]:
    """What would be used if `asked` were granted."""
    return {
        name: asked.get(name, 0) + (scope.used.get(name, 0) if is_summed(name) else 0)
        for name in scope.limits
    }


@given(scopes, amounts)
def test_what_hits_nothing_keeps_every_limit_and_every_limit_it_would_break_is_named(found, asked) -> None:
    named = sorted((state.level, state.limit, state.value) for state in refused_limits(found, asked))
    broken = sorted(
        (scope.level, name, scope.limits[name])
        for scope in found
        for name, used in after(scope, asked).items()
        if asked.get(name, 0) > 0 and used > scope.limits[name]
    )
    assert named == broken


@given(scopes, amounts)
def test_a_refusal_never_offers_what_would_be_refused(found, asked) -> None:
    for state in refused_limits(found, asked):
        assert state.asked > state.left
        alone = [
            scope
            for scope in found
            if scope.level == state.level and scope.limits.get(state.limit) == state.value
        ]
        assert any(not refused_limits([scope], {state.limit: state.left}) for scope in alone)


@given(scopes, amounts)
def test_asking_for_less_never_hits_more(found, asked) -> None:
    less = {name: amount // 2 for name, amount in asked.items()}
    assert len(refused_limits(found, less)) <= len(refused_limits(found, asked))


@given(scopes, NAMES, st.integers(1, 6))
def test_one_amount_is_granted_iff_the_effective_limit_has_it_left(found, name, amount) -> None:
    left = {state.limit: state.left for state in effective_limits(found)}
    assert bool(refused_limits(found, {name: amount})) == (name in left and amount > left[name])


@given(scopes, amounts)
def test_what_can_never_be_is_refused_at_any_time(found, asked) -> None:
    names = {(state.level, state.limit, state.value) for state in unsatisfiable_limits(found, asked)}
    assert names <= {(state.level, state.limit, state.value) for state in refused_limits(found, asked)}


@given(st.permutations(list(Level)), amounts, amounts)
def test_the_order_of_scopes_makes_no_difference(order, limits, used) -> None:
    found = [Scope(level, 1, "a", "p", limits, used) for level in order]
    straight = [Scope(level, 1, "a", "p", limits, used) for level in Level]
    assert effective_limits(found) == effective_limits(straight)
    assert refused_limits(found, limits) == refused_limits(straight, limits)


@given(leasts)
def test_shared_limits_sum_requests_and_others_take_the_largest(found) -> None:
    told = effective_limits(found)
    joint = [
        (scope.level, limit, scope.limits[limit])
        for scope in found
        for limit in scope.limits
        if scope.is_joint(limit)
    ]
    assert sorted((each.level, each.limit, each.value) for each in told if each.is_joint) == sorted(joint)
    alone: dict[str, int] = {}
    for scope in found:
        for limit, value in scope.limits.items():
            if not scope.is_joint(limit):
                alone[limit] = max(value, alone.get(limit, 0))
    assert {each.limit: each.value for each in told if not each.is_joint} == alone
