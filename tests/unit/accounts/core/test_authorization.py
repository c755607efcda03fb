"""The table of actions on domains, projects and users by relation."""

from itertools import product

import pytest

from accounts.core.authorization import (
    ASSIGNABLE_ROLES,
    DOMAIN_ACTIONS,
    FORBIDDEN_ON_SELF,
    PROJECT_ACTIONS,
    USER_ACTIONS,
    Action,
    ActorScope,
    Relation,
    assignable_roles,
    domain_actions,
    project_actions,
    user_actions,
)
from accounts.core.roles import Role

HOME, ELSEWHERE = 1, 2
PROJECT, OTHER_PROJECT = 10, 11

NOBODY = ActorScope()
SYSTEM = ActorScope(role=Role.SUPERADMIN)
SUPERADMIN = ActorScope(1, Role.SUPERADMIN, HOME)
DOMAIN_ADMIN = ActorScope(2, Role.DOMAIN_ADMIN, HOME)
PROJECT_ADMIN = ActorScope(3, Role.USER, HOME, frozenset({PROJECT}), frozenset({PROJECT}))
MEMBER = ActorScope(4, Role.USER, HOME, frozenset({PROJECT}))
MONITOR = ActorScope(5, Role.MONITOR, HOME, frozenset({PROJECT}), frozenset({PROJECT}))
DOMAIN_MONITOR = ActorScope(6, Role.DOMAIN_MONITOR, HOME, frozenset({PROJECT}), frozenset({PROJECT}))
EVERYBODY = (NOBODY, SYSTEM, SUPERADMIN, DOMAIN_ADMIN, PROJECT_ADMIN, MEMBER, MONITOR, DOMAIN_MONITOR)
LOOKS = {Action.VIEW, Action.VIEW_MEMBERS}


def test_every_table_says_something_of_every_relation() -> None:
    for table in (DOMAIN_ACTIONS, PROJECT_ACTIONS, USER_ACTIONS):
        reached = set(table) | {Relation.PROJECT_ADMIN}
        assert reached == set(Relation)
        assert all(Action.VIEW in actions for actions in table.values())


@pytest.mark.parametrize("standing", EVERYBODY)
def test_nothing_of_another_domain_is_reached_but_by_superadmins(standing: ActorScope) -> None:
    reached = (
        domain_actions(standing, ELSEWHERE)
        | project_actions(standing, project_id=OTHER_PROJECT, domain_id=ELSEWHERE)
        | user_actions(standing, user_id=99, role=Role.USER, domain_id=ELSEWHERE, project_ids=[OTHER_PROJECT])
    )
    assert bool(reached) is (standing.role in (Role.SUPERADMIN, Role.MONITOR))


@pytest.mark.parametrize(("standing", "role"), list(product(EVERYBODY, Role)))
def test_no_action_on_users_of_higher_roles_and_no_grant_above_the_own_role(
    standing: ActorScope, role: Role
) -> None:
    actions = user_actions(standing, user_id=99, role=role, domain_id=HOME, project_ids=[PROJECT])
    if role not in assignable_roles(standing):
        assert actions <= {Action.VIEW}


@pytest.mark.parametrize("standing", [MONITOR, DOMAIN_MONITOR])
def test_monitors_look_and_change_nothing_of_others(standing: ActorScope) -> None:
    """Not even as admins of a project."""
    for domain_id in (HOME, ELSEWHERE):
        assert domain_actions(standing, domain_id) <= LOOKS
        assert project_actions(standing, project_id=PROJECT, domain_id=domain_id) <= LOOKS
        for role in Role:
            on_somebody = user_actions(
                standing, user_id=99, role=role, domain_id=domain_id, project_ids=[PROJECT]
            )
            assert on_somebody <= LOOKS
    assert project_actions(standing, project_id=OTHER_PROJECT, domain_id=HOME) == LOOKS
    assert assignable_roles(standing) == ()


def test_a_role_that_is_given_reaches_no_further_than_the_giver() -> None:
    """What may be done and seen with it, at home and elsewhere."""

    def reach(role: Role) -> frozenset[tuple[int, Action]]:
        standing = ActorScope(7, role, HOME)
        return frozenset(
            (domain_id, action)
            for domain_id in (HOME, ELSEWHERE)
            for action in project_actions(standing, project_id=0, domain_id=domain_id)
        )

    assert set(ASSIGNABLE_ROLES) == set(Role)
    assert all(
        reach(given) <= reach(giver) for giver, all_given in ASSIGNABLE_ROLES.items() for given in all_given
    )


def test_roles_are_given_up_to_the_own_one_by_administrators() -> None:
    assert assignable_roles(NOBODY) == assignable_roles(MEMBER) == assignable_roles(PROJECT_ADMIN) == ()
    assert assignable_roles(DOMAIN_ADMIN) == (Role.USER, Role.DOMAIN_MONITOR, Role.DOMAIN_ADMIN)
    assert assignable_roles(SUPERADMIN) == assignable_roles(SYSTEM) == tuple(Role)


@pytest.mark.parametrize("standing", [SUPERADMIN, DOMAIN_ADMIN, PROJECT_ADMIN, MEMBER])
def test_users_cannot_close_or_move_themselves(standing: ActorScope) -> None:
    assert standing.role is not None
    own = user_actions(standing, user_id=standing.user_id, role=standing.role, domain_id=HOME)
    assert Action.VIEW in own
    assert not own & FORBIDDEN_ON_SELF


def test_projects_are_governed_by_their_domain_and_their_admins() -> None:
    def of(standing: ActorScope, project_id: int = PROJECT) -> frozenset[Action]:
        return project_actions(standing, project_id=project_id, domain_id=HOME)

    assert of(SUPERADMIN) == of(DOMAIN_ADMIN) == of(SYSTEM) == PROJECT_ACTIONS[Relation.SUPERADMIN]
    assert of(PROJECT_ADMIN) == {*LOOKS, Action.MANAGE_MEMBERS}
    assert of(MEMBER) == {Action.VIEW}
    assert of(PROJECT_ADMIN, OTHER_PROJECT) == of(MEMBER, OTHER_PROJECT) == of(NOBODY) == frozenset()


def test_domains_are_made_and_changed_by_superadmins_alone() -> None:
    assert domain_actions(SUPERADMIN, ELSEWHERE) >= {Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE}
    assert domain_actions(DOMAIN_ADMIN, HOME) == domain_actions(MEMBER, HOME) == {Action.VIEW}
    assert domain_actions(NOBODY, HOME) == frozenset()


def test_a_project_admin_sees_the_members_and_no_more() -> None:
    assert user_actions(PROJECT_ADMIN, user_id=99, role=Role.USER, domain_id=HOME, project_ids=[PROJECT]) == {
        Action.VIEW
    }
    assert not user_actions(
        PROJECT_ADMIN, user_id=99, role=Role.USER, domain_id=HOME, project_ids=[OTHER_PROJECT]
    )
