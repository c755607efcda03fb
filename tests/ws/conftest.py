"""The gateway is tested on the event loop that it runs on."""

import uvloop


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    return {"uvloop": uvloop.new_event_loop}
