"""Table names in JDBC databases."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def table_name(url: str, name: str) -> str:
    """Return a table's name as SQL in the dialect of a JDBC URL, quoted if necessary.

    Plain identifiers, also dotted ones, stay unquoted, so the database decides their letter case;
    anything else is quoted as one name.

    Examples
    --------
    >>> table_name("jdbc:postgresql://x", "app.people")
    'app.people'
    >>> table_name("jdbc:mysql://x", "a`b; drop"), table_name("jdbc:postgresql://x", 'a"b')
    ('`a``b; drop`', '"a""b"')
    """
    if _WORDS.fullmatch(name):
        return name
    mark = "`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"
