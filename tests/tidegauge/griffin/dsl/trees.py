"""Random trees of rules: every tree that the parser can return."""

from decimal import Decimal

from hypothesis import strategies as st

from tidegauge.griffin.dsl import nodes
from tidegauge.griffin.dsl.grammar import CLAUSE_WORDS, MILLISECONDS_BY_UNIT, RESERVED_WORDS

LONGEST_CHAIN = 16

names = st.one_of(
    st.sampled_from(["a", "id", "source", "target", "nullable", "my col", "a`b", "名前", "ชื่อ"]),
    st.sampled_from([*RESERVED_WORDS, *CLAUSE_WORDS]),
    st.text(min_size=1, max_size=6),
)
numbers = st.builds(
    lambda digits, exponent: nodes.Number(Decimal(digits).scaleb(exponent)),
    st.integers(0, 10**20),
    st.integers(-30, 30),
)
literals = st.one_of(
    st.builds(nodes.Text, st.text(max_size=8)),
    st.builds(nodes.Text, st.text("'\"`\\%_nx0\n", max_size=8)),
    numbers,
    st.builds(
        nodes.DurationNode, st.integers(0, 10**9), st.sampled_from(list(MILLISECONDS_BY_UNIT))
    ),
    st.builds(nodes.Boolean, st.booleans()),
    st.sampled_from([nodes.Null(), nodes.NaN(), nodes.Star()]),
)


def leaves(operator, node):
    """Return the terms that a chain of AND or OR joins."""
    if isinstance(node, nodes.Binary) and node.operator == operator:
        return leaves(operator, node.left) + leaves(operator, node.right)
    return [node]


def chain(operator, terms):
    """Join terms to the left, because brackets within AND and OR change nothing."""
    whole, *rest = [leaf for term in terms for leaf in leaves(operator, term)][:LONGEST_CHAIN]
    for term in rest:
        whole = nodes.Binary(operator, whole, term)
    return whole


def wider(inner):
    """Return expressions made of smaller expressions."""
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    few = st.lists(inner, max_size=2).map(tuple)
    return st.one_of(
        st.builds(nodes.Attribute, inner, names),
        st.builds(nodes.AllOf, inner),
        st.builds(nodes.Index, inner, inner),
        st.builds(nodes.Call, names, few),
        st.builds(nodes.Call, names, some, distinct=st.just(True)),
        st.builds(nodes.Call, names, some, method=st.just(True)),
        st.builds(nodes.Unary, st.sampled_from(["+", "-", "not"]), inner),
        st.builds(
            nodes.Binary,
            st.sampled_from(["*", "/", "%", "+", "-", "=", "!=", "<", "<=", ">", ">="]),
            inner,
            inner,
        ),
        st.builds(chain, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)),
        st.builds(nodes.In, inner, some, st.booleans()),
        st.builds(nodes.BetweenNode, inner, inner, inner, st.booleans()),
        st.builds(nodes.LikeNode, inner, inner, st.booleans(), st.booleans()),
        st.builds(nodes.IsNull, inner, st.booleans()),
        st.builds(nodes.IsNaN, inner, st.booleans()),
        st.builds(nodes.Aliased, inner, names),
    )


expressions = st.recursive(literals | st.builds(nodes.Name, names), wider, max_leaves=20)
bare = expressions.filter(lambda tree: not isinstance(tree, nodes.Aliased))
"""Expressions without an alias for the whole expression."""

items = st.lists(expressions, min_size=1, max_size=4).map(tuple)

accuracy = st.builds(nodes.Accuracy, expressions)
listings = st.builds(nodes.Listing, items)
distinct = st.builds(
    nodes.Distinct,
    st.lists(st.builds(nodes.DistinctItem, expressions, st.booleans()), min_size=1, max_size=3).map(
        tuple
    ),
)


@st.composite
def profilings(draw):
    """Draw queries. HAVING needs GROUP BY."""
    maybe = st.none() | expressions
    groups = draw(st.just(()) | items)
    order = st.builds(nodes.OrderItem, expressions, st.sampled_from([None, True, False]))
    return nodes.Profiling(
        items=draw(items),
        distinct=draw(st.booleans()),
        table=draw(st.none() | names),
        where=draw(maybe),
        group_by=groups,
        having=draw(maybe) if groups else None,
        order_by=draw(st.lists(order, max_size=2).map(tuple)),
        limit=draw(maybe),
    )


rules = st.one_of(
    st.tuples(st.just("accuracy"), accuracy),
    st.tuples(st.just("profiling"), profilings()),
    st.tuples(st.just("completeness"), listings),
    st.tuples(st.just("distinct"), distinct),
)
"""Types of rules, with a strategy of trees for each."""
