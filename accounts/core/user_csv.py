"""Parses CSV files of users, as spreadsheets save them. Treats the content as untrusted. Pure."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from common.i18n import gettext as _
from common.values.text import check_text, quoted

COLUMNS = ("email", "name", "role", "projects", "policy", "domain")
REQUIRED = "email"
ALIASES = {"e-mail": "email"}
LONGEST = {"email": 254, "name": 120, "role": 20, "projects": 2000, "policy": 64, "domain": 64}
ROW_FAULT = "line"  # key of faults that concern a whole line
MOST_ROWS = 5000
MOST_BYTES = 2 * 2**20
TEMPLATE = (
    COLUMNS,
    ("ada@example.org", "Ada Lovelace", "user", "vision speech", "", ""),
    ("grace@example.org", "Grace Hopper", "", "vision", "", ""),
)
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One user. `number` is the row number in a spreadsheet; `values` omits empty cells; `faults`
    is {field: sentence}.
    """

    number: int
    values: dict[str, str]
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def email(self) -> str:
        return self.values.get(REQUIRED, "")

    @property
    def projects(self) -> list[str]:
        """Names of projects without duplicates."""
        return list(dict.fromkeys(self.values.get("projects", "").split()))


def parse_user_csv(content: bytes) -> list[CsvRow]:
    """Parse a file with a header row, in UTF-8 with or without byte order mark, separated by commas
    or semicolons. Raises ValueError with a sentence for a file that cannot be read at all.
    """
    if len(content) > MOST_BYTES:
        raise ValueError(_("The file is larger than {most} MiB.").format(most=MOST_BYTES // 2**20))
    text = _decode(content)
    head, _newline, _rest = text.partition("\n")
    separator = ";" if head.count(";") > head.count(",") else ","
    rows = _rows(text, separator)
    columns = _columns(next(rows, []))
    lines = [
        _parse_row(number, columns, cells)
        for number, cells in enumerate(rows, start=2)
        if any(cell.strip() for cell in cells)
    ]
    if not lines:
        raise ValueError(_("The file has a head and nobody below it."))
    if len(lines) > MOST_ROWS:
        raise ValueError(
            _("The file has {count} rows; at most {most} at once.").format(count=len(lines), most=MOST_ROWS)
        )
    return _mark_duplicates(lines)


def _decode(content: bytes) -> str:
    if content.startswith(UTF16_MARKS):
        raise ValueError(_("The file is UTF-16. Save it as “CSV UTF-8”."))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            _("Line {line} is not UTF-8 (byte 0x{byte}). Save the file as “CSV UTF-8”.").format(
                line=line, byte=f"{content[error.start]:02x}"
            )
        ) from error


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(
            _("Line {line} is no CSV: a quotation mark is out of place, or a cell is too long.").format(
                line=reader.line_num
            )
        ) from error


def _columns(head: Sequence[str]) -> list[str]:
    names = [ALIASES.get(name, name) for name in (cell.strip().lower() for cell in head)]
    while names and not names[-1]:
        names.pop()
    known = ", ".join(COLUMNS)
    if REQUIRED not in names:
        raise ValueError(
            _("The first row must name the columns, “email” among them: {known}.").format(known=known)
        )
    for name, count in Counter(names).items():
        if name not in COLUMNS:
            raise ValueError(
                _("There is no column {name}. The columns are: {known}.").format(
                    name=quoted(name), known=known
                )
            )
        if count > 1:
            raise ValueError(_("The column {name} is there twice.").format(name=quoted(name)))
    return names


def _parse_row(number: int, columns: Sequence[str], cells: Sequence[str]) -> CsvRow:
    values: dict[str, str] = {}
    faults: dict[str, str] = {}
    for name, cell in zip(columns, cells, strict=False):
        try:
            if text := check_text(_strip_formula_guard(cell), max_length=LONGEST[name]):
                values[name] = text.lower() if name in ("email", "role") else text
        except ValueError as error:
            faults[name] = str(error)
    if any(cell.strip() for cell in cells[len(columns) :]):
        faults[ROW_FAULT] = _("The row has more cells than the head.")
    if not values.get(REQUIRED) and REQUIRED not in faults:
        faults[REQUIRED] = _("The address is missing.")
    return CsvRow(number, values, faults)


def _strip_formula_guard(cell: str) -> str:
    """Remove the apostrophe that exports put before formulas."""
    text = cell.strip()
    return text[1:] if text[:1] == "'" and text[1:2] in ("=", "+", "-", "@") else text


def _mark_duplicates(lines: Sequence[CsvRow]) -> list[CsvRow]:
    """Mark later rows that repeat an address, in any letter case, as faulty."""
    first: dict[str, int] = {}
    marked = []
    for line in lines:
        earlier = first.setdefault(line.email, line.number) if line.email else line.number
        if earlier != line.number:
            fault = _("The address is in row {number} already.").format(number=earlier)
            line = CsvRow(line.number, line.values, {**line.faults, REQUIRED: fault})
        marked.append(line)
    return marked
