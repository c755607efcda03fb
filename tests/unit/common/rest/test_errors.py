"""Errors have a code, a status and a message, and one shape in REST."""

import pytest
from django.http import Http404
from rest_framework import exceptions

from common.errors import BerthError, InvalidInput, NotFound
from common.rest.errors import render_error


@pytest.mark.parametrize("kind", BerthError.__subclasses__())
def test_each_refusal_has_a_code_and_a_status_of_its_own(kind: type[BerthError]) -> None:
    others = [other for other in BerthError.__subclasses__() if other is not kind]
    assert 400 <= kind.http_status < 600
    assert kind.default_code not in {other.default_code for other in others}
    assert kind("Why.", hint="What to do.").hint == "What to do."


def test_a_refusal_is_rendered_with_code_message_hint_and_fields() -> None:
    response = render_error(
        InvalidInput("No.", hint="Yes.", fields={"name": ["Empty."]}, code="name_empty"), {}
    )
    assert response is not None
    assert response.status_code == 400
    assert response.data == {
        "code": "name_empty",
        "message": "No.",
        "hint": "Yes.",
        "fields": {"name": ["Empty."]},
    }


def test_an_object_that_is_absent_looks_the_same_from_django_and_from_berth() -> None:
    django, ours = render_error(Http404(), {}), render_error(NotFound("x"), {})
    assert django is not None
    assert ours is not None
    assert (django.status_code, django.data["code"]) == (ours.status_code, ours.data["code"])


def test_wrong_fields_are_named_by_their_path() -> None:
    detail = {"resources": {"cpu": ["Wrong."]}, "mounts": [{}, {"folder": ["Missing."]}]}
    response = render_error(exceptions.ValidationError(detail), {})
    assert response is not None
    assert response.data["fields"] == {"resources.cpu": ["Wrong."], "mounts[1].folder": ["Missing."]}
    assert response.data["message"] == "resources.cpu: Wrong."


def test_a_mistake_of_ours_is_not_rendered_as_a_refusal() -> None:
    assert render_error(KeyError("x"), {}) is None
