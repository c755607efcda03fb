"""Display of durations, amounts and states."""

import pytest
from django.template import Context, Template

from agents.core.states import AgentState
from common.pages.status_styles import Tone, status_style
from common.templatetags import berth
from common.values.durations import format_ago, format_duration
from sessions_app.core.states import Status


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.9, "<1 s"),
        (45, "45 s"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (11100, "3 h 5 min"),
        (172800, "2 d"),
    ],
)
def test_durations_name_their_two_largest_units(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(2, "just now"), (45, "45 s ago"), (3700, "1 h ago")])
def test_ages_name_their_largest_unit(seconds: float, words: str) -> None:
    assert format_ago(seconds) == words


@pytest.mark.parametrize("state", [*Status, *AgentState])
def test_every_state_has_a_look_of_its_own(state: str) -> None:
    assert status_style(state).icon != "circle-dashed"
    assert status_style(state).icon in berth.icon_names()


def test_an_unknown_state_reads_as_it_is() -> None:
    assert status_style("on_fire").label == "On fire"
    assert status_style("on_fire").tone is Tone.QUIET


def test_a_meter_shows_how_much_is_used_and_how_much_is_mine() -> None:
    shown = berth.meter("CPU", used=6000, limit=16000, slot="cpu", own=2000)

    assert "6 of 16\N{NO-BREAK SPACE}cores, 2\N{NO-BREAK SPACE}cores yours" in shown
    assert 'aria-label="CPU: 38 % used"' in shown
    assert '<rect class="meter-own" width="12%">' in shown


@pytest.mark.parametrize(
    ("used", "tone"), [(10, Tone.BUSY), (85, Tone.WARN), (100, Tone.BAD), (120, Tone.BAD)]
)
def test_a_meter_warns_before_it_is_full(used: int, tone: Tone) -> None:
    assert f"meter {tone}" in berth.meter("Memory", used=used, limit=100)


def test_a_meter_without_limit_is_never_full() -> None:
    shown = berth.meter("Memory", used=2**40, limit=None)

    assert f"meter {Tone.BUSY}" in shown
    assert " of " not in shown


def test_an_image_may_bring_the_name_of_any_icon() -> None:
    assert "#brand-python" in berth.icon("python")
    assert "#box" in berth.icon('"><script>')


def test_what_is_typed_to_confirm_is_matched_as_it_is() -> None:
    assert berth.as_pattern("a.b-c(d)") == r"a\.b-c\(d\)"


def test_the_title_of_a_page_is_also_the_text_of_its_tab() -> None:
    base = Template(
        "{% load berth %}<title>{% repeat_block 'title' %}</title><h1>{% block title %}{% endblock %}</h1>"
    )
    page = Template("{% extends base %}{% block title %}{{ name }}{% endblock %}")

    assert page.render(Context({"base": base, "name": "a<b"})) == "<title>a&lt;b</title><h1>a&lt;b</h1>"


def test_a_count_is_said_with_separators_and_still_counts() -> None:
    page = Template(
        "{% load berth i18n %}{{ n|number }} {% blocktranslate count counter=n|number %}{{ counter }} row"
        "{% plural %}{{ counter }} rows{% endblocktranslate %}"
    )

    assert page.render(Context({"n": 12800})) == "12,800 12,800 rows"
    assert page.render(Context({"n": 1})) == "1 1 row"
