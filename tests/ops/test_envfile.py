"""The env file is created once, kept, and readable by its owner only."""

import socket
import stat
from pathlib import Path

from portal.ops.setup.env_file import parse_server_address, portal_url, read_env, updated, write_env


def test_what_was_generated_is_kept_by_the_next_run(tmp_path: Path) -> None:
    first = updated({}, host="127.0.0.1", port=8080)
    write_env(tmp_path / "env", first)

    assert updated(read_env(tmp_path / "env"), host="127.0.0.1", port=8080) == first


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    write_env(tmp_path / "env", {"BERTH_SECRET_KEY": "x"})
    assert stat.S_IMODE((tmp_path / "env").stat().st_mode) == 0o600


def test_no_two_installations_share_a_secret() -> None:
    one, other = (updated({}, host="127.0.0.1", port=8080) for _ in range(2))
    for name in ("BERTH_SECRET_KEY", "BERTH_INSTALLATION", "DATABASE_URL", "REDIS_URL"):
        assert one[name] != other[name]


def test_a_port_that_something_else_took_is_replaced_and_the_password_kept() -> None:
    before = updated({}, host="127.0.0.1", port=8080)
    address = parse_server_address(before["DATABASE_URL"])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", address.port))
        after = parse_server_address(updated(before, host="127.0.0.1", port=8080)["DATABASE_URL"])
    assert (after.password, after.port == address.port) == (address.password, False)


def test_addresses_that_the_caller_gives_are_not_written_down() -> None:
    values = updated({}, host="127.0.0.1", port=8080, is_given={"DATABASE_URL", "REDIS_URL"})
    assert not {"DATABASE_URL", "REDIS_URL"} & values.keys()


def test_the_address_to_open_follows_host_and_port() -> None:
    assert portal_url("127.0.0.1", 8080) == "http://localhost:8080"
    assert portal_url("0.0.0.0", 80) == "http://localhost:80"
    assert portal_url("192.0.2.1", 8081) == "http://192.0.2.1:8081"
    assert portal_url("2001:db8::1", 8081) == "http://[2001:db8::1]:8081"


def test_a_machine_that_listens_everywhere_answers_to_its_name_and_to_those_that_were_added() -> None:
    values = updated({"BERTH_HOSTS": "berth.lab.example"}, host="0.0.0.0", port=8080)
    assert {socket.gethostname(), "berth.lab.example"} <= set(values["BERTH_HOSTS"].split(","))
    assert "BERTH_HOSTS" not in updated({}, host="127.0.0.1", port=8080)
