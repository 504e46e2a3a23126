"""Repository settings: from argument, environment or configuration file, in this order."""

from __future__ import annotations

import os
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlsplit

from tidegauge.analyzers.core.errors import DatabaseAccessError, UnknownNameError
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.stored_states import Artifacts

DEFAULT_URL = "sqlite:///tidegauge.db"
SETTINGS_FILE = "tidegauge.toml"


class Settings(TypedDict, total=False):
    """Settings of ``tidegauge.toml``, which apply unless a variable of the environment is set.

    Attributes
    ----------
    db : str
        URL of the repository's database.
    artifacts : str
        Folder of large states.
    notify : list of str
        Destinations of notifications for incidents in all datasets.
    dashboard_url : str
        Address of the served dashboard, for links to it.
    private : dict
        Columns, tables and tags whose values are not stored or shown.
    """

    db: str
    artifacts: str
    notify: list[str]
    dashboard_url: str
    private: dict[str, list[str]]


_SETTING_NAMES = tuple(Settings.__annotations__)
_PRIVACY_FIELDS = tuple(field.name for field in fields(Privacy))


def settings(url: str | None, artifacts: str | Path | None) -> tuple[str, str | Path | None]:
    """Return the database URL and the artifacts folder.

    Values not given come from ``TIDEGAUGE_DB`` and ``TIDEGAUGE_ARTIFACTS``, else from ``db`` and
    ``artifacts`` in the configuration file. Its path is ``TIDEGAUGE_CONFIG``, else
    ``tidegauge.toml`` in the working directory, else ``tidegauge/tidegauge.toml`` in the user's
    configuration directory. The file's ``artifacts`` applies to the file's ``db`` only, and a
    SQLite URL given as an argument uses the folder next to its file.

    Raises
    ------
    DatabaseAccessError, UnknownNameError
        If the configuration file is unreadable, or has an invalid value or an unknown setting.
    """
    artifacts_variable = os.environ.get("TIDEGAUGE_ARTIFACTS")
    if url is not None:
        return url, artifacts or (None if url.startswith("sqlite") else artifacts_variable)
    if url := os.environ.get("TIDEGAUGE_DB"):
        return url, artifacts or artifacts_variable
    stored = _stored()
    return stored.get("db", DEFAULT_URL), artifacts or artifacts_variable or stored.get("artifacts")


def notify_settings() -> list[str]:
    """Return the notification sinks for incidents in all datasets.

    They come from ``TIDEGAUGE_NOTIFY``, separated by whitespace, else from the list ``notify`` in
    the configuration file.

    Raises
    ------
    DatabaseAccessError, UnknownNameError
        If the configuration file is unreadable, or has an invalid value or an unknown setting.
    """
    sinks = os.environ.get("TIDEGAUGE_NOTIFY")
    return list(_stored().get("notify", [])) if sinks is None else sinks.split()


def dashboard_url() -> str | None:
    """Return the address of the served dashboard, for links to it; None if it is not set.

    It comes from ``TIDEGAUGE_DASHBOARD_URL``, else from ``dashboard_url`` in the configuration file.

    Raises
    ------
    DatabaseAccessError, UnknownNameError
        If the address is not one of ``http://`` or ``https://``, or the configuration file is
        unreadable, or has an invalid value or an unknown setting.
    """
    url = os.environ.get("TIDEGAUGE_DASHBOARD_URL") or _stored().get("dashboard_url")
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.fragment:
        msg = f"dashboard_url is {url!r}; use an address such as https://host/, without a part after #"
        raise DatabaseAccessError(msg)
    return str(url)


def privacy_settings() -> Privacy:
    """Return the private columns, tables and tags: the table ``[private]`` of the configuration file.

    Examples
    --------
    In ``tidegauge.toml``::

        [private]
        columns = ["*email*", "ssn"]
        tables = ["hr.*"]
        tags = ["pii"]

    Raises
    ------
    DatabaseAccessError, UnknownNameError
        If the configuration file is unreadable, or has an invalid value or an unknown setting.
    """
    return Privacy(
        **{key: tuple(patterns) for key, patterns in _stored().get("private", {}).items()}
    )


def _stored() -> dict[str, Any]:
    file = _file()
    if file is None:
        return {}
    try:
        stored = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        msg = f"cannot read the configuration {file}: {error}"
        raise DatabaseAccessError(msg) from error
    for key, value in stored.items():
        if key not in _SETTING_NAMES:
            kind = f"setting in {file}"
            raise UnknownNameError(kind, key, _SETTING_NAMES)
        if key == "notify":  # may hold secrets, so it is not shown
            if not isinstance(value, list) or not all(isinstance(sink, str) for sink in value):
                msg = f"{file}: notify must be a list of strings"
                raise DatabaseAccessError(msg)
        elif key == "private":
            _check_private(file, value)
        elif not isinstance(value, str):
            msg = f"{file}: {key} is a string, not {value!r}"
            raise DatabaseAccessError(msg)
    return stored


def _check_private(file: Path, value: Any) -> None:
    lists_by_key = value if isinstance(value, dict) else {}
    for key in lists_by_key:
        if key not in _PRIVACY_FIELDS:
            kind = f"setting of [private] in {file}"
            raise UnknownNameError(kind, key, _PRIVACY_FIELDS)
    lists = [
        patterns if isinstance(patterns, list) else [None] for patterns in lists_by_key.values()
    ]
    if not isinstance(value, dict) or not all(
        isinstance(x, str) for patterns in lists for x in patterns
    ):
        msg = (
            f'{file}: private must be a table of lists of strings: [private] columns = ["*email*"]'
        )
        raise DatabaseAccessError(msg)


def _file() -> Path | None:
    configured = os.environ.get("TIDEGAUGE_CONFIG")
    if configured:
        return Path(configured)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    candidates = (Path(SETTINGS_FILE), home / "tidegauge" / SETTINGS_FILE)
    return next((file for file in candidates if file.is_file()), None)


def artifacts_of(database: Database, folder: str | Path | None) -> Artifacts:
    """Return the folder of a database's large states (default: next to the SQLite file).

    PostgreSQL has no default; code that writes states calls `Artifacts.require_folder`.
    """
    if folder is not None:
        return Artifacts(folder)
    if database.file is not None:
        return Artifacts(database.file.with_name(database.file.name + ".artifacts"))
    if database.is_sqlite:
        return Artifacts(None)
    return Artifacts(None, database.name)
