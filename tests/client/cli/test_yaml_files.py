"""YAML and JSON files in the form that the REST API takes."""

from pathlib import Path
from typing import Any

import pytest

from berth.cli.yaml_files import read_object
from berth.errors import InvalidInput

FORMS = {
    "YAML": "environment:\n  {field}",
    "a line of YAML": "environment: {{{field}}}",
    "YAML that is merged in": "<<: {{environment: {{{field}}}}}",
    "YAML that begins like JSON": "{{environment: {{{field}}}}}",
}
JSON_FORMS = {
    "JSON": '{{"environment": {{{field}}}}}',
    "JSON with tabs": '{{\n\t"environment": {{\n\t\t{field}\n\t}}\n}}',
}


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "request"
    file.write_text(text, encoding="utf-8")
    return read_object(str(file))


@pytest.mark.parametrize("form", [*FORMS, *JSON_FORMS])
@pytest.mark.parametrize("written", ["1", "1.10", "1e3", "true", "false"])
def test_a_variable_is_the_text_that_is_written(form: str, written: str, tmp_path: Path) -> None:
    text = (FORMS | JSON_FORMS)[form].format(field=f'"readonly": {written}')
    assert read(tmp_path, text) == {"environment": {"readonly": written}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("written", ["yes", "off", "True", "+5", ".5", "0777"])
def test_a_variable_is_no_switch(form: str, written: str, tmp_path: Path) -> None:
    text = FORMS[form].format(field=f"readonly: {written}")
    assert read(tmp_path, text) == {"environment": {"readonly": written}}


@pytest.mark.parametrize("form", ["a: {0}", "{{a: {0}}}", '{{"a": {0}}}', '{{\n\t"a": {0}}}'])
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5", 5),
        ("-0.5", -0.5),
        ("9" * 30, 10**30 - 1),
        ("1e3", 1000.0),
        ("1.5e3", 1500.0),
        ("1E-3", 0.001),
        ("1e+3", 1000.0),
        ("null", None),
        ("true", True),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\u00e9"', "é"),
    ],
)
def test_what_json_writes_means_the_same_everywhere(
    form: str, written: str, value: object, tmp_path: Path
) -> None:
    found = read(tmp_path, form.format(written))
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("+5", 5),
        (".5", 0.5),
        ("5.", 5.0),
        ("~", None),
        ("True", True),
        ("1e", "1e"),
        ("e3", "e3"),
        ("01", "01"),
        ("1_000", "1_000"),
        ("yes", "yes"),
        (".", "."),
    ],
)
def test_few_spellings_of_yaml_are_values_and_the_others_text(
    written: str, value: object, tmp_path: Path
) -> None:
    assert read(tmp_path, f"a: {written}") == {"a": value}


@pytest.mark.parametrize("depth", [60, 3000])
def test_json_that_is_nested_too_deeply_is_refused(depth: int, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nested"):
        read(tmp_path, '{"a": ' + "[" * depth + "]" * depth + "}")


def test_a_number_of_json_that_is_too_large_is_refused(tmp_path: Path) -> None:
    for text in ('{"a": 1e999}', '{\n\t"a": 1e999}'):
        with pytest.raises(InvalidInput):
            read(tmp_path, text)


def test_a_whole_number_of_json_may_have_more_digits_than_a_float(tmp_path: Path) -> None:
    assert read(tmp_path, f'{{"a": 1{"0" * 400}}}') == {"a": 10**400}
