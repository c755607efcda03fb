"""Text for users is marked for translation in templates, Python and scripts."""

import ast
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.template.base import DebugLexer, TokenType

ROOT = Path(__file__).resolve().parents[4]
ROOMS = ("accounts", "agents", "common", "images", "portal", "scheduler", "sessions_app", "vfolders")
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static" / "src").glob("*.js"))
NOT_FOR_READERS = ("portal/ops/", "/migrations/", "/management/")

# {path: why what it says is not translated}
NOT_TRANSLATED = {
    "templates/styleguide.html": "samples for developers",
    "templates/allauth/elements/button.html": "its element has no fixed name, and its words are its caller's",
    "portal/web/style_samples.py": "samples for developers",
    "sessions_app/lifecycle/transitions.py": "a mistake of ours, for the log",
    "sessions_app/launch/launcher.py": "caught by the launch, which keeps a sentence of its own",
    "sessions_app/launch/directory_mounts.py": "caught by the launch, which keeps a sentence of its own",
    "sessions_app/launch/image_pull.py": "caught by the launch, which ends",
}
NAMES = frozenset(
    (
        *("Berth", "CPU", "CSV", "GiB", "JavaScript", "REST", "API", "YAML", "Python", "curl", "Swagger"),
        *("Esc", "Tab", "Ctrl", "Enter"),  # as they stand on keys
        *("Linux", "Windows", "macOS", "rclone"),
        *("CRLF", "LF"),  # line breaks of a file
        "datasets",  # a folder's name, as an example
    )
)
READ_ATTRIBUTES = frozenset(("alt", "aria-label", "data-label", "placeholder", "title"))
NOT_READ = frozenset(("code", "kbd", "script", "style"))
WORD = re.compile(r"[^\W\d_]{2,}")
TAG = "\ue000"  # stands for a tag of Django's

# In a tag of Django's: a literal that begins as a sentence or a label does.
LITERAL = re.compile(r"""(?<!_\()(?P<mark>["'])(?P<words>[A-Z][a-z][^"']*)(?P=mark)""")
OWN_WORDS = ("translate", "blocktranslate")
QUIET_BLOCKS = {"blocktranslate": "endblocktranslate", "comment": "endcomment", "verbatim": "endverbatim"}
BLOCK_IN_TAG = re.compile(r"block \w+_(attributes|class)\Z")


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


