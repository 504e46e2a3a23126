"""Every public name has an example in its docstring, examples run on Spark, and signatures read well."""

import doctest
import inspect
import re

import pytest

import tidegauge as tg

MODULES = ("consistency", "griffin")
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """Return public functions and classes by the name that users import, without errors and type aliases."""
    names = [name for name in tg.__all__ if name not in MODULES]
    names += [f"{module}.{name}" for module in MODULES for name in getattr(tg, module).__all__]
    actual = {}
    for name in names:
        module, _, last = name.rpartition(".")
        one = getattr(getattr(tg, module) if module else tg, last)
        error = inspect.isclass(one) and issubclass(one, BaseException)
        if (inspect.isclass(one) or inspect.isfunction(one)) and not error:
            actual[name] = one
    return actual


def own_methods(name, cls):
    """Yield the public methods that a class itself defines."""
    for method, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not method.startswith("_"):
            yield f"{name}.{method}", function


def everything():
    for name, one in public().items():
        yield name, one
        if inspect.isclass(one):
            yield from own_methods(name, one)


def test_every_public_name_has_an_example():
    assert [name for name, one in public().items() if ">>>" not in (one.__doc__ or "")] == []


def test_signatures_show_types_without_quotation_marks():
    """This lets ``?`` and `help` show them as they were written."""
    quoted = []
    for name, one in everything():
        try:
            signature = inspect.signature(one)
        except ValueError:  # members of an enumeration
            continue
        shown = [p.annotation for p in signature.parameters.values()] + [
            signature.return_annotation
        ]
        if any(re.match("['\"]", inspect.formatannotation(one)) for one in shown):
            quoted.append(name)
    assert quoted == []
    assert str(inspect.signature(tg.Repository.value)).startswith(
        "(self, dataset: str, name: str, instance: str | None = None"
    )


@pytest.mark.soak
def test_examples_run_on_spark(spark, tmp_path, monkeypatch):
    """The everyday doctests leave these examples out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said, ran = [], 0
    for name, one in everything():
        text = inspect.getdoc(one) or ""
        if "+SKIP" not in text:
            continue
        scope = vars(inspect.getmodule(one)).copy()
        example = doctest.DocTestParser().get_doctest(text, scope, name, None, None)
        for line in example.examples:
            line.options.pop(doctest.SKIP, None)
        doctest.DocTestRunner(optionflags=SAME).run(example, out=said.append)
        spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
        ran += 1
    assert said == [], "".join(said)
    assert ran > 30


CLASSES_IN_USE = (
    "Applied", "CheckResult", "Explanation", "InMemoryStateProvider", "Metrics", "Monitor", "Profile",
    "Published", "Repository", "Run", "Suggestions", "Suite", "Verification", "consistency.Comparison",
    "consistency.LagEstimates", "consistency.LogSchema", "griffin.GriffinResult",
)  # fmt: skip
"""Classes whose methods users call on objects."""
INTERNAL_METHODS = {
    "Monitor.with_default",
    "Monitor.decide",
    "consistency.Comparison.measured",
    "consistency.LogSchema.require_key",
}
"""Methods of these classes that only Tidegauge calls."""


@pytest.mark.parametrize("name", CLASSES_IN_USE)
def test_methods_that_users_call_have_an_example(name):
    """The example is in the method's docstring, or the docstring of the class calls the method."""
    cls = public()[name]
    lines = [line.strip() for line in (cls.__doc__ or "").splitlines()]
    code = "\n".join(line for line in lines if line.startswith((">>>", "...")))
    bare = []
    for method, function in own_methods(name, cls):
        called = re.search(rf"\.{method.rpartition('.')[2]}\(", code)
        if ">>>" not in (function.__doc__ or "") and not called and method not in INTERNAL_METHODS:
            bare.append(method)
    assert bare == []
