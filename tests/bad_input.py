"""Table of invalid session requests, with the expected error of parser, REST, forms and command
line.

The parser and REST are tested with each row; forms and the command line with one row of each field,
and with all in `bin/test --all`. `Bad.field` is the field of the REST body that has the error, with
dots for nested fields; `says` is a part of the error sentence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.width import IS_WIDE

NAME_RULE = "Use 1 to 64 letters, digits, dots, dashes and underscores"
NUL = "has a NUL character"
UNSEEN = "characters that do not show"
HALF = "half of a surrogate pair"
BELOW_HOME = "Use a path below /home/work/ without"
SHARED_PLACE = "Two folders cannot share the place"
SHELL = ("$(reboot)", "`reboot`", "a;reboot", "a|b", "a&b", "a>b", "a'b", 'a"b', "a\\b", "-rf", "~", "*")


@dataclass(frozen=True, slots=True)
class Bad:
    """One invalid value of a session request."""

    field: str
    value: Any
    says: str
    code: str = "invalid"
    status: int = 400
    beside: Mapping[str, Any] = field(default_factory=dict)  # other amounts of `resources`

    def __str__(self) -> str:
        return f"{self.field}={ascii(self.value)[:30]}"

    @property
    def changes(self) -> dict[str, Any]:
        """Return the changes that make a valid body invalid in this way."""
        match self.field.split("."):
            case ["resources", *slot] if slot:
                return {"resources": {"cpu": 1, "mem": "1g", **self.beside, ".".join(slot): self.value}}
            case ["mounts", _, name]:
                return {"mounts": [{"folder": "data", name: self.value}]}
            case ["roles", number, name]:
                return {"roles": [{"name": "w"}] * int(number) + [{"name": "w", name: self.value}]}
            case _:
                return {self.field: self.value}

    @property
    def typed(self) -> dict[str, Any] | None:
        """Return the values to type into the launcher; None if its form cannot express them."""
        name = {"resources.cpu": "cpu", "resources.mem": "mem", "resources.shm": "shm"}.get(
            self.field, self.field
        )
        is_amount = (
            isinstance(self.value, int) and self.field.startswith("resources.") and self.value < 10**12
        )
        is_said = isinstance(self.value, str) or (is_amount and not isinstance(self.value, bool))
        is_carried = (
            is_said
            and not {"\ud800", "\0"} & {*str(self.value)}
            and str(self.value).strip() == str(self.value)
        )
        has_input = name in {"name", "project", "image", "resource_group", "type", "cpu", "mem", "shm"}
        return {name: str(self.value)} if is_carried and has_input and self.value != "" else None


def some_of_each_field(rows: Iterable[Bad]) -> list[Bad]:
    """Return the first row of each field; all rows in a wide run."""
    if IS_WIDE:
        return list(rows)
    return list({row.field: row for row in reversed(list(rows))}.values())


# Errors found by the parser alone.
UNREADABLE = (
    *(Bad("name", name, NAME_RULE) for name in ("", " ", "a b", "x" * 65, "x" * 10_000, "../x", "a/b", ".a", "a-", *SHELL)),
    *(Bad("name", name, NAME_RULE) for name in ("a\nb", "a\x1b[31m", "🚢", "a\u202eb", "a\u200bb", "a\u3164", "\u0301a", "é-", "é" * 65)),
    Bad("name", "a\0b", NUL),
    Bad("name", "\ud800", HALF),
    *(Bad("name", name, NAME_RULE) for name in (None, 7, True, ["a"], {"a": 1})),
    Bad("project", "", "Say which project"),
    Bad("project", None, "Say which project"),
    Bad("project", 7, "Give text, not 7"),
    Bad("project", ["a"], "Give text, not a list"),
    Bad("project", "p" * 10_000, "At most 255 characters; these are 10,000"),
    *(Bad("project", project, UNSEEN) for project in ("a\nb", "a\u202eb", "a\x7f")),
    Bad("project", "p\0", NUL),
    Bad("project", "\ud800", HALF),
    Bad("image", "", "Say which image"),
    Bad("image", {"a": 1}, "Give text, not an object"),
    Bad("image", "i" * 10_000, "At most 255 characters"),
    Bad("image", "a\0b", NUL),
    Bad("resource_group", "g" * 10_000, "At most 255 characters"),
    Bad("resource_group", "a\u2066b", UNSEEN),
    Bad("resource_group", False, "Give text, not false"),
    *(Bad("personal_files", value, "neither true nor false") for value in ("yes", 1, None, [])),
    *(Bad("array", array, "is no array. Write indices like 1-100%10") for array in ("a", "1-", "-1", "1;2", "1-2-3", "١", ",", "1%2%3", 7, True, ["1"], "1" * 2000)),
    *(Bad("array", array, "names no index") for array in ("9-1", "1-9:0")),
    *(Bad("array", array, "has more than 1000 elements") for array in ("1-1001", "0-9999999", "1-600,1001-1600")),
    Bad("array", "1-3,2", "2 comes twice in the array"),
    Bad("array", "10000000", "is too high for an index"),
    *(Bad("array", array, "is no number of sessions at once") for array in ("1-9%0", "1-9%", "1-9%x", "1-9%-1")),
    Bad("array", "1-3", "Only batch sessions come in arrays"),
    *(Bad("cluster_size", size, "is no number of containers. Give a whole number from 1 to 100") for size in (0, -1, 1000, "x", 1.5, True, [2])),
    Bad("cluster_mode", "everywhere", "does not say where the containers run"),
    *(Bad("roles", roles, "Give a list of at most 16 roles") for roles in ("worker=2", {"name": "worker"}, [{"name": "w"}] * 17)),
    *(Bad("roles.0.name", name, "is not the name of a role") for name in ("Worker", "w-1", "-w", "w w", "ｗ", "w" * 21, 1)),
    *(Bad("roles.1.name", name, f"Two roles are called “{name}”") for name in ("w", "main")),
    Bad("roles.0.count", 100, "is no number of containers. Give a whole number from 1 to 99"),
    Bad("roles", [{"name": "w", "count": 60}, {"name": "v", "count": 40}], "A session has at most 100 containers; these roles and main1 are 101"),
    Bad("type", "system", "“system” is not a type of session"),
    Bad("type", ["batch"], "is not a type of session"),
    Bad("resources", [1], "Give amounts by name"),
    Bad("resources", "cpu=1", "Give amounts by name"),
    Bad("resources", {f"kind-{number}": 1 for number in range(200)}, "at most 32 kinds"),
    *(Bad("resources.cpu", cpu, "Ask for at least 0.01 cores") for cpu in (0, "0", 0.0, "0.001")),
    *(
        Bad("resources.cpu", cpu, "is not an amount of cpu. Write a number like 1 or 0.5.")
        for cpu in (
            -1, "-1", "abc", "NaN", "inf", "-inf", "1_000", "١", "１", "1e9", "1e999999999", "1e-999999999", "1,5",
            "0x10", "1 000", "0.0001", 0.0001, "", "1;reboot", "9" * 5000, None, True, [1], {"a": 1},
        )
    ),
    *(Bad("resources.cpu", cpu, "is more cpu than any machine has") for cpu in (1e30, 10**200, "9" * 15)),
    *(
        Bad("resources.mem", mem, "is not an amount of memory. Write it like 512m or 4g.")
        for mem in (
            "12x", "-1g", -1, "1e9", "nan", "1_000m", "١g", "1,5g", "g", "", "1g\n2", "1" * 16, "1e999999999", 1.5, None,
            False, [], {},
        )
    ),
    Bad("resources.mem", "0", "Ask for at least 32 MiB"),
    Bad("resources.mem", "1.5", "Ask for at least 32 MiB"),
    Bad("resources.mem", "999p", "is more memory than any machine has"),
    Bad("resources.mem", 10**30, "is more memory than any machine has"),
    Bad("resources.shm", "2g", "Shared memory counts as memory"),
    Bad("resources.shm", "12x", "is not an amount of memory"),
    Bad("resources.shm", [], "is not an amount of memory"),
    Bad("resources.CPU", 1, "is not the name of a resource"),
    Bad("environment", ["A=b"], "as an object of names and texts"),
    Bad("environment", {"A B": "x"}, "is not the name of a variable"),
    Bad("environment", {"": "x"}, "is not the name of a variable"),
    Bad("environment", {"A;reboot": "x"}, "is not the name of a variable"),
    Bad("environment", {"BERTH_URL": "x"}, "is set by Berth"),
    Bad("environment", {"LD_PRELOAD": "x"}, "is set by Berth"),
    Bad("environment", {"HOME": "/"}, "is set by Berth"),
    Bad("environment", {"NVIDIA_VISIBLE_DEVICES": "all"}, "is set by Berth"),
    Bad("environment", {"A": None}, "must be text"),
    Bad("environment", {"A": "x\0"}, NUL),
    Bad("environment", {"A": "\ud800"}, HALF),
    Bad("environment", {"A": "x" * 33 * 1024}, "may have 32 KiB"),
    Bad("environment", {f"A{number}": "x" for number in range(101)}, "at most 100 variables"),
    Bad("mounts", {"folder": "data"}, "Give a list of at most 32 folders"),
    Bad("mounts", "data", "Give a list of at most 32 folders"),
    Bad("mounts", [{"folder": "d"}] * 33, "Give a list of at most 32 folders"),
    Bad("mounts.0.folder", "", "Each entry needs a folder"),
    Bad("mounts.0.folder", None, "Each entry needs a folder"),
    Bad("mounts.0.folder", 7, "Give text, not 7"),
    Bad("mounts.0.folder", "a\0", NUL),
    Bad("mounts.0.readonly", "yes", "Give true or false"),
    Bad("mounts.0.pth", "/home/work/a", "Did you mean “path”?"),
    *(
        Bad("mounts.0.path", path, BELOW_HOME)
        for path in (
            "/etc", "/", "/home/work", "/home/work/", "/home/work/../x", "/home/work/a/../../../etc", "/home/workshop",
            "/home/work/a//b", "/home/work/./a", "/home/work/a/", "home/work/a", "../x", "/proc", "/home",
        )
    ),
    Bad("mounts.0.path", "/home/work/" + "x" * 300, "At most 255 characters"),
    Bad("mounts.0.path", "/home/work/" + "é" * 200, "at most 255 bytes"),
    Bad("mounts.0.path", "/home/work/a\tb", UNSEEN),
    Bad("mounts.0.path", 7, "Give text, not 7"),
    Bad("mounts", [{"folder": "a", "path": "/home/work/a"}, {"folder": "b", "path": "/home/work/a"}], SHARED_PLACE),
    Bad("mounts", [{"folder": "a", "path": "/home/work/a"}, {"folder": "b", "path": "/home/work/a/b"}], SHARED_PLACE),
    Bad("mounts", [{"folder": "a", "path": "/home/work/a/b"}, {"folder": "b", "path": "/home/work/a"}], SHARED_PLACE),
    Bad("command", "ls", "Only a batch session runs a command"),
    Bad("command", "a\0b", NUL),
    Bad("command", "x" * 2**17, "at most 64 KiB"),
    Bad("command", ["ls"], "Give text, not a list"),
    Bad("command", "\ud800", HALF),
    *(
        Bad("timeout_s", limit, "Give whole seconds from 1 to 2592000")
        for limit in (0, -1, 1.5, "soon", "1.5", "١", "9" * 5000, 10**40, True, [1])
    ),
    *(
        Bad("priority", priority, "Give a whole number from -100 to 100")
        for priority in (101, -101, 1.5, "high", "1.5", "--1", "١", 10**40, True, [1], {})
    ),
    *(Bad("start_at", at, "Write it with its time zone") for at in ("soon", 7, "2027-01-31T08:00", "9999-12-31T23:59-14:00")),
    *(Bad("pending_timeout_s", span, "Give whole seconds from 1") for span in (0, -1, "soon", True, 10**40)),
    *(Bad("max_retries", count, "Give a whole number from 0 to 10") for count in (-1, 11, 1.5, "many", True, 10**40)),
    Bad("max_retries", 1, "Only a batch session is tried again"),
    Bad("requeues", True, "Only a batch session is tried again"),
    Bad("requeues", "yes", "neither true nor false"),
    Bad("designated_agent", 7, "Give text, not 7"),
    Bad("device_model", 7, "Give text, not 7"),
    Bad("device_model", "NVIDIA H100", "It asks for no accelerator"),
    *(Bad("resources.cuda", amount, "is not an amount of cuda") for amount in (-1, "NaN")),
    Bad("resources.cuda", 1.5, "Devices are given whole, or one in part"),
    *(Bad("resources.cuda.mem", amount, "is not an amount of memory") for amount in (-1, "NaN", "20x", None)),
    Bad("resources.cuda.mem", 0, "Ask for at least 1 MiB"),
    *(Bad("resources.cuda.cores", percent, "Write whole percent from 1 to 100") for percent in (0, 101, -1, 1.5, "NaN", "half", True, None)),
    Bad("resources.cpu.mem", "1g", "is not the name of a resource"),
    *(Bad("resources.mig", profile, "is not a MIG profile. Write it like 1g.10gb") for profile in ("all", "", "../x", {"x": 1})),
    *(Bad("resources.mig", profile, "Name a MIG profile") for profile in (1, ["1g.10gb"], {}, True)),
    Bad("resources.mig-1g-10gb", 0.5, "A MIG slice is given whole"),
    Bad("resources.mig-1g-10gb.mem", "1g", "A MIG slice is given whole"),
    Bad("resources.gaudi", 3, "linked in sets: ask for 1, 2, 4, 8 of them"),
    Bad("resources.rocm", 1, "accelerators of one kind: cuda or rocm", beside={"cuda": 1}),
    Bad("resources.mig-1g-10gb", 1, "accelerators of one kind: cuda or mig-1g-10gb", beside={"cuda": 0.5}),
    Bad("resources.cuda", 1, "Say the part of cuda once", beside={"cuda.mem": "1g"}),
    *(Bad("device_mem", amount, "is not an amount of memory") for amount in (-1, "NaN", "much", True)),
    *(Bad("device_api", version, "is no version") for version in (12.4, "new", "12.4.1", "1e3", True)),
    *(Bad("isolation", level, "is no level of isolation") for level in ("iron", "DRIVER", 7, ["driver"])),
    Bad("linked_devices", "yes", "neither true nor false"),
    *(Bad(name, value, "It asks for no accelerator") for name, value in (
        ("device_mem", "40g"), ("device_api", "12.4"), ("linked_devices", True), ("isolation", "driver"),
    )),
    *(Bad("placement_rule", rule, "is no rule of a placement group") for rule in ("near", "SPREAD", 7, True, ["spread"], {"a": 1})),
    Bad("placement_rule", "spread", "Name the placement group"),
    *(Bad("placement_group", name, "cannot be a name") for name in ("a b", "-a", "x" * 65, "a/b", 7, ["web"])),
    Bad("placement_group", "web", "Choose how it is placed"),
    Bad("may_run_elsewhere", "yes", "neither true nor false"),
    Bad("may_run_elsewhere", True, "no machine is named"),
    Bad("dependencies", "prepare", "Give a list of at most 32 sessions"),
    *(
        Bad("callback_url", url, "no address that can be called")
        for url in ("ftp://a.example/", "//a.example", "a.example", "http://", "http://a:99999/", "http://[::1/", "http://a:0/")
    ),
    Bad("callback_url", "https://me:secret@a.example/", "may name nobody"),
    Bad("callback_url", "https://a.example/#x", "Leave out the #"),
    Bad("callback_url", "https://a.example/ä", "beyond ASCII"),
    Bad("callback_url", "https://a.example/a b", "beyond ASCII"),
    Bad("callback_url", "https://a.example/\r\nHost: b", UNSEEN),
    Bad("callback_url", "https://a.example/" + "x" * 2000, "At most 2,000 characters"),
    Bad("callback_url", 7, "Give text, not 7"),
    Bad("resource_gruop", "gpu", "Did you mean “resource_group”?"),
    Bad("a\u202eb", 1, "There is no such field"),
)  # fmt: skip

# Well-formed values of objects that do not exist, or amounts that are too large.
UNMET = (
    Bad("project", "absent", "There is no project “absent” among yours", "not_found", 404),
    Bad("project", "../x", "There is no project “../x” among yours", "not_found", 404),
    Bad("project", "🚢", "There is no project “🚢” among yours", "not_found", 404),
    Bad("image", "berth/absent:1", "There is no image “berth/absent:1”", "not_found", 404),
    Bad("image", "not an image", "There is no image “not an image”", "not_found", 404),
    Bad("image", "9" * 200, "There is no image", "not_found", 404),
    Bad("resource_group", "absent", "There is no resource group “absent”", "not_found", 404),
    Bad("designated_agent", "absent", "has no machine “absent”", "not_found", 404),
    Bad("mounts.0.folder", "absent", "There is no folder “absent” among yours", "not_found", 404),
    Bad(
        "mounts.0.folder", "00000000-0000-4000-8000-000000000000", "There is no such folder", "not_found", 404
    ),
    *(Bad("project", name, "There is no project", "not_found", 404) for name in SHELL),
    Bad("resources.cpu", 9, "The largest that fits is 8 cores", "limit_exceeded", 422),
    Bad("resources.cpu", 1e9, "The largest that fits is 8 cores", "limit_exceeded", 422),
    Bad("resources.mem", "99t", "The largest that fits is 8 cores", "limit_exceeded", 422),
    Bad("resources.cuda", 1, "The largest that fits is 8 cores", "limit_exceeded", 422),
    Bad("resources.cuda", 0.5, "The largest that fits is 8 cores", "limit_exceeded", 422),
    Bad("resources.cuda.mem", "20g", "No accelerator in", "limit_exceeded", 422),
    Bad("resources.mig-1g-10gb", 1, "has slices MIG 1g.10gb", "limit_exceeded", 422),
)

# (body, part of the sentence, status): bodies that are no session request at all.
BODIES: Mapping[str, tuple[bytes, str, int]] = {
    "nothing": (b"", "name", 400),
    "half of an object": (b'{"name": ', "The body is not JSON", 400),
    "a list": (b"[]", "is an object of fields", 400),
    "null": (b"null", "is an object of fields", 400),
    "a number": (b"1", "is an object of fields", 400),
    "a text": (b'"a"', "is an object of fields", 400),
    "deep nesting": (b"[" * 50_000, "nested too deeply", 400),
    "deep nesting that ends": (b'{"name":' * 5_000 + b"1" + b"}" * 5_000, "nested too deeply", 400),
    "a name twice": (b'{"name": "a", "name": "b"}', "“name” is there twice", 400),
    "a name twice inside": (b'{"resources": {"cpu": 1, "cpu": 2}}', "“cpu” is there twice", 400),
    "no UTF-8": (b'{"name": "\xff"}', "The body is not UTF-8", 400),
    "UTF-16": ('{"name": "a"}'.encode("utf-16"), "The body is not UTF-8", 400),
    "a byte order mark": (b'\xef\xbb\xbf{"name": "a"}', "The body is not JSON", 400),
    "NaN": (b'{"resources": {"cpu": NaN}}', "NaN is not a number of JSON", 400),
    "Infinity": (b'{"resources": {"cpu": -Infinity}}', "-Infinity is not a number of JSON", 400),
    "a number of 5000 digits": (b'{"timeout_s": ' + b"9" * 5000 + b"}", "A number has too many digits", 400),
    "a huge exponent": (b'{"resources": {"cpu": 1e999999999}}', "is not a number of JSON", 400),
    "half of a surrogate pair": (b'{"name": "\\ud800"}', HALF, 400),
    "half of a surrogate pair as a name": (b'{"\\ud800": 1}', HALF, 400),
    "four megabytes": (b'"' + b"x" * 2**22 + b'"', "The body is larger than 2 MiB", 413),
}
