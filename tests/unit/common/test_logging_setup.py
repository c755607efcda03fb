"""A log record is one line of plain text, whatever its values contain."""

import logging

from common.logging_setup import configure_logging


def test_text_from_outside_neither_begins_a_line_nor_commands_the_terminal() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        configure_logging("WARNING")
        [handler] = root.handlers
        record = logging.LogRecord("django.request", logging.WARNING, "", 1, "Not Found: %s", ("",), None)
        record.args = ("/x\r\nlevel=error event=forged \x1b[2J\x9b0m",)
        line = handler.format(record)
    finally:
        root.handlers = handlers
        root.setLevel(level)

    assert line.isprintable()
    assert "Not Found: /x" in line
