"""GROUP BY columns of a ``spark-sql`` rule, which identify the rows of its result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_TOKEN = re.compile(
    r"--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)|\s++"
    r"|(?P<token>'(?:[^'\\]|\\.|'')*+'|\"(?:[^\"\\]|\\.)*+\"|`(?:[^`]|``)*+`|\w++|[\s\S])"
)
_END = frozenset(
    {"having", "order", "sort", "cluster", "distribute", "limit", "offset", "window"}
    | {"union", "except", "minus", "intersect", ";"}
)
_SETS = frozenset({"rollup", "cube", "grouping", "sets"})
Tokens = list[str]


def group_labels(query: str, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the result columns of a query that its GROUP BY names.

    Parameters
    ----------
    query : str
        Spark SQL. Grouping in subqueries does not count.
    columns : sequence of str
        The columns of its result.

    Returns
    -------
    tuple of str or None
        None if the query has no GROUP BY, or none of its columns can be found in the result.

    Examples
    --------
    >>> group_labels("SELECT city AS c, count(*) AS n FROM users GROUP BY city", ["c", "n"])
    ('c',)
    >>> group_labels("SELECT max(day) AS latest FROM users", ["latest"]) is None
    True
    """
    select: Tokens | None = None
    group: Tokens | None = None
    into: Tokens | None = None
    depth = 0
    tokens = [match["token"] for match in _TOKEN.finditer(query) if match["token"]]
    for number, piece in enumerate(tokens):
        word = piece.casefold()
        if depth == 0:
            if word == "select":
                select, group = [], None
                into = select
                continue
            if word == "group" and "by" in map(str.casefold, tokens[number + 1 : number + 2]):
                group = into = []
                continue
            if word == "from" or word in _END:
                into = None
        depth += (piece in "([") - (piece in ")]")
        if into is not None:
            into.append(word)
    if select is None or not group:
        return None
    found = _labels(list(_items(select)), list(_items(group[1:])), columns)
    return found or None


def _items(tokens: Tokens) -> Iterator[Tokens]:
    """Yield the parts of a list between its commas, without words of grouping sets."""
    item: Tokens = []
    depth = 0
    sets = bool(_SETS & set(tokens))
    for piece in tokens:
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and (depth == 0 or sets):
            yield item
            item = []
        elif not sets or piece not in _SETS | {"(", ")"}:
            item.append(piece)
    yield item


def _labels(select: list[Tokens], group: list[Tokens], columns: Sequence[str]) -> tuple[str, ...]:
    if select and select[0][:1] in (["distinct"], ["all"]):
        select[0] = select[0][1:]
    shown = select if len(select) == len(columns) else [[] for _ in columns]
    names = {item[-1].strip("`") for item in group if item and _is_path(item)}
    texts = [item for item in group if item]
    positions = {item[0] for item in texts if len(item) == 1}
    return tuple(
        column
        for number, (column, item) in enumerate(zip(columns, shown, strict=True), 1)
        if column.casefold() in names
        or str(number) in positions
        or any(_is_of(item, text) for text in texts if not text[0].isdigit())
    )


def _is_path(item: Tokens) -> bool:
    """Return whether tokens are a name, or names joined by dots."""
    return len(item) % 2 == 1 and set(item[1::2]) <= {"."} and "." not in item[::2]


def _is_of(item: Tokens, text: Tokens) -> bool:
    """Return whether a select item is an expression, with an alias or without."""
    rest = item[len(text) :]
    if item[: len(text)] == text:
        return len(rest) <= 1 or (rest[0] == "as" and len(rest) == 2)
    path = item[:-2] if item[-2:-1] == ["as"] else item
    return _is_path(path) and _is_path(text) and path[-1] == text[-1]
