"""The gateway is tested on the event loop that it runs on, with a session that was carried to RUNNING."""

import pytest
import uvloop

from tests.ws.stage import Stage, set_stage


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def stage(transactional_db: None) -> Stage:
    return set_stage()
