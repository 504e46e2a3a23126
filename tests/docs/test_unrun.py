"""Python blocks that are not run call existing functions, with arguments that they accept."""

import ast
import inspect

import pytest

import tidegauge as tg
from tests.docs.pages import PAGES, blocks, name_of
from tests.paths import ROOT

UNRUN = [
    pytest.param(block, id=f"{name_of(page)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "python" and block.why_not
]


class Reader(ast.NodeVisitor):
    """Follows names through a block: from `tg`, repositories and imports to the results of calls.

    Objects that it does not know, such as a Spark session, are skipped.

    Attributes
    ----------
    known : dict
        A module, a class, a function, or an `Instance` of a class, by name.
    calls : int
        Number of calls that were checked.
    """

    def __init__(self):
        repo = Instance(tg.Repository)
        self.known = {"tg": tg, "repo": repo, "repository": repo}
        self.calls = 0

    def visit_ImportFrom(self, node):
        if node.module.startswith("tidegauge."):
            for one in node.names:
                self.known[one.name] = stand_in(node.module, one.name)

    def visit_Assign(self, node):
        value = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.known[target.id] = value

    def visit_Expr(self, node):
        self.value(node.value)

    def visit_FunctionDef(self, node):
        for decorator in node.decorator_list:
            self.value(decorator)

    def value(self, node):
        """Return the object that an expression evaluates to; None if it is unknown."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.Attribute):
            of = self.value(node.value)
            return None if of is None else attribute(of, node.attr)
        if isinstance(node, ast.Call):
            return self.call(node)
        for child in ast.iter_child_nodes(node):
            self.value(child)
        return None

    def call(self, node):
        for one in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.value(one)
        called = self.value(node.func)
        if called is None:
            return None
        signature = inspect.signature(called)
        signature.bind(*node.args, **{one.arg: one.value for one in node.keywords})
        self.calls += 1
        return returned_by(called)


def returned_by(called):
    """Return an `Instance` of the public class that a call returns; None for other return types."""
    if inspect.isclass(called):
        return Instance(called)
    name = str(getattr(called, "__annotations__", {}).get("return"))
    places = (tg, tg.consistency, tg.griffin)
    classes = (getattr(place, name) for place in places if name in place.__all__)
    return next((Instance(one) for one in classes if inspect.isclass(one)), None)


class Instance:
    """An object with a known class and unknown attributes."""

    def __init__(self, cls):
        self.cls = cls


def attribute(of, name):
    if not isinstance(of, Instance):
        return getattr(of, name)
    if name in getattr(of.cls, "__dataclass_fields__", {}):
        return None
    member = inspect.getattr_static(of.cls, name)
    return member.__get__(object()) if inspect.isfunction(member) else None


def stand_in(module, name):
    """Return a function with the parameters of another one, whose module may not be importable here."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
    (actual,) = (node for node in tree.body if getattr(node, "name", None) == name)
    if isinstance(actual, ast.ClassDef):
        (actual,) = (n for n in actual.body if getattr(n, "name", None) == "__init__")
        del actual.args.args[0]
    for one in [*actual.args.args, *actual.args.kwonlyargs, actual.args.vararg, actual.args.kwarg]:
        if one is not None:
            one.annotation = None
    actual.returns, actual.decorator_list, actual.body = None, [], [ast.Pass()]
    actual.args.kw_defaults = [d and ast.Constant(None) for d in actual.args.kw_defaults]
    actual.args.defaults = [ast.Constant(None) for _ in actual.args.defaults]
    scope = {}
    exec(compile(ast.unparse(actual), module, "exec"), scope)
    return scope[actual.name]


@pytest.mark.parametrize("block", UNRUN)
def test_unrun_blocks_call_existing_functions(block):
    reader = Reader()
    reader.visit(ast.parse(block.code))
    assert reader.calls or "tidegauge" not in block.code.replace("tidegauge run", "")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("tg.consistency.comparison(a, b)", AttributeError),
        ("tg.consistency.compare(a, b, key=['user'])", TypeError),
        ("found = tg.consistency.compare(a, b, keys=['user'])\nfound.metric()", AttributeError),
        ("repo.drift()", TypeError),
        ("from tidegauge.integrations.dagster import asset_checks\nasset_checks()", TypeError),
        ("from tidegauge.integrations.airflow import Operator", ValueError),
    ],
)
def test_calls_of_missing_functions_are_reported(code, error):
    with pytest.raises(error):
        Reader().visit(ast.parse(code))
