"""The style guide shows every component with realistic data."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from common.pages import render_cache
from portal.ops.paths import CHECKOUT
from sessions_app.metrics.collector import SERIES
from tests.factories import make_user

NOT_BY_ITSELF = {  # of a session, of answers to scripts, of forms that a script fills
    "includes/terminal.html",
    "includes/palette_options.html",
    "includes/passkey_button.html",
    "includes/passkey_script.html",
    "includes/tab_counts.html",
}

pytestmark = pytest.mark.django_db


@pytest.fixture
def superadmin(browser_of: Callable[[User], Client]) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def test_every_component_is_shown(superadmin: Client) -> None:
    render_cache._render_cached.cache_clear()  # parts that were drawn for other tests come from no template
    shown = {template.name for template in superadmin.get("/styleguide/").templates}
    components = {f"includes/{path.name}" for path in (CHECKOUT / "templates" / "includes").glob("*.html")}

    assert components - shown == NOT_BY_ITSELF


def test_the_sample_log_is_plain_text(superadmin: Client) -> None:
    answer = superadmin.get("/styleguide/log/")

    assert answer["Content-Type"].startswith("text/plain")
    assert answer.content.startswith(b"epoch 1: loss ")


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
