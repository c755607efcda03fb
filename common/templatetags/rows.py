"""Rows of lists: `{% load rows %}`."""

from collections.abc import Hashable

from django import template
from django.template.base import Parser, Token
from django.utils.safestring import SafeString

from common.pages.render_cache import drawn

register = template.Library()


@register.simple_tag
def draw(template_name: str, **variables: Hashable) -> SafeString:
    """`{% draw "agents/_row.html" row=row cells=columns.cells %}`: like `{% include … only %}`, but what looks the same is
    drawn once (common.pages.render_cache)."""
    return drawn(template_name, **variables)


@register.tag
def cell(parser: Parser, token: Token) -> "CellNode":
    """`{% cell "owner" %}…{% endcell %}`: the cell of a column, with the class and the label of its head; nothing where that
    column is not shown. Asks the variable `cells` (common.pages.tables.Head)."""
    column = token.split_contents()[1].strip("\"'")
    inside = parser.parse(("endcell",))
    parser.delete_first_token()
    return CellNode(column, inside)


class CellNode(template.Node):
    def __init__(self, column: str, inside: template.NodeList) -> None:
        self.column = column
        self.nodelist = inside

    def render(self, context: template.Context) -> SafeString:
        for name, opening in context["cells"]:
            if name == self.column:
                return SafeString(f"{opening}{self.nodelist.render(context)}</td>")
        return SafeString("")
