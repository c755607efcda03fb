"""Pagination of REST lists."""

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.pagination import PageNumberPagination

from common.errors import InvalidInput, NotFound
from common.rest.input import query_value
from common.values.text import quoted

DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 50, 200


class SizedPagination:
    """Mixin of paginations for ?page_size=100: default 50, at most 200; refuses invalid sizes."""

    page_size: int | None = DEFAULT_PAGE_SIZE
    page_size_query_param: str | None = "page_size"
    max_page_size: int | None = MAX_PAGE_SIZE

    def get_page_size(self, request: Any) -> int:
        name = "page_size"
        value = query_value(request, name, usual=str(DEFAULT_PAGE_SIZE))
        if not value.isascii() or not value.isdecimal() or not value.strip("0"):
            sentence = _("{value} is no size of a page. Give a number from 1 to {most}.").format(
                value=quoted(value), most=MAX_PAGE_SIZE
            )
            raise InvalidInput(sentence, fields={name: [sentence]})
        is_huge = len(value) > len(str(MAX_PAGE_SIZE))
        return MAX_PAGE_SIZE if is_huge else min(int(value), MAX_PAGE_SIZE)


class StandardPagination(SizedPagination, PageNumberPagination):
    """Pagination by ?page=2&page_size=100; at most 200 per page."""

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        try:
            value = query_value(request, self.page_query_param)
            if not value and self.page_query_param in request.query_params:  # Django would use the first page
                raise exceptions.NotFound
            return super().paginate_queryset(queryset, request, view)
        except exceptions.NotFound as error:
            raise NotFound(
                _("There is no page {page} in this list.").format(page=quoted(value)),
                hint=_("Pages are numbered from 1."),
            ) from error
