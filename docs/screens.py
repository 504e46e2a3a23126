"""Take the pictures of the dashboard.

python docs/screens.py desk [docs/screens]                          those of on-call.md, in both themes and two widths
python docs/screens.py sqlite:///.demo/tidegauge.db [docs/screens]  the guide's, on what ``make demo`` fills
python docs/screens.py views FOLDER                                 every view, in both themes and three widths, to look at

Needs Chromium. The repository is only read; that of the desk is made by `desk.make_desk`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path[0] = str(Path(__file__).resolve().parents[1])

from playwright.sync_api import Page, sync_playwright

import tidegauge as tg
from tests.services.servers import dashboard_server

SIZE = {"width": 1280, "height": 760}
DESK_SIZE = {"width": 1440, "height": 860}
NARROW = {"width": 1024, "height": 768}
SIZES = {"": DESK_SIZE, "-narrow": NARROW}
VIEW_SIZES = {f"-{width}": {"width": width, "height": 900} for width in (1440, 1000, 700)}
BLIZZARD = "ds=2013-02-08"


def options(repo: tg.Repository) -> dict[str, dict[str, Any]]:
    """Return what each view is to show."""
    found = repo.anomalies("flights", name="Completeness", instance="dep_time", where="")
    worst = found[found["partition"] == BLIZZARD].iloc[0]
    return {
        "overview": {"fold": False},
        "compare": {
            "kind": "partitions",
            "baseline": {"partition": "ds=2013-02-01"},
            "current": {"partition": BLIZZARD},
        },
        "distribution": {
            "column": "dep_delay",
            "baseline": {"since": "2013-02-08", "until": "2013-03-07"},
            "current": {"partition": "ds=2013-03-08"},
            "tails": False,
            "over": "psi",
            "curve": "cumulative",
        },
        "incidents": {"id": int(worst["incident_id"]), "status": ""},
    }


IDLE = "() => document.querySelector('.tidegauge').tidegauge.link.pending.size === 0"


def settle(page: Page) -> None:
    """Wait until the view is drawn and everything that it asked for is there: small lines, drifts, seasons."""
    quiet, deadline = 0, time.monotonic() + 120
    while quiet < 3 and time.monotonic() < deadline:  # pages forbid the eval of wait_for_function
        page.wait_for_timeout(300)
        quiet = quiet + 1 if page.evaluate(IDLE) else 0
    page.wait_for_selector(".tidegauge[data-state=drawn]")
    page.wait_for_timeout(500)


def turn(page: Page, view: str, chosen: dict[str, Any] | None) -> None:
    """Turn to a view, and wait until it is drawn."""
    go = "([view, options]) => document.querySelector('.tidegauge').tidegauge.go(view, options ?? undefined)"
    page.evaluate(go, [view, chosen])
    page.wait_for_selector(f".tidegauge[data-view={view}][data-state=drawn]")
    settle(page)


def shoot(page: Page, folder: Path, chosen: dict[str, dict[str, Any]], theme: str) -> None:
    """Take the pictures in one theme."""
    suffix = "" if theme == "light" else "-dark"
    wanted = ("overview", "series", "compare", "distribution", "incidents", "partitions")
    for view in wanted if theme == "light" else wanted[:1]:
        if view == "series":
            find = "() => { const {catalogue: c} = document.querySelector('.tidegauge').tidegauge; return ['Completeness dep_time', 'Completeness arr_time'].map(t => { for (let r = 0; r < c.rows; r++) if (c.title(r) === t) return c.ids[r]; }).filter(Boolean).slice(0, 1); }"
            chosen = {**chosen, "series": {"ids": page.evaluate(find)}}
        turn(page, view, {"sort": "worst", "fold": False} if theme == "dark" else chosen.get(view))
        root = page.locator(".tidegauge")
        root.screenshot(path=folder / f"{view}{suffix}.png")


def desk(folder: Path) -> None:
    """Take the pictures of on-call.md."""
    from benchmarks.synthetic import consistent
    from docs.desk import make_desk

    with tempfile.TemporaryDirectory() as temporary:
        url = f"sqlite:///{Path(temporary) / 'desk.db'}"
        incident = make_desk(url)
        days, series = _orders(url, incident)
        sides = {"baseline": {"partition": days[-8]}, "current": {"partition": days[-1]}}
        pages = {
            "home": "#/home",
            "heat-map": "#/overview",
            "inbox": "#/incidents?status=open",
            "incident": f"#/incidents/{incident}",
            "cause": f"#/series?ids={quote(json.dumps(series[:2]))}",
            "weeks": f"#/compare?dataset=sales_orders&{_weeks(days)}",
            "shares": f"#/distribution?dataset=sales_orders&column=country&{_address(sides)}",
            "calendar": f"#/partitions?dataset=sales_orders&partition={quote(days[-1])}",
        }
        visit(Path(temporary), url, pages, folder, SIZES)
        features = Path(temporary) / "features.db"
        consistent.make(features, 30, 60)
        page = {"features": f"#/consistency?dataset={consistent.DATASET_NAME}"}
        visit(Path(temporary), f"sqlite:///{features}", page, folder, SIZES)


def views(folder: Path) -> None:
    """Take a picture of every view, in both themes and three widths."""
    from benchmarks.synthetic import consistent
    from docs.desk import make_desk

    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "desk.db"
        incident = make_desk(f"sqlite:///{file}")
        consistent.make(file, 30, 60)
        days, series = _orders(f"sqlite:///{file}", incident)
        at = _address({"baseline": {"partition": days[-8]}, "current": {"partition": days[-1]}})
        pages = {
            "home": "#/home",
            "heat-map": "#/overview",
            "heat-map-of-one": "#/overview?table=sales_orders",
            "series": f"#/series?ids={quote(json.dumps(series))}",
            "series-of-one": f"#/series?ids={quote(json.dumps(series[:1]))}",
            "compare": f"#/compare?dataset=sales_orders&{at}",
            "compare-weeks": f"#/compare?dataset=sales_orders&{_weeks(days)}",
            "distribution": f"#/distribution?dataset=sales_orders&column=country&{at}",
            "consistency": f"#/consistency?dataset={consistent.DATASET_NAME}",
            "inbox": "#/incidents?status=open",
            "incident": f"#/incidents/{incident}",
            "partitions": f"#/partitions?dataset=sales_orders&partition={quote(days[-1])}",
        }
        visit(Path(temporary), f"sqlite:///{file}", pages, folder, VIEW_SIZES)


def _orders(url: str, incident: int) -> tuple[list[str], list[int]]:
    """Return the partitions of ``sales_orders``, and the series of the incident's cause and of its parts."""
    with tg.Repository(url, read_only=True) as repo:
        cause = repo.incident(incident).causes.moves[0]
        days = repo.partitions("sales_orders")["partition"].tolist()
    ranked = [
        cause.part_series[dimension.name, part.name]
        for dimension in cause.dimensions
        for part in dimension.parts
    ]
    return days, [cause.series, *ranked][:3]


