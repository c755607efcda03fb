"""REST input: serializers, text fields, query parameters and filters."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.request import Request

from common.errors import InvalidInput
from common.values.text import check_text, check_unicode, normalised, quoted, shown, unknown_field

DEFAULT_TEXT_LENGTH = 255


def query_value(request: Any, name: str, usual: str = "") -> str:
    """Return the value of `name` in the query, or `usual`. Raises InvalidInput if repeated."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        sentence = _("“{name}” is there {count} times. Say which one you mean.").format(
            name=name, count=len(values)
        )
        raise InvalidInput(sentence, fields={name: [sentence]})
    return normalised(str(values[0])) if values else usual


def nonempty_query_value(request: Any, name: str) -> str | None:
    """Return the value of `name` in the query, or None. Raises InvalidInput: empty, repeated."""
    if name not in request.query_params:
        return None
    if asked := query_value(request, name):
        return asked
    sentence = _("“{name}” is empty. Give a value, or leave it out.").format(name=name)
    raise InvalidInput(sentence, fields={name: [sentence]})


class FilterBackend(filters.DjangoFilterBackend):
    """Filter backend that refuses what django-filter would ignore: a repeated filter, an empty
    value, or an invalid switch, all of which would list too much. An empty text filter stays valid:
    every text contains it. Values are normalised like stored ones.
    """

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
    """Raise InvalidInput for a value that the backend refuses."""
    match kind:
        case filters.MultipleChoiceFilter():
            pass  # may repeat, and has no empty choice
        case filters.BooleanFilter():
            query_flag(request, name)
        case filters.CharFilter():
            query_value(request, name)
        case _:
            nonempty_query_value(request, name)


class InputSerializer(serializers.Serializer[Any]):
    """Request body; unknown fields are refused, so that typing errors are noticed."""

    default_error_messages = {"invalid": gettext_lazy("Give an object of fields.")}  # noqa: RUF012  the form that DRF wants

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for each in fields.values():
            _name_choices(getattr(each, "child", each))
        return fields

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [name for name in list(data)[:100] if name not in self.fields]
            if unknown:
                raise serializers.ValidationError(
                    {shown(name): [unknown_field(name, self.fields)] for name in unknown}
                )
        return super().to_internal_value(data)

    @classmethod
    def parse(cls, request: Request) -> dict[str, Any]:
        """Return the validated fields of the request's body. Raises ValidationError."""
        body = cls(data=request.data)
        body.is_valid(raise_exception=True)
        return dict(body.validated_data)


def _name_choices(field: serializers.Field[Any, Any, Any, Any]) -> None:
    """Have a wrong choice answered with those that there are."""
    if isinstance(field, serializers.ChoiceField):
        known = ", ".join(map(str, field.choices))
        sentence = _("{value} is none of these: {known}.")
        field.error_messages["invalid_choice"] = sentence.format(value="“{input}”", known=known)


class TextField(serializers.CharField):
    """Text that can be stored, shown and logged. `check` replaces the default check: a function
    that raises ValueError with the message that pages show too.
    """

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


def query_flag(request: Any, name: str) -> bool:
    """Return a switch of the query (1, true, 0, false); absent is False. Raises InvalidInput."""
    if name not in request.query_params:
        return False
    switch = query_value(request, name).lower()
    if switch not in {"0", "1", "false", "true"}:
        sentence = _("{value} is neither true nor false.").format(value=quoted(switch))
        raise InvalidInput(sentence, fields={name: [sentence]})
    return switch in {"1", "true"}
