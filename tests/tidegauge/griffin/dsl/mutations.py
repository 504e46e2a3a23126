"""Damaged rules: letters and words are removed, doubled, swapped or inserted."""

import re

RULES = (
    "source.id = target.id AND source.name = target.name AND source.age = target.age",
    "SELECT source.country, source.id.count() AS count, source.age.avg() AS avg_age FROM source"
    " GROUP BY source.country SORT BY count DESC LIMIT 5",
    "!source.ok and source.name = target.name && (source.age between 12 and 52) && target.desc is not null",
    "a.b[0].x.max(), (sum(a) / count(distinct b)) as r, *.count(), -(100 - 1.5e3) % 4ms",
    "name not rlike \"^a\\\"b.*$\" or not x in ('it''s', `a``b`, null, nan, true)",
    "name, [age as `next age`], upper(upper(upper(名前)))",
    "a between (3+1)*2 and 50 -- why\n or b between (1, 2) /* here */ group by a having c > .5",
)
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_BITS = (
    "'", '"', "`", "(", ")", "[", "]", ".", ",", "--", "/*", "*/", "\\", "\0", "\n", "==", "<=>", "é", "\u0301",
    "\ud800", "\U0001f30a", " ", "select ", " from ", " and ", " not ", " between ", " in ", " as ", "1", "9" * 50,
    "3D", "1e999", "''", "$", "${x}", ";", "%", "!", "-", "(" * 50, "a.", "f(", "not ",
)  # fmt: skip
LONGEST = 4096


def mutated(draw):
    """Return a string of at most 4,096 letters; ``draw`` is a `random.Random`."""
    if draw.random() < 0.05:
        return "".join(chr(draw.randrange(0x3000)) for _ in range(draw.randrange(200)))
    text = draw.choice(RULES)
    if draw.random() < 0.3:
        joiner = draw.choice([" and ", " or ", ", ", " + ", ".", "(", " "])
        text = joiner.join([text] * draw.randrange(1, 80))
    for _ in range(draw.randrange(6)):
        words = _WORD.findall(text) if draw.random() < 0.5 else list(text)
        if not words:
            break
        first, second = draw.randrange(len(words)), draw.randrange(len(words))
        change = draw.randrange(5)
        if change == 0:
            del words[first]
        elif change == 1:
            words.insert(first, draw.choice(_BITS) * draw.choice([1, 1, 2, 200]))
        elif change == 2:
            words[first], words[second] = words[second], words[first]
        elif change == 3:
            words.insert(first, words[first] * draw.choice([1, 2, 300]))
        else:
            words = words[min(first, second) :]
        text = "".join(words)
    return text[:LONGEST]
