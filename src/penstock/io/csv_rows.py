"""Where the rows of CSV text end, by the rules of Arrow's parser.

A quote opens a field only as its first byte. In such a field two quotes are one, and any other closes it; what follows
up to the delimiter is text again. Everywhere else quotes are text: `5" disk` is a field. A row ends with LF, CR LF or
CR that stand in no quotes. So a row is told by going through its fields, once, from its first byte on.
"""

from __future__ import annotations

import functools
import re

__all__ = ["RowEnds"]

_QUOTE = b'"'
_LINE_ENDS = b"\n", b"\r"


class RowEnds:
    """Finds where rows end. A CR LF may be taken apart: the LF behind it is an empty line then, which is no row.

    Args:
        delimiter: What stands between fields.
        quotes: Whether fields may stand in quotes.
    """

    def __init__(self, delimiter: str, quotes: bool) -> None:
        self._quotes = quotes
        self._first, self._rows, self._rest = _patterns(delimiter, quotes)

    def first_end(self, data: bytes | bytearray, start: int, stop: int) -> int:
        """Where the first row ends, empty lines before it included; below 0 if it does not."""
        match = self._first.match(data, start, stop)
        return -1 if match is None else match.end()

    def last_end(self, data: bytes | bytearray, start: int, stop: int) -> int:
        """Where the last row ends of which `data[start:stop]` begins with the first; `start` if none does."""
        if self._quotes and data.find(_QUOTE, start, stop) >= 0:
            match = self._rows.match(data, start, stop)
            assert match is not None  # of no rows, if there are none
            return match.end()
        return max(start, *(data.rfind(end, start, stop) + 1 for end in _LINE_ENDS))

    def split(self, text: bytes) -> list[bytes]:
        """The rows one by one."""
        rows, start = [], 0
        while start < len(text):
            end = self.first_end(text, start, len(text))
            end = len(text) if end < 0 else end
            rows.append(text[start:end])
            start = end
        return rows

    def is_open(self, text: bytes) -> bool:
        """Whether the last row has a quote that is not closed."""
        return self._rest.fullmatch(text, self.last_end(text, 0, len(text))) is None


@functools.cache
def _patterns(delimiter: str, quotes: bool) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """The first row, rows, and one without a line end. None ever goes back, so each takes as long as the text is."""
    between = re.escape(delimiter.encode())
    quoted = rb'(?:"[^"]*+(?:""[^"]*+)*+"|(?!"))' if quotes else b""
    field = quoted + rb"[^\r\n" + between + rb"]*+"
    rest = field + rb"(?:" + between + field + rb")*+"
    row = rest + rb"(?:\r\n?+|\n)"
    return re.compile(rb"[\r\n]*+" + row), re.compile(rb"(?:" + row + rb")*+"), re.compile(rest)
