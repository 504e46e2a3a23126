"""Java's regular expressions without Java: errors, and patterns that RE2 matches alike."""

from random import Random

import pyarrow as pa
import pytest

import tidegauge as tg
from tidegauge.analyzers.core.columnar import InexactError
from tidegauge.analyzers.measures.texts import PATTERNS, common_pattern, pattern_problem

GOOD = [
    "", "a", r"\(", r"\[\]", "[]]", "[^]]", "[[a-c]&&[^b]]", r"[\d]", r"\Q(*[", r"\\Qa", "(?:a|(b))", "(?x) a # (",
    r"\p{L}++\z", "a{2}", "]", "}",
]  # fmt: skip
BAD = {
    "[": "'[' is not closed",
    "[[a]": "'[' is not closed",
    "[]": "'[' is not closed",
    r"(\)": "'(' is not closed",
    "a))": "')' closes nothing",
    "\\": "nothing follows the last backslash",
    "*.csv": "nothing precedes the first '*'",
}


@pytest.mark.parametrize("pattern", GOOD)
def test_patterns_that_java_compiles_are_accepted(pattern):
    assert pattern_problem(pattern) == ""


@pytest.mark.parametrize("pattern", BAD)
def test_invalid_patterns_are_refused_where_they_are_written(pattern):
    problem = f"invalid regular expression {pattern!r}: {BAD[pattern]}"
    assert pattern_problem(pattern) == BAD[pattern]
    for whole in (False, True):
        with pytest.raises(tg.RuleError) as caught:
            tg.FormatRule("s", pattern, whole=whole)
        assert str(caught.value).endswith(problem)
        with pytest.raises(tg.SuiteError) as caught:
            tg.Check("c").has_pattern("s", pattern, whole=whole)
        assert str(caught.value) == f"has_pattern: {problem}"


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("b", ["b", "abc"], ["", "B"]),
        ("", ["", "a"], []),
        ("^ab|c$", ["abd", "dc"], ["dab", "cd"]),
        (r"\s", ["\x0b", " "], ["\xa0", "\u2003"]),  # Java: [ \t\n\x0B\f\r]
        (r"[^\d\s]", ["a"], ["1 ", "\x0b"]),
        (r"\W", ["é", "-"], ["a_1"]),
        ("[^a]", ["\n", "b"], ["a"]),
        ("^.$", ["a", "é", "😀"], ["", "ab"]),
        ("a.b", ["a\x0bb"], ["a\nb", "a\rb", "a\x85b", "a\u2028b", "a\u2029b"]),
        ("^b|b$", ["a\nb"], ["a\nbc"]),
        ("(?i)k[a-c]", ["KB", "kC"], ["\u212aa", "kd"]),  # Kelvin; ASCII only, unless (?u)
        (r"(?i)\d|k", ["K"], ["\u212a"]),
        (r"[a-c]|[sS]", ["S"], ["\u017f"]),
        ("(?i)(k|[0-9s])+", ["K", "S"], ["\u212a\u017f"]),
        ("(?i)[Z-a]", ["z", "A", "_"], ["b"]),
        ("(?i)[^a]", ["b"], ["a", "A"]),
        (r"\bkey\b", ["a key."], ["monkey", "keys"]),
        ("^(?:ab?){2,3}?$", ["aab", "ababab"], ["ab", "aaaa"]),
        (r"^[\w.-]+\x40[-a]\.$", ["a.b@-."], ["@a.", "a@b."]),
        (r"\$\{x\}", ["a${x}"], ["$x"]),
        (r"\Aa\z", ["a"], ["ab", "a\n"]),
        (r"[\[\]^&]", ["[", "]", "^", "&"], ["\\"]),
    ],
)
def test_re2_matches_the_common_subset_as_java_documents_it(pattern, matching, other):
    common = common_pattern(pattern)
    assert common.matches(pa.array(matching, pa.string())).all()
    assert not common.matches(pa.array(other, pa.string())).any()


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1", "a++", "(?=a)", "(?!a)", "(?>a)", "(?<n>a)", "(?s).", "a(?i)b", r"\p{L}", r"\h", r"\Z", r"\Qa\E",
        "[a&&b]", "[a[b]]", "[]a]", "[a-c-e]", r"[\d-x]", r"[\S]", r"\v", r"\u0041", "(a?)*", "(?:^|a){2}", "(a|)+",
        "a{1001}", "x{0,1000}{2}", r"[\x{41}]",
    ],
)  # fmt: skip
def test_other_valid_patterns_are_left_to_java(pattern):
    assert common_pattern(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [*BAD, "a**", "a{3,2}", "{", "a{,2}", "[z-a]", "|*", "^*", "(", "a|*", "\ud800", r"[\x4]"],
)
def test_invalid_patterns_are_left_to_java(pattern):
    assert common_pattern(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "string"), [("a$", "a\n"), ("a|$", "b\u2028"), ("a$", "\r\n"), (r"\bé", "é")]
)
def test_strings_on_which_java_differs_are_left_to_it(pattern, string):
    with pytest.raises(InexactError):
        common_pattern(pattern).matches(pa.array(["a", string]))


def random_pattern(random, depth=3):
    """Return a pattern of the syntax that Java and RE2 have in common, not always with the same meaning."""
    atoms = [
        "a", "b", "B", "1", " ", "é", "😀", "-", "_", r"\.", r"\x41", r"\n", r"\t", ".", "^", "$", r"\b", r"\B", r"\d", r"\D",
        r"\w", r"\W", r"\s", r"\S", "[ab]", "[^ab]", "[a-c1]", r"[^\w-]", r"[\s.]", "[_-é]", r"[\x00-\x20]", "[^^]", r"\A", r"\z",
    ]  # fmt: skip
    parts = []
    for _ in range(random.randint(1, 4)):
        part = random.choice(atoms)
        if depth and random.random() < 0.4:
            branches = (random_pattern(random, depth - 1) for _ in range(random.randint(1, 3)))
            part = random.choice(["(", "(?:"]) + "|".join(branches) + ")"
        parts.append(
            part + random.choice(["", "", "*", "+", "?", "{2}", "{1,3}", "{0,}", "+?", "*?"])
        )
    return "".join(parts)


@pytest.mark.spark
def test_re2_and_spark_find_the_same_matches(spark):
    random = Random(53)
    candidates = [*PATTERNS.values(), *(random_pattern(random) for _ in range(3000))]
    candidates += ["(?i)" + pattern for pattern in candidates[::5]]
    patterns = [pattern for pattern in dict.fromkeys(candidates) if common_pattern(pattern)][:400]
    alphabet = "aabbAB11é😀 -_.@\n\r\t\x0b\u0130\u017f\u2028"
    strings = ["", "a", "ann@example.com", "http://a.b", "4111 1111 1111 1111"]
    strings += ["".join(random.choices(alphabet, k=random.randint(1, 8))) for _ in range(60)]
    frame = spark.createDataFrame([(s,) for s in dict.fromkeys(strings)], "s string").crossJoin(
        spark.createDataFrame([(p,) for p in patterns], "p string")
    )
    compared = 0
    for string, pattern, expected in frame.selectExpr("s", "p", "rlike(s, p)").collect():
        try:
            (has_match,) = common_pattern(pattern).matches(pa.array([string]))
        except InexactError:
            continue
        compared += 1
        assert has_match == expected, (pattern, string)
    assert len(patterns) > 200
    assert compared > 10_000
