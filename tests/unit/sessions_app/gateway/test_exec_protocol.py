"""Messages of the exec websocket."""

from typing import Any

import pytest

from agents.runtime.port_async import ProcessSpec
from common.errors import InvalidInput
from sessions_app.gateway.processes import exec_protocol
from sessions_app.gateway.processes.exec_protocol import bearer_of, parse_order, parse_signal


def test_an_order_says_all_that_a_process_needs() -> None:
    told = {
        "argv": ["python", "-c", "print('ü')", ""],
        "tty": True,
        "env": {"A": "1", "_b2": ""},
        "cwd": "/home/work/ä",
        "rows": 40,
        "cols": 120,
    }
    assert parse_order(told) == ProcessSpec(
        argv=("python", "-c", "print('ü')", ""),
        has_terminal=True,
        environment={"A": "1", "_b2": ""},
        working_dir="/home/work/ä",
        columns=120,
        rows=40,
    )
    assert parse_order({"argv": ["true"]}) == ProcessSpec(argv=("true",), has_terminal=False)
    assert parse_order({"tty": True}) == ProcessSpec()


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("argv", None),
        ("argv", []),
        ("argv", {}),
        ("argv", {"argv": []}),
        ("argv", {"argv": "ls -l"}),
        ("argv", {"argv": [1]}),
        ("argv", {"argv": [""]}),
        ("argv", {"argv": ["a\0b"]}),
        ("argv", {"argv": ["\ud800"]}),
        ("argv", {"argv": ["a"] * (exec_protocol.ARGV_WORDS + 1)}),
        ("argv", {"argv": ["a" * (exec_protocol.ARGV_BYTES + 1)]}),
        ("tty", {"argv": ["a"], "tty": "yes"}),
        ("stdin", {"argv": ["a"], "stdin": True}),
        ("env", {"argv": ["a"], "env": []}),
        ("env", {"argv": ["a"], "env": {"A": 1}}),
        ("env", {"argv": ["a"], "env": {"A=B": "x"}}),
        ("env", {"argv": ["a"], "env": {"": "x"}}),
        ("env", {"argv": ["a"], "env": {"A": "x\0"}}),
        ("env", {"argv": ["a"], "env": {"BERTH_KEEPER": "x"}}),
        ("env", {"argv": ["a"], "env": {f"A{n}": "" for n in range(exec_protocol.ENVIRONMENT_NAMES + 1)}}),
        ("env", {"argv": ["a"], "env": {"A": "x" * exec_protocol.ENVIRONMENT_BYTES}}),
        ("cwd", {"argv": ["a"], "cwd": "tmp"}),
        ("cwd", {"argv": ["a"], "cwd": 1}),
        ("cwd", {"argv": ["a"], "cwd": "/\0"}),
        ("cwd", {"argv": ["a"], "cwd": "/" + "x" * exec_protocol.PATH_BYTES}),
        ("rows", {"argv": ["a"], "rows": 0}),
        ("rows", {"argv": ["a"], "rows": True}),
        ("cols", {"argv": ["a"], "cols": 1001}),
        ("cols", {"argv": ["a"], "cols": "80"}),
    ],
)
def test_a_wrong_order_is_refused_with_the_field(field: str, told: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_order(told)
    assert list(refused.value.fields) == [field]


def test_signals_are_those_that_a_process_knows() -> None:
    assert parse_signal("INT") == "INT"
    for name in ("SIGINT", "", 2, None, "INT; rm -rf /"):
        with pytest.raises(InvalidInput):
            parse_signal(name)


def test_a_token_comes_by_header_or_subprotocol() -> None:
    offered = ["berth.exec.v1", "berth.bearer.second"]
    assert bearer_of({b"authorization": b"Bearer first "}, offered) == "first"
    assert bearer_of({b"authorization": b"Basic first"}, offered) == "second"
    assert bearer_of({}, ["berth.exec.v1"]) == ""
