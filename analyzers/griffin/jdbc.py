"""Names in databases that are reached by JDBC."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def table_name(url: str, name: str) -> str:
    """Return a table's name as SQL of the database that a URL leads to.

    Plain words, also with dots between them, keep the letter case that the database gives them; everything else is one quoted name.

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
