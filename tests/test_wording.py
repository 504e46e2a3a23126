"""Names say what a value is, constants name quantity and unit, and texts are in plain English.

The patterns find symptoms only: a sentence that no pattern matches can still be odd.
"""

import ast
import functools
import re

import pytest

from tests.docs.pages import PAGES, ROOT, prose

PACKAGES = ("analyzers", "repository", "tidegauge", "migrations", "benchmarks")
VAGUE_NAMES = frozenset(
    [
        "found",
        "one",
        "told",
        "known",
        "some",
        "of",
        "place",
        "places",
        "said",
        "asked",
        "wanted",
        "kept",
        "given",
        "whole",
        "by",
        "held",
        "made",
        "what",
        "again",
        "meant",
        "others",
        "ours",
        "theirs",
        "taken",
        "odd",
        "due",
        "that",
        "which",
        "who",
        "most",
        "many",
        "less",
        "more",
    ]
)
MAX_VAGUE_NAMES = 0.01
"""Share of bound names: few enough for keys of stored or sent data, such as ``by`` of a label."""
MAX_ONE_WORD_CONSTANTS = 0.25
"""Share of module constants: registries and enumerations such as DETECTORS have one word."""
ODD_PHRASES = re.compile(
    r"""\b(?:tells?|told|says?|said|speaks?)\b        # code returns, raises, reports
      | \b(?:is|are|was|were)\ no\ (?!longer|more)\w   # 'x' is no number
      | \b(?:those|that)\ of\b                         # repeat the noun instead
      | \bwhat\ (?:is|was|are|were|has|comes)\b
      | \b(?:by|of)\ (?:which|whom|what)\b
      | \bone\ (?:that|which|whose)\b
      | \b(?:anew|beside|likewise|thereof|wherein)\b
      | \b(?:stands|lies)\b
      | \b(?:a|the|one|its)\ texts?\b                  # a string, a message, SQL
    """,
    re.VERBOSE | re.IGNORECASE,
)
MAX_ODD_PHRASES = {"docstrings": 1.5, "messages": 2.0, "tests": 2.0, "pages": 2.0, "scripts": 2.0}
"""Odd phrases per 1,000 words. Quotations, terms of statistics and HTML texts match as well."""
SQL = re.compile(r"\b(?:SELECT|FROM|CREATE|INSERT)\b|::|=>")
SCRIPT_FOLDER = ROOT / "tidegauge" / "widgets"
SCRIPT_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|\$\{[^`]*?\}|[^`\\])*`)
      | (?P<word>[A-Za-z_$][\w$]*)
      | (?P<symbol>=>|\.\.\.|\?\.|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
"""Tokens of TypeScript. Words inside template strings are part of the string."""


@functools.cache
def syntax_trees(folder):
    return [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
        and "node_modules" not in path.parts
    ]


def product_trees():
    return [tree for folder in PACKAGES for tree in syntax_trees(folder)]


def bound_names(tree):
    """Yield the names of variables, parameters and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def constant_names(tree):
    """Yield the names of a module's constants."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (
                n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)
            )
            yield from (name for name in names if name.isupper() and len(name.strip("_")) > 1)


def is_string(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def docstrings(tree):
    """Return the docstrings, and the strings below constants and fields."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and is_string(node.value)
    ]


def messages(tree):
    """Return the strings of four words and more that are neither documentation nor SQL."""
    documentation = {id(node) for node in docstrings(tree)}
    return [
        node
        for node in ast.walk(tree)
        if is_string(node)
        and id(node) not in documentation
        and len(node.value.split()) >= 4
        and not SQL.search(node.value)
    ]


def odd_phrases_per_1000_words(texts):
    texts = [re.sub(r"(?m)>>>.*|^\s*\.\.\. .*|``[^`]*``|`[^`\n]*`", "X", text) for text in texts]
    odd = sum(len(ODD_PHRASES.findall(text)) for text in texts)
    return 1000 * odd / sum(len(re.findall(r"\b[A-Za-z']+\b", text)) for text in texts)


@functools.cache
def script_tokens(path):
    """Return the tokens of a TypeScript file, as pairs of kind and content."""
    return [
        (token.lastgroup, token[0])
        for token in SCRIPT_TOKEN.finditer(path.read_text(encoding="utf-8"))
    ]


def script_files():
    return [
        path
        for folder in ("src", "tests")
        for path in sorted((SCRIPT_FOLDER / folder).rglob("*.ts"))
    ]


def script_names(tokens):
    """Yield the names of variables, parameters, properties, functions and classes of a script.

    A name follows ``const`` or another declaring keyword, is before ``:`` or ``=>``, or is in a
    destructuring declaration or the parameters of an arrow function.
    """
    code = [content for kind, content in tokens if kind in {"word", "symbol"}]
    parameters = {
        n
        for end in range(1, len(code))
        if code[end - 1 : end + 1] == [")", "=>"]
        for n in range(opening_parenthesis(code, end - 1), end)
    }
    in_pattern = False
    for n, (before, name, after) in enumerate(
        zip(["", *code], code, [*code[1:], ""], strict=False)
    ):
        if before in {"const", "let"}:
            in_pattern = name in {"{", "["}
        elif name == "=":
            in_pattern = False
        if not name[0].isalpha():
            continue
        declared = before in {"const", "let", "function", "class", "interface", "type", "get"}
        typed = (after == ":" and before != "?") or code[n + 1 : n + 3] == ["?", ":"]
        bound = (in_pattern or n in parameters) and after in {",", ")", "}", "]"}
        if declared or typed or bound or after == "=>":
            yield name


def opening_parenthesis(code, end):
    """Return the index of the parenthesis that the one at ``end`` closes."""
    depth = 0
    for n in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(code[n], 0)
        if depth == 0:
            return n
    return 0


def script_constants(path):
    """Yield the names of the constants of a module."""
    yield from re.findall(r"^(?:export )?const ([A-Z][A-Z\d_]+)\b", path.read_text("utf-8"), re.M)


def script_comments():
    """Return the comments of all scripts without comment characters."""
    return [
        re.sub(r"(?m)^\s*(?:///?|/\*\*?|\*/?)|\*/", "", content)
        for path in script_files()
        for kind, content in script_tokens(path)
        if kind == "comment"
    ]


def texts_of(part):
    if part == "pages":
        return [prose(page) for page in PAGES]
    if part == "scripts":
        return script_comments()
    trees = syntax_trees("tests") if part == "tests" else product_trees()
    nodes = messages if part == "messages" else docstrings
    return [node.value for tree in trees for node in nodes(tree)]


def test_few_names_are_vague():
    names = [name for tree in product_trees() for name in bound_names(tree)]
    vague = [name for name in names if name.strip("_") in VAGUE_NAMES]
    assert len(vague) <= MAX_VAGUE_NAMES * len(names), sorted(set(vague))


def test_constants_name_quantity_and_unit():
    names = [name for tree in product_trees() for name in constant_names(tree)]
    one_word = [name for name in names if "_" not in name.strip("_")]
    assert len(one_word) <= MAX_ONE_WORD_CONSTANTS * len(names), sorted(set(one_word))


def test_few_names_in_scripts_are_vague():
    names = [name for path in script_files() for name in script_names(script_tokens(path))]
    vague = [name for name in names if name in VAGUE_NAMES]
    assert len(vague) <= MAX_VAGUE_NAMES * len(names), sorted(set(vague))


def test_constants_in_scripts_name_quantity_and_unit():
    names = [name for path in script_files() for name in script_constants(path)]
    one_word = [name for name in names if "_" not in name]
    assert len(one_word) <= MAX_ONE_WORD_CONSTANTS * len(names), sorted(set(one_word))


def test_no_css_class_is_vague():
    scripts = [*script_files(), *SCRIPT_FOLDER.glob("src/**/*.css")]
    classes = {
        name for path in scripts for name in re.findall(r"\btg-[a-z-]+", path.read_text("utf-8"))
    }
    assert not [name for name in classes if VAGUE_NAMES & set(name.split("-"))]


def test_names_in_scripts_are_counted():
    script = """
        import { by } from "x"; // const told = 1
        const [found, { a: one, what }] = f(`${who}`);
        export function of(some: number, text = "kept:"): void {}
        for (const known of sorted.map((odd) => odd ? less : 1)) g({ made: 1, more });
    """
    tokens = [(token.lastgroup, token[0]) for token in SCRIPT_TOKEN.finditer(script)]
    names = [name for name in script_names(tokens) if name in VAGUE_NAMES]
    assert names == ["found", "one", "what", "of", "some", "known", "odd", "made"]


@pytest.mark.parametrize("part", MAX_ODD_PHRASES)
def test_texts_are_in_plain_english(part):
    assert odd_phrases_per_1000_words(texts_of(part)) <= MAX_ODD_PHRASES[part]


def test_odd_phrases_are_counted():
    assert (
        odd_phrases_per_1000_words(["'x' is no number, and that of y is said to be one that lies"])
        > 200
    )
    assert odd_phrases_per_1000_words(["The run is no longer open. See `what is`."]) == 0