class _Reader(HTMLParser):
    """Collects the words of a page that stand in no tag of Django's."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._unread: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_READ:
            self._unread.append(tag)
        self.found += [
            value for name, value in attrs if name in READ_ATTRIBUTES and value and has_words(value)
        ]

    def handle_endtag(self, tag: str) -> None:
        if self._unread and self._unread[-1] == tag:
            self._unread.pop()

    def handle_data(self, data: str) -> None:
        if not self._unread and has_words(data):
            self.found.append(" ".join(data.replace(TAG, " ").split()))


def has_words(text: str) -> bool:
    return any(word not in NAMES for word in WORD.findall(text))


def unmarked_in_template(source: str) -> list[str]:
    """Texts, attributes and literals that nobody will translate."""
    page, quiet_until, literals = "", "", []
    for token in DebugLexer(source).tokenize():
        first = token.contents.split(None, 1)[0] if token.contents.strip() else ""
        if quiet_until:
            quiet_until = "" if first == quiet_until else quiet_until
        elif token.token_type is TokenType.TEXT:
            page += token.contents
        elif token.token_type is not TokenType.COMMENT:
            page += TAG
            is_in_tag = BLOCK_IN_TAG.match(token.contents)
            quiet_until = "endblock" if is_in_tag else QUIET_BLOCKS.get(first, "")
            if first not in OWN_WORDS:
                literals += [match["words"] for match in LITERAL.finditer(token.contents)]
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.found + [words for words in literals if has_words(words)]


def test_what_templates_say_is_marked() -> None:
    found = {place(path): unmarked_in_template(path.read_text()) for path in TEMPLATES}
    assert {path: texts for path, texts in found.items() if texts and path not in NOT_TRANSLATED} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<p>Hello</p>", ["Hello"]),
        ('<p>{% translate "Hello" %}, {{ name }}</p>', []),
        ("<p>{% blocktranslate %}Hello{% endblocktranslate %} you</p>", ["you"]),
        ('<a{% if x %} title="Open it"{% endif %} href="{{ y }}">{{ z }}</a>', ["Open it"]),
        ('{% include "a.html" with title="None yet" %}', ["None yet"]),
        ('{% include "a.html" with title=_("None yet") icon_name="box" %}', []),
        ("{{ title|default:'Log' }}<code>Not read</code> Berth", ["Log"]),
        ("{# Not read #}{% comment %}Nor this{% endcomment %}", []),
    ],
)
def test_the_reader_of_templates_sees_what_people_see(source: str, found: list[str]) -> None:
    assert unmarked_in_template(source) == found


MARKS = frozenset(
    ("_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy", "pgettext", "pgettext_lazy")
)
SENTENCE_ERRORS = frozenset(("ArchiveRefused", "UnfitPath", "UnsafePath", "ValidationError"))
READ_KEYWORDS = frozenset(("hint", "fields"))
# What the page of samples answers.
SAMPLES = frozenset(("'Taken back.'", "'Session “train” is stopped.'"))
FORM_KEYWORDS = frozenset(("help_text", "label"))


def refusals(trees: Iterable[ast.AST]) -> frozenset[str]:
    """Names of BerthError and of all that is made of it."""
    bases = {
        node.name: {getattr(base, "id", "") for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"BerthError"}
    while more := {name for name, own in bases.items() if own & found} - found:
        found |= more
    return frozenset(found)


def unmarked_in_python(
    tree: ast.AST, errors: frozenset[str], *, is_form: bool = False
) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each sentence that is read and not marked, or marked so that nobody can translate it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        read: list[ast.expr] = []
        if name in MARKS:
            if any(map(_is_put_together, node.args[: 2 if name.startswith("n") else 1])):
                yield node.lineno, "a sentence that is put together cannot be found in a catalogue"
        elif owner == "messages" or name == "offer_undo":
            read = node.args[1:2]
        elif name in errors:
            read = [*node.args[:1], *(each.value for each in node.keywords if each.arg in READ_KEYWORDS)]
        elif is_form:
            read = [each.value for each in node.keywords if each.arg in FORM_KEYWORDS]
        yield from ((each.lineno, ast.unparse(each)) for each in read if any(map(_is_bare, _said(each))))


def _is_put_together(value: ast.expr) -> bool:
    is_formatted = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "format"
    return is_formatted or isinstance(value, ast.JoinedStr | ast.BinOp)


def _said(value: ast.expr) -> Iterator[ast.expr]:
    """The expressions that may become the words: of conditions, lists and dictionaries each."""
    if isinstance(value, ast.IfExp):
        yield from (*_said(value.body), *_said(value.orelse))
    elif isinstance(value, ast.Dict | ast.List | ast.Tuple):
        for each in value.values if isinstance(value, ast.Dict) else value.elts:
            yield from _said(each)
    else:
        yield value


def _is_bare(value: ast.expr) -> bool:
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    texts = (part.value for part in parts if isinstance(part, ast.Constant))
    return any(isinstance(text, str) and has_words(text) for text in texts)


def sources() -> Iterator[Path]:
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        if place(path) not in NOT_TRANSLATED and not any(part in place(path) for part in NOT_FOR_READERS):
            yield path


def test_texts_in_python_are_marked() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sources()}
    errors = refusals(trees.values()) | SENTENCE_ERRORS
    found = [
        f"{place(path)}:{line}: {what}"
        for path, tree in trees.items()
        for line, what in unmarked_in_python(tree, errors, is_form=path.name == "forms.py")
    ]
    assert {"NotFound", "IllegalTransition", "StorageFull"} < errors
    assert [line for line in found if line.partition(": ")[2] not in SAMPLES] == []


@pytest.mark.parametrize(
    ("source", "is_right"),
    [
        ('NotFound(_("Gone."))', True),
        ('NotFound("Gone.")', False),
        ('NotFound(sentence, hint=f"Try {name}.")', False),
        ('NotFound(f"{a} {b}", fields={"name": [_("Gone.")]})', True),
        ('NotFound(sentence, fields={"name": ["Gone."]})', False),
        ('NotFound(_("Gone.") if x else "Never there.")', False),
        ('_(f"{name} is gone.")', False),
        ('_("{name} is gone.".format(name=name))', False),
        ('_("{name} is gone.").format(name=name)', True),
        ('messages.success(request, "Saved.")', False),
        ('messages.success(request, _("Saved."))', True),
        ('CharField(label="Name")', False),
        ('CharField(label=gettext_lazy("Name"))', True),
    ],
)
def test_the_reader_of_python_sees_what_people_see(source: str, is_right: bool) -> None:
    found = list(unmarked_in_python(ast.parse(source), frozenset({"NotFound"}), is_form=True))

    assert (found == []) == is_right


NOT_SAID = frozenset(("Inter Variable",))  # a font
COMMENT = re.compile(r"^\s*(//|/?\*).*$|\s// .*$", re.MULTILINE)
SAID_BY_SCRIPT = re.compile(r'(?<!gettext\()(?P<mark>["`])(?P<words>[A-Z][a-z]+[ …][^"`\n]*)(?P=mark)')


def test_what_scripts_say_is_marked() -> None:
    found = [
        f"{place(path)}: {match['words']}"
        for path in SCRIPTS
        for line in COMMENT.sub("", path.read_text()).splitlines()
        if "ngettext(" not in line
        for match in SAID_BY_SCRIPT.finditer(line)
        if match["words"] not in NOT_SAID
    ]
    assert found == []


def test_scripts_give_gettext_nothing_but_literals() -> None:
    texts = {place(path): COMMENT.sub("", path.read_text()) for path in SCRIPTS if path.name != "words.js"}
    assert [path for path, text in texts.items() if re.search(r"gettext\(\s*[^\"\s]", text)] == []
