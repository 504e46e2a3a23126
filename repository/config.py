"""Where the repository is: by argument, environment or configuration file, in this order."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from analyzers.errors import DatabaseAccessError, UnknownNameError

DEFAULT_URL = "sqlite:///tidegauge.db"
FILE = "tidegauge.toml"
_KEYS = ("db", "artifacts", "notify")


def settings(url: str | None, artifacts: str | Path | None) -> tuple[str, str | Path | None]:
    """Return the database's URL and the artifacts' folder.

    What is not given comes from ``TIDEGAUGE_DB`` and ``TIDEGAUGE_ARTIFACTS``, else from ``db`` and
    ``artifacts`` in the file that ``TIDEGAUGE_CONFIG`` names, in ``tidegauge.toml`` here, or in
    ``tidegauge/tidegauge.toml`` below the user's folder of configurations. The file's folder is for the
    file's database only, and a SQLite file that is named keeps the folder beside it.

    Raises
    ------
    DatabaseAccessError, UnknownNameError
        If the file cannot be read, or says something else.
    """
    given = os.environ.get("TIDEGAUGE_ARTIFACTS")
    if url is not None:
        return url, artifacts or (None if url.startswith("sqlite") else given)
    if url := os.environ.get("TIDEGAUGE_DB"):
        return url, artifacts or given
    stored = _stored()
    return stored.get("db", DEFAULT_URL), artifacts or given or stored.get("artifacts")


def notify_settings() -> list[str]:
    """Return the sinks that are told of incidents in all datasets.

    They come from ``TIDEGAUGE_NOTIFY``, separated by white space, else from the list ``notify`` in the
    configuration file.

    Raises
    ------
    DatabaseAccessError, UnknownNameError
        If the file cannot be read, or says something else.
    """
    given = os.environ.get("TIDEGAUGE_NOTIFY")
    return list(_stored().get("notify", [])) if given is None else given.split()


def _stored() -> dict[str, Any]:
    file = _file()
    if file is None:
        return {}
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        msg = f"cannot read the configuration {file}: {error}"
        raise DatabaseAccessError(msg) from error
    for key, value in found.items():
        if key not in _KEYS:
            kind = f"setting in {file}"
            raise UnknownNameError(kind, key, _KEYS)
        if key == "notify":  # may hold secrets, so it is not shown
            if not isinstance(value, list) or not all(isinstance(sink, str) for sink in value):
                msg = f"{file}: notify is a list of texts"
                raise DatabaseAccessError(msg)
        elif not isinstance(value, str):
            msg = f"{file}: {key} is text, not {value!r}"
            raise DatabaseAccessError(msg)
    return found


def _file() -> Path | None:
    named = os.environ.get("TIDEGAUGE_CONFIG")
    if named:
        return Path(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = (Path(FILE), home / "tidegauge" / FILE)
    return next((place for place in places if place.is_file()), None)
