"""The style guide shows every component with data that it would get."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from accounts.roles import Role
from sessions_app.metrics import SERIES
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def superadmin(browser_of: Callable[[User], Client]) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def test_charts_and_ways_by_program_are_shown(superadmin: Client) -> None:
    page = superadmin.get("/styleguide/").content.decode()

    assert 'data-charts-url="/styleguide/metrics/"' in page
    assert "berth create -f session.yaml" in page
    assert "never shown" not in page


def test_sample_charts_have_what_charts_of_sessions_have(superadmin: Client) -> None:
    told = superadmin.get("/styleguide/metrics/?window=15m").json()

    (kernel,) = told["kernels"]
    assert told["step_s"] > 0
    for name in (*SERIES, *(f"{name}_max" for name in SERIES)):
        assert len(kernel[name]) == len(kernel["at"])
