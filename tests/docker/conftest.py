"""A real engine with the tiny image, and the session image."""

from collections.abc import Iterator

import pytest

from agents.runtime.docker.sync_runtime import DockerRuntime
from portal.ops.engine.session_image import ensure_session_image
from tests import engines


@pytest.fixture(scope="module")
def runtime() -> Iterator[DockerRuntime]:
    """Return an engine with the tiny image; afterwards nothing of this run is left."""
    engines.make_tiny_image()
    runtime = DockerRuntime(engines.ADDRESS)
    yield runtime
    runtime.close()
    engines.remove_everything()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the session image; built if this engine never had it."""
    return ensure_session_image(print, tmp_path_factory.mktemp("data"), address=engines.ADDRESS)
