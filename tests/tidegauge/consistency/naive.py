"""A comparison in plain Python, row by row, as the reference for tests."""

import math
from collections import defaultdict


def equal(a, b):
    """Compare null-safely: NaN equals NaN, and the order of keys does not matter."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return a == b


def longest_common(a, b):
    """Return the length of the longest common subsequence, by the textbook table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            above, left = table[i][j + 1], table[i + 1][j]
            table[i + 1][j + 1] = table[i][j] + 1 if equal(x, y) else max(above, left)
    return table[-1][-1]


def order(row):
    """Return a sort key in Spark's order: null first, NaN last, maps by their sorted keys and values."""
    return [_rank(value) for value in row]


def _rank(value):
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, sorted([_rank(k), _rank(v)] for k, v in value.items()))
    return (1, order(value)) if isinstance(value, list) else (1, value)


def pairs(logged, backfilled, bucket):
    """Yield (bucket, logged row or None, backfilled row or None); rows are (key, values)."""
    sides = defaultdict(lambda: ([], []))
    for side, rows in enumerate((logged, backfilled)):
        for key, values in rows:
            sides[key][side].append(values)
    for key, (a, b) in sides.items():
        a, b = sorted(a, key=order), sorted(b, key=order)
        for i in range(max(len(a), len(b))):
            yield bucket(key), i, a[i] if i < len(a) else None, b[i] if i < len(b) else None


def cells(found):
    """Count matched, missing, extra and duplicate rows, and the cells of each feature, by bucket."""
    counts = defaultdict(int)
    for bucket, copy, a, b in found:
        kind = "missing" if a is None else "extra" if b is None else "matched"
        counts[bucket, "*", f"row_{kind}"] += 1
        counts[bucket, "*", "row_duplicate"] += (copy > 0) * (2 if kind == "matched" else 1)
        if kind != "matched":
            continue
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            if x is None or y is None:
                cell = "both_null" if x is y else "missing" if x is None else "extra"
            else:
                cell = "equal" if equal(x, y) else "mismatch"
            counts[bucket, i, cell] += 1
    return counts


def values(found, i):
    """Return counts, sums and values of a numeric feature, or of its maps of numbers, by bucket.

    Counts and sums are named as in `Differences`, key counts as in `KeyCounts`; deltas and values are lists.
    """
    results = defaultdict(lambda: defaultdict(list))
    for bucket, _, a, b in found:
        if a is None or b is None:
            continue
        x, y = a[i], b[i]
        into = results[bucket]
        if isinstance(x, dict) and isinstance(y, dict):
            shared = x.keys() & y.keys()
            into["pairs_of_maps"].append(1)
            left = sum(x[key] is None and y[key] is not None for key in shared)
            right = sum(y[key] is None and x[key] is not None for key in shared)
            differ = sum(not equal(x[key], y[key]) for key in shared)
            into["missing"].append(len(y.keys() - x.keys()) + left)
            into["extra"].append(len(x.keys() - y.keys()) + right)
            into["mismatched"].append(differ - left - right)
            into["left"].append(len(x))
            into["right"].append(len(y))
            for key in shared:
                _number(into, x[key], y[key])
        elif not isinstance(x, dict) and not isinstance(y, dict):
            _number(into, x, y)
    return results


def _number(into, x, y):
    for name, value in (("logged", x), ("backfilled", y)):
        if value is None:
            continue
        if math.isnan(value):
            into[f"{name}_nan"].append(1)
        else:
            into[name].append(float(value))
    if x is None or y is None:
        return
    if not math.isnan(y - x):
        into["delta"].append(float(y - x))
    if math.isfinite(size := abs(x) + abs(y)):
        into["pairs"].append(1)
        into["difference"].append(abs(x - y))
        into["size"].append(size)
        into["ratios"].append(abs(x - y) / size if size else 0.0)
    else:
        into["not_finite"].append(1)
