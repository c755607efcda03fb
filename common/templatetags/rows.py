"""Template tags for table rows: `{% load rows %}`."""

from collections.abc import Hashable

from django import template
from django.template.base import Parser, Token
from django.utils.safestring import SafeString

from common.pages.render_cache import render_cached

register = template.Library()


@register.simple_tag
def draw(template_name: str, **variables: Hashable) -> SafeString:
    """Render a template like `{% include … only %}`, cached by its variables
    (common.pages.render_cache): `{% draw "agents/_row.html" row=row cells=columns.cells %}`
    """
    return render_cached(template_name, **variables)


@register.tag
def cell(parser: Parser, token: Token) -> "CellNode":
    """Parse `{% cell "owner" %}…{% endcell %}`: the cell of a column,
    with the class and label of its header; empty if the column is hidden.
    Reads the variable `cells` (common.pages.tables.Head).
    """
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
