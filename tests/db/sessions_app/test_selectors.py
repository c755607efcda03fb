"""Queries that the fetch of one session takes, permissions included."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import Role
from accounts.models import Membership, User
from common.errors import NotFound, PermissionDenied
from sessions_app.models import ComputeSession
from sessions_app.selectors import Action, access_session
from tests import factories
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
MOST_OF_A_SESSION = 2


def fetched(user: User, session: ComputeSession, action: Action) -> tuple[ComputeSession, int]:
    """The session, used as its callers do, and what that took."""
    with CaptureQueriesContext(connection) as queries:
        found = access_session(factories.actor_for(user), session.pk, action)
        assert [kernel.agent and kernel.agent.name for kernel in found.kernels.all()]
        its = (found.owner, found.project, found.domain, found.image, found.resource_group)
        assert all(map(str, its))
    return found, len(queries)


@pytest.mark.parametrize("action", list(Action))
def test_a_session_is_fetched_in_two_queries_whatever_is_wanted_of_it(place: Place, action: Action) -> None:
    assert fetched(place.owner, place.run(), action)[1] <= MOST_OF_A_SESSION


def test_others_take_as_few(place: Place) -> None:
    session = place.run()
    project = session.project
    for user in (
        factories.make_user(admin_of=project),
        factories.make_user(domain=project.domain, role=Role.DOMAIN_ADMIN),
        factories.make_user(role=Role.MONITOR),
        factories.make_user(role=Role.SUPERADMIN),
    ):
        assert fetched(user, session, Action.VIEW)[1] <= MOST_OF_A_SESSION


def test_a_refusal_takes_no_more_and_hidden_takes_what_absent_takes(place: Place) -> None:
    session, stranger = place.run(), factories.make_user()
    counts = {}
    for kind, key in {"hidden": session.pk, "absent": uuid4()}.items():
        with CaptureQueriesContext(connection) as queries, pytest.raises(NotFound):
            access_session(factories.actor_for(stranger), key, Action.VIEW)
        counts[kind] = len(queries)
    assert counts == {"hidden": 1, "absent": 1}

    Membership.objects.filter(user=place.owner).delete()
    with CaptureQueriesContext(connection) as queries, pytest.raises(PermissionDenied, match="not a member"):
        access_session(factories.actor_for(place.owner), session.pk, Action.OPEN_APP)
    assert len(queries) <= MOST_OF_A_SESSION
