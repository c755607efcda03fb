"""Input of REST: serializers, text fields, query parameters and filters."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_filters import rest_framework as filters
from rest_framework import serializers

from common.errors import InvalidInput
from common.values.text import check_text, check_unicode, normalised, quoted, shown, unknown_field

DEFAULT_TEXT_LENGTH = 255


def asked_once(request: Any, name: str, usual: str = "") -> str:
    """Return the value of `name` in the query string, normalised; `usual` if nothing. Raises InvalidInput if it says it twice."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        sentence = _("“{name}” is there {count} times. Say which one you mean.").format(
            name=name, count=len(values)
        )
        raise InvalidInput(sentence, fields={name: [sentence]})
    return normalised(str(values[0])) if values else usual


def asked_value(request: Any, name: str) -> str | None:
    """The same of what no empty text can be; None if it says nothing. Raises InvalidInput for an empty one too."""
    if name not in request.query_params:
        return None
    if asked := asked_once(request, name):
        return asked
    sentence = _("“{name}” is empty. Give a value, or leave it out.").format(name=name)
    raise InvalidInput(sentence, fields={name: [sentence]})


class FilterBackend(filters.DjangoFilterBackend):
    """Refuses what django-filter would let pass: a filter that is there twice, of which it would take the last, and one without
    a value, or a switch that is neither on nor off, which it would leave out, so that all is listed. Every text has the
    empty one in it: that lists all by right. What is asked for is normalised, as what is kept is."""

    def get_filterset_kwargs(self, request: Any, queryset: Any, view: Any) -> Any:
        asked = request.query_params.copy()
        for name, values in list(asked.lists()):
            asked.setlist(name, [normalised(value) for value in values])
        return {**super().get_filterset_kwargs(request, queryset, view), "data": asked}

    def get_filterset(self, request: Any, queryset: Any, view: Any) -> Any:
        filterset = super().get_filterset(request, queryset, view)
        for name, each in filterset.filters.items() if filterset else ():
            _check_filter(request, name, each)
        return filterset


def _check_filter(request: Any, name: str, kind: filters.Filter) -> None:
    """Raises InvalidInput for what the backend refuses."""
    match kind:
        case filters.MultipleChoiceFilter():
            pass  # as often as one likes, and no choice is empty
        case filters.BooleanFilter():
            is_wanted(request, name)
        case filters.CharFilter():
            asked_once(request, name)
        case _:
            asked_value(request, name)


class InputSerializer(serializers.Serializer[Any]):
    """Base of request bodies: a field that nobody knows is refused, so that a slip in its name is seen."""

    default_error_messages = {"invalid": gettext_lazy("Give an object of fields.")}  # noqa: RUF012  the form that DRF wants

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [name for name in list(data)[:100] if name not in self.fields]
            if unknown:
                raise serializers.ValidationError(
                    {shown(name): [unknown_field(name, self.fields)] for name in unknown}
                )
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """Text that can be stored, shown and logged. `check`, where given, takes its place: a function of the room, which
    raises ValueError with the sentence that pages show too."""

    default_error_messages = {  # noqa: RUF012
        "required": gettext_lazy("Say something here."),
        "null": gettext_lazy("Give text, not null."),
        "blank": gettext_lazy("Say something here."),
    }

    def __init__(
        self, *, max_length: int | None = None, check: Callable[[str], str] | None = None, **options: Any
    ) -> None:
        super().__init__(trim_whitespace=False, max_length=max_length, **options)
        self._check = check or partial(check_text, max_length=max_length or DEFAULT_TEXT_LENGTH)

    def to_internal_value(self, data: Any) -> str:
        try:
            return self._check(check_unicode(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


def is_wanted(request: Any, name: str) -> bool:
    """A switch in the query string: 1 or true, 0 or false; absent is off. Raises InvalidInput."""
    if name not in request.query_params:
        return False
    given = asked_once(request, name).lower()
    if given not in {"0", "1", "false", "true"}:
        sentence = _("{value} is neither true nor false.").format(value=quoted(given))
        raise InvalidInput(sentence, fields={name: [sentence]})
    return given in {"1", "true"}