def _weeks(days: list[str]) -> str:
    """Return the last two weeks of days as part of an address."""
    return _address(
        {
            "baseline": {"since": days[-14][3:], "until": days[-8][3:]},
            "current": {"since": days[-7][3:], "until": days[-1][3:]},
        }
    )


def _address(sides: dict[str, Any]) -> str:
    """Return the sides of a comparison as part of an address."""
    return "&".join(f"{name}={quote(json.dumps(side))}" for name, side in sides.items())


def visit(
    working: Path, url: str, pages: dict[str, str], folder: Path, sizes: dict[str, Any]
) -> None:
    """Take a picture of each page in both themes and some sizes."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with dashboard_server(working, url) as (_, address), sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        for (suffix, size), theme in product(sizes.items(), ("light", "dark")):
            page = browser.new_page(viewport=size)
            page.set_default_timeout(120_000)
            page.goto(f"{address}?theme={theme}#/home")
            for name, place in pages.items():
                page.evaluate("place => { location.hash = place; }", place)
                settle(page)
                dark = "" if theme == "light" else "-dark"
                page.locator(".tidegauge").screenshot(path=folder / f"{name}{suffix}{dark}.png")
            page.close()
        browser.close()


def main(url: str, target: str = "docs/screens") -> None:
    """Take all pictures of one kind."""
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    if url in {"desk", "views"}:
        {"desk": desk, "views": views}[url](folder)
        return
    with tg.Repository(url, read_only=True) as repo:
        chosen = options(repo)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as temporary,
        dashboard_server(Path(temporary), url, "--read-only") as (_, address),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        for theme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE)
            page.goto(f"{address}?theme={theme}#/overview")
            page.wait_for_selector(".tidegauge[data-state=drawn]")
            shoot(page, folder, chosen, theme)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
