"""Configures logging: one structured line per event on stderr; ids always, secrets never."""

import logging

import structlog
from structlog.typing import EventDict, Processor

# Terminal control characters; the renderer writes line breaks as \\n.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) != "\n"}


def configure_logging(level: str) -> None:
    """Send structlog and standard library loggers through one formatter."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                without_controls,
                structlog.processors.LogfmtRenderer(
                    key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False
                ),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for noisy in (
        "httpx",
        "docker",
        "urllib3",
        "asyncio",
        "celery.beat",
        "kombu",
        "celery.worker.request",  # expired tasks are dropped by design, many at a slow start
        "celery.worker.strategy",
        "celery.app.trace",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def without_controls(logger: object, name: str, event: EventDict) -> EventDict:
    """Escape control characters, so that external text cannot control a terminal."""
    return {
        key: value.translate(_CONTROLS) if isinstance(value, str) else value for key, value in event.items()
    }
