"""The most frequent pairs of different values: what was logged where the backfill has something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.consistency.compare.alignment import own_presence
from tidegauge.consistency.compare.equality import Tolerance, same
from tidegauge.consistency.compare.join import rows_of
from tidegauge.consistency.compare.measures import LOGGED, MATCHED

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def value_pairs(
    table: DataFrame,
    feature: str,
    *,
    tolerance: Any = 0.0,
    group_by: str | None = None,
    limit: int = 20,
) -> pd.DataFrame:
    """Count the pairs of different values of a feature in matched rows, the most frequent first.

    A wrong mapping, a changed unit or a default that one side lacks stands out here, where rates only
    tell that values differ. The rows are read; nothing is stored.

    Parameters
    ----------
    table : DataFrame
        A comparison table, such as ``spark.table("shop.search_comparison")`` or `Comparison.table`;
        filter it by ``ds`` for some days.
    feature : str
        Of any type; values are told as text.
    tolerance : float or mapping
        As for `compare`: numbers that are this close are equal.
    group_by : str, optional
        The feature's group-by, needed where group-bys have backfills of their own.
    limit : int
        Most pairs to return.

    Returns
    -------
    pandas.DataFrame
        ``logged`` and ``backfilled``, as text or None for null, and the number of ``rows``.

    Raises
    ------
    NoSuchColumnError
        If the table does not have the feature on both sides.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> tg.consistency.value_pairs(found.table, "age").values.tolist()  # doctest: +SKIP
    [['30', '31', 1]]
    """
    import pandas as pd

    if limit < 1:
        raise IllegalAnalyzerParameterError(f"limit is a number of pairs, not {limit!r}")
    schema = Schema.from_frame(table)
    a, b = (schema.field(quote(name)) for name in (LOGGED + feature, feature))
    own = None if group_by is None else own_presence(table, group_by)
    differ = (
        f"{MATCHED} AND NOT {same(a.sql, b.sql, (a.type, b.type), Tolerance.from_value(tolerance))}"
    )
    counted = (
        rows_of(table, own)
        .where(differ)
        .selectExpr(f"CAST({a.sql} AS STRING) AS logged", f"CAST({b.sql} AS STRING) AS backfilled")
        .groupBy("logged", "backfilled")
        .count()
    )
    most = counted.orderBy("count", "logged", "backfilled", ascending=[False, True, True])
    rows = [tuple(row) for row in most.limit(limit).collect()]
    return pd.DataFrame(rows, columns=["logged", "backfilled", "rows"])
