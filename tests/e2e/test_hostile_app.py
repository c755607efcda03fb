"""A hostile app fails against Berth, by host and by port, but succeeds against a careless portal."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.hostile_app import attempted, worlds
from tests.e2e.hostile_attempts import ATTEMPTS, Attempt
from tests.e2e.hostile_world import World
from tests.e2e.portal import RunningPortal, local_url

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def places(portal: RunningPortal, chromium: Browser) -> Iterator[tuple[World, World, World]]:
    with worlds(chromium, portal, local_url()) as three:
        portal.kept_sessions.update(three[1].sessions)
        yield three
        portal.kept_sessions.clear()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.attack.__name__)
def test_hostile_app_fails(places: tuple[World, World, World], attempt: Attempt) -> None:
    result = attempted(attempt, places)
    assert result.careless, "It did not even succeed where nothing is in its way."
    assert result.is_as_promised, result.row()
