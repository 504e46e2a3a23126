"""Draw the README's picture from the repository that ``make demo`` fills.

python docs/picture.py sqlite:///.demo/tidegauge.db docs/flights.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidegauge as tg

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 260, 46, 34, 26


def main(url: str, target: str) -> None:
    """Draw the completeness of dep_time, what was usual, and the anomalies."""
    with tg.Repository(url) as repo:
        frame = repo.metrics("flights", analyzer="Completeness('dep_time')").set_index("partition")
        found = repo.anomalies("flights")
        band = repo.scores("flights", analyzer="Completeness('dep_time')").set_index("partition")
    frame = frame.join(band[["lower", "upper"]])
    alarms = set(found.loc[found["analyzer"] == "Completeness('dep_time')", "partition"])
    step = (WIDTH - LEFT - 10) / (len(frame) - 1)
    x = {name: LEFT + i * step for i, name in enumerate(frame.index)}

    def y(value: float) -> float:
        return TOP + (1 - value) / 0.65 * (HEIGHT - TOP - BOTTOM)

    known = frame.dropna(subset=["lower", "upper"])
    edge = [f"{x[n]:.1f},{y(v):.1f}" for n, v in known["upper"].items()]
    edge += [f"{x[n]:.1f},{y(max(v, 0.35)):.1f}" for n, v in known["lower"][::-1].items()]
    line = " ".join(f"{x[n]:.1f},{y(v):.1f}" for n, v in frame["value"].items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="13">Completeness of dep_time, flights from New York, 2013</text>',
        f'<polygon points="{" ".join(edge)}" fill="#cfe3f5"/>',
        *(
            f'<text x="{LEFT - 6}" y="{y(v) + 4:.0f}" text-anchor="end" fill="#555">{v:.0%}</text>'
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
            for v in (0.4, 0.6, 0.8, 1.0)
        ),
        f'<polyline points="{line}" fill="none" stroke="#1f5f99" stroke-width="1.2"/>',
        *(
            f'<circle cx="{x[n]:.1f}" cy="{y(frame.loc[n, "value"]):.1f}" r="4" fill="#d62728"/>'
            for n in frame.index
            if n in alarms
        ),
        *(
            f'<text x="{x[n] + 8:.0f}" y="{y(frame.loc[n, "value"]) + 4:.0f}" fill="#d62728">{n[3:]}</text>'
            for n in ("ds=2013-02-09",)
        ),
        *(
            f'<text x="{x[f"ds=2013-{m:02}-01"]:.0f}" y="{HEIGHT - 8}" fill="#555">{name}</text>'
            for m, name in [(1, "Jan"), (3, "Mar"), (5, "May"), (7, "Jul"), (9, "Sep"), (11, "Nov")]
        ),
        "</svg>",
    ]
    Path(target).write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
