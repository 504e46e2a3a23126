"""The rows that all tools read."""

ORDERS = [("a-1", 1, 5), ("a-2", 2, 6), ("a-3", 3, None)]
ORDER_COLUMNS = "code string, line long, price long"

TRIPS = [
    (1, 1, "card", 12.5),
    (2, 4, "cash", 8.0),
    (3, 7, None, 30.25),
    (4, 2, "card", 0.5),
    (4, 3, "coin", 15.0),
]
TRIP_COLUMNS = "id int, passengers int, payment string, fare double"

REVIEWS = """SELECT concat('r', id) AS review, pmod(hash(id), 5) + 1 AS stars,
    pmod(hash(id, 1), 40) AS helpful, pmod(hash(id), 5) * 8 + pmod(hash(id, 2), 7) AS votes,
    IF(id % 10 = 0, NULL, concat('p', pmod(hash(id, 3), 25))) AS product FROM range(2000)"""
"""Reviews with stars from 1 to 5, votes that correlate with the stars, and a tenth without a product."""
