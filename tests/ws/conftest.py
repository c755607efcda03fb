"""Fixtures of the gateway: the event loop of production, and a RUNNING session."""

import pytest
import uvloop

from tests.ws.stage import Stage, set_stage


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def stage(transactional_db: None) -> Stage:
    return set_stage()
