"""Kept databases, as earlier revisions wrote them."""

import gzip
import shutil
from pathlib import Path

import psycopg

from tests.paths import DATA

KEPT = DATA / "kept"


def put_kept(name, url, folder):
    """Replace an empty database by a kept one, and copy its artifacts to a folder."""
    if url.startswith("sqlite"):
        content = gzip.decompress((KEPT / f"{name}.db.gz").read_bytes())
        Path(url.removeprefix("sqlite:///")).write_bytes(content)
    else:
        text = gzip.decompress((KEPT / f"{name}.sql.gz").read_bytes()).decode()
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute(text)
    shutil.copytree(KEPT / "artifacts", folder, dirs_exist_ok=True)
