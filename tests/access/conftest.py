"""One world for all rows of a test: each request is undone, so that setting it up once is enough."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.access.world import World, make_world


@pytest.fixture
def world(db: None, tmp_path: Path, settings: Any) -> Iterator[World]:
    """Nobody is throttled in it, and no refusal is logged: here they are what is asked for."""
    settings.ACCOUNT_RATE_LIMITS = False
    logging.disable(logging.CRITICAL)
    yield make_world(tmp_path)
    logging.disable(logging.NOTSET)
