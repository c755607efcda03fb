"""Image labels are untrusted: invalid ones are left out and named, and none raises."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.core.labels import MAX_APPS, MAX_APPS_TEXT, AppHint, parse_apps, read_hints
from portal.ops.engine.image_recipe import RECIPE, read_recipe

APP = {"name": "lab", "title": "Lab", "port": 8888, "command": ["lab", "--token={token}"], "autostart": True}


def apps_label(*entries: object) -> str:
    return json.dumps(list(entries))


def test_our_own_image_declares_jupyterlab_and_tensorboard() -> None:
    hints = read_hints(read_recipe(RECIPE).labels)

    assert hints.problems == ()
    assert hints.is_session_image
    assert hints.bears_readonly_root
    assert [(app.name, app.port, app.autostart) for app in hints.apps] == [
        ("jupyter", 8888, True),
        ("tensorboard", 6006, False),
    ]
    assert any("{token}" in word for word in hints.apps[0].command)
    assert hints.min_slots.to_json() == {"cpu": 100, "mem": 256 * 2**20}


def test_an_app_is_read_whole() -> None:
    assert parse_apps(apps_label(APP)) == (
        AppHint("lab", "Lab", 8888, ("lab", "--token={token}"), autostart=True, health="/"),
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "a" * 21}, "name"),
        ({"name": "-lab"}, "name"),
        ({"name": "Lab"}, "name"),
        ({"name": "lab\n"}, "name"),
        ({"name": None}, "name"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": "8888"}, "port"),
        ({"port": True}, "port"),
        ({"title": "x" * 61}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"health": "//evil.example"}, "health"),
        ({"health": "http://evil.example"}, "health"),
        ({"autostart": "yes"}, "autostart"),
        ({"command": "lab"}, "command"),
        ({"command": ["a"] * 65}, "command"),
        ({"command": ["a\0b"]}, "command"),
        ({"command": [1]}, "command"),
    ],
)
def test_one_bad_value_refuses_the_list(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_apps(apps_label({**APP, **change}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[1]",
        apps_label(APP, APP),
        apps_label(APP, {**APP, "name": "other"}),
        apps_label(*({"name": f"a{n}", "port": n + 1} for n in range(MAX_APPS + 1))),
        " " * MAX_APPS_TEXT + "[]",
        "[" * 10_000,
    ],
)
def test_a_bad_list_is_left_out_and_named(text: str) -> None:
    hints = read_hints({"io.berth.apps": text})

    assert hints.apps == ()
    assert hints.problems[0].startswith("io.berth.apps: ")


def test_an_image_without_labels_is_an_image() -> None:
    hints = read_hints({})

    assert (hints.title, hints.apps, hints.problems, hints.is_session_image) == ("", (), (), False)
    assert not hints.bears_readonly_root
    assert hints.min_slots.to_json() == {}


def test_labels_of_the_other_convention_give_ports_and_amounts() -> None:
    hints = read_hints(
        {
            "ai.backend.service-ports": "ipython:pty:3000,jupyter:http:8081,jupyterlab:http:8090,tb:preopen:6006",
            "ai.backend.resource.min.cpu": "1",
            "ai.backend.resource.min.mem": "256m",
            "ai.backend.resource.min.cuda.device": "0",
        }
    )

    assert [(app.name, app.port, app.command) for app in hints.apps] == [
        ("jupyter", 8081, ()),
        ("jupyterlab", 8090, ()),
        ("tb", 6006, ()),
    ]
    assert hints.min_slots.to_json() == {"cpu": 1000, "mem": 256 * 2**20}


def test_a_bad_amount_is_left_out_and_named() -> None:
    hints = read_hints({"io.berth.min.mem": "lots"})

    assert hints.min_slots.to_json() == {}
    assert "lots" in hints.problems[0]


@pytest.mark.parametrize(
    ("labels", "needs", "expected"),
    [
        ({}, "", ((), 0)),
        (
            {"io.berth.accelerators": "rocm, cuda,", "io.berth.min-cuda": "12.4"},
            "",
            (("cuda", "rocm"), 12040),
        ),
        ({"ai.backend.accelerators": "cuda"}, "", (("cuda",), 0)),
        ({}, "cuda>=12.4 brand=tesla,driver>=470,driver<471", ((), 12040)),
        ({"io.berth.min-cuda": "11"}, "cuda>=12.4", ((), 11000)),
        ({"io.berth.min-cuda": "12.4.1"}, "", ((), 12040)),
        ({}, "brand=tesla", ((), 0)),
    ],
)
def test_an_image_says_what_accelerators_it_needs(labels, needs, expected) -> None:
    hints = read_hints(labels, {"NVIDIA_REQUIRE_CUDA": needs})
    assert (hints.accelerators, hints.min_cuda) == expected
    assert not hints.problems


def test_bad_needs_are_left_out_and_named() -> None:
    hints = read_hints({"io.berth.accelerators": "../x", "io.berth.min-cuda": "new"}, {})
    assert (hints.accelerators, hints.min_cuda, len(hints.problems)) == ((), 0, 2)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=30)
    | st.sampled_from(["name", "port", "lab"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "port", "title", "command", "health", "autostart"]), inner)
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "io.berth.apps",
                "io.berth.title",
                "io.berth.icon",
                "io.berth.min.mem",
                "ai.backend.service-ports",
            ]
        ),
        st.text(max_size=200) | json_values.map(json.dumps),
    )
)
def test_no_label_raises_and_what_comes_out_keeps_the_limits(labels: dict[str, str]) -> None:
    hints = read_hints(labels)

    assert all(1 <= app.port <= 65535 and 1 <= len(app.name) <= 20 for app in hints.apps)
    assert len(hints.apps) <= MAX_APPS
    assert parse_apps(json.dumps([app.to_json() for app in hints.apps])) == hints.apps


def test_a_changed_file_of_a_recipe_is_another_image(tmp_path: Path) -> None:
    for name, content in read_recipe(RECIPE).files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert read_recipe(tmp_path).reference == read_recipe(RECIPE).reference

    with (tmp_path / "install.sh").open("a") as script:
        script.write("# more\n")
    assert read_recipe(tmp_path).reference != read_recipe(RECIPE).reference


def test_a_service_port_that_is_no_app_is_left_out() -> None:
    hints = read_hints(
        {"ai.backend.service-ports": "-bad-:http:8080,web:http:8080,same:http:8080,big:http:70000"}
    )
    assert [app.name for app in hints.apps] == ["web"]
