"""Who may do what to domains, projects and people, as declared."""

from itertools import product

import pytest

from accounts.core.authorization import (
    GIVES,
    NOT_ON_ONESELF,
    ON_DOMAINS,
    ON_PEOPLE,
    ON_PROJECTS,
    Action,
    Relation,
    Standing,
    on_domain,
    on_person,
    on_project,
    roles_to_give,
)
from accounts.core.roles import Role

HOME, ELSEWHERE = 1, 2
PROJECT, OTHER_PROJECT = 10, 11

NOBODY = Standing()
SYSTEM = Standing(role=Role.SUPERADMIN)
SUPERADMIN = Standing(1, Role.SUPERADMIN, HOME)
DOMAIN_ADMIN = Standing(2, Role.DOMAIN_ADMIN, HOME)
PROJECT_ADMIN = Standing(3, Role.USER, HOME, frozenset({PROJECT}), frozenset({PROJECT}))
MEMBER = Standing(4, Role.USER, HOME, frozenset({PROJECT}))
MONITOR = Standing(5, Role.MONITOR, HOME, frozenset({PROJECT}), frozenset({PROJECT}))
DOMAIN_MONITOR = Standing(6, Role.DOMAIN_MONITOR, HOME, frozenset({PROJECT}), frozenset({PROJECT}))
EVERYBODY = (NOBODY, SYSTEM, SUPERADMIN, DOMAIN_ADMIN, PROJECT_ADMIN, MEMBER, MONITOR, DOMAIN_MONITOR)
LOOKS = {Action.VIEW, Action.VIEW_MEMBERS}


def test_every_table_says_something_of_every_relation() -> None:
    for table in (ON_DOMAINS, ON_PROJECTS, ON_PEOPLE):
        reached = set(table) | {Relation.PROJECT_ADMIN}
        assert reached == set(Relation)
        assert all(Action.VIEW in actions for actions in table.values())


@pytest.mark.parametrize("standing", EVERYBODY)
def test_nothing_of_another_domain_is_reached_but_by_superadmins(standing: Standing) -> None:
    reached = (
        on_domain(standing, ELSEWHERE)
        | on_project(standing, project_id=OTHER_PROJECT, domain_id=ELSEWHERE)
        | on_person(standing, user_id=99, role=Role.USER, domain_id=ELSEWHERE, project_ids=[OTHER_PROJECT])
    )
    assert bool(reached) is (standing.role in (Role.SUPERADMIN, Role.MONITOR))


@pytest.mark.parametrize(("standing", "role"), list(product(EVERYBODY, Role)))
def test_nobody_acts_on_somebody_above_or_gives_a_role_above(standing: Standing, role: Role) -> None:
    actions = on_person(standing, user_id=99, role=role, domain_id=HOME, project_ids=[PROJECT])
    if role not in roles_to_give(standing):
        assert actions <= {Action.VIEW}


@pytest.mark.parametrize("standing", [MONITOR, DOMAIN_MONITOR])
def test_monitors_look_and_change_nothing_of_others(standing: Standing) -> None:
    """Not even as admins of a project."""
    for domain_id in (HOME, ELSEWHERE):
        assert on_domain(standing, domain_id) <= LOOKS
        assert on_project(standing, project_id=PROJECT, domain_id=domain_id) <= LOOKS
        for role in Role:
            on_somebody = on_person(
                standing, user_id=99, role=role, domain_id=domain_id, project_ids=[PROJECT]
            )
            assert on_somebody <= LOOKS
    assert on_project(standing, project_id=OTHER_PROJECT, domain_id=HOME) == LOOKS
    assert roles_to_give(standing) == ()


def test_a_role_that_is_given_reaches_no_further_than_the_giver() -> None:
    """What may be done and seen with it, at home and elsewhere."""

    def reach(role: Role) -> frozenset[tuple[int, Action]]:
        standing = Standing(7, role, HOME)
        return frozenset(
            (domain_id, action)
            for domain_id in (HOME, ELSEWHERE)
            for action in on_project(standing, project_id=0, domain_id=domain_id)
        )

    assert set(GIVES) == set(Role)
    assert all(reach(given) <= reach(giver) for giver, all_given in GIVES.items() for given in all_given)


def test_roles_are_given_up_to_the_own_one_by_administrators() -> None:
    assert roles_to_give(NOBODY) == roles_to_give(MEMBER) == roles_to_give(PROJECT_ADMIN) == ()
    assert roles_to_give(DOMAIN_ADMIN) == (Role.USER, Role.DOMAIN_MONITOR, Role.DOMAIN_ADMIN)
    assert roles_to_give(SUPERADMIN) == roles_to_give(SYSTEM) == tuple(Role)


@pytest.mark.parametrize("standing", [SUPERADMIN, DOMAIN_ADMIN, PROJECT_ADMIN, MEMBER])
def test_nobody_ends_or_moves_their_own_account(standing: Standing) -> None:
    assert standing.role is not None
    own = on_person(standing, user_id=standing.user_id, role=standing.role, domain_id=HOME)
    assert Action.VIEW in own
    assert not own & NOT_ON_ONESELF


def test_projects_are_governed_by_their_domain_and_their_admins() -> None:
    def of(standing: Standing, project_id: int = PROJECT) -> frozenset[Action]:
        return on_project(standing, project_id=project_id, domain_id=HOME)

    assert of(SUPERADMIN) == of(DOMAIN_ADMIN) == of(SYSTEM) == ON_PROJECTS[Relation.SUPERADMIN]
    assert of(PROJECT_ADMIN) == {*LOOKS, Action.MANAGE_MEMBERS}
    assert of(MEMBER) == {Action.VIEW}
    assert of(PROJECT_ADMIN, OTHER_PROJECT) == of(MEMBER, OTHER_PROJECT) == of(NOBODY) == frozenset()


def test_domains_are_made_and_changed_by_superadmins_alone() -> None:
    assert on_domain(SUPERADMIN, ELSEWHERE) >= {Action.CREATE, Action.EDIT, Action.CLOSE, Action.PURGE}
    assert on_domain(DOMAIN_ADMIN, HOME) == on_domain(MEMBER, HOME) == {Action.VIEW}
    assert on_domain(NOBODY, HOME) == frozenset()


def test_a_project_admin_sees_the_members_and_no_more() -> None:
    assert on_person(PROJECT_ADMIN, user_id=99, role=Role.USER, domain_id=HOME, project_ids=[PROJECT]) == {
        Action.VIEW
    }
    assert not on_person(
        PROJECT_ADMIN, user_id=99, role=Role.USER, domain_id=HOME, project_ids=[OTHER_PROJECT]
    )
