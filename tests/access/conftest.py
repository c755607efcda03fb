"""A world shared by all rows of a test: each request is rolled back, so one set-up suffices."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.template.base import Template
from django.test.utils import _TestState

from accounts.web.sign_in import required_action_middleware
from tests.access.world import World, make_world


@pytest.fixture
def patient_portal(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is throttled in it, and no refusal is logged: here they are what is asked for. That a login was seen again after
    a while is not written, so that slow machines count the same queries. Django's tests copy the context of each template that a
    page includes, which nobody looks at here: a page takes a tenth less without."""
    monkeypatch.setattr(required_action_middleware, "USE_RECORD_INTERVAL", timedelta(days=1))
    monkeypatch.setattr(Template, "_render", _TestState.saved_data.template_render)
    settings.ACCOUNT_RATE_LIMITS = False
    settings.BERTH_TOKEN_REQUESTS = 0
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def world(db: None, patient_portal: None, tmp_path: Path) -> World:
    return make_world(tmp_path)
