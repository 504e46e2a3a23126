"""HTTP sink for Elasticsearch, or any service that accepts JSON."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from time import sleep
from typing import Any
from urllib.parse import urlsplit

from tidegauge.analyzers.core.errors import GriffinConfigError, SinkError
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.griffin.sinks.base import Sink

_MOST_TRIES = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
"""HTTP status codes that are retried."""
_LONGEST_REASON = 300


class HttpSink(Sink):
    """Send a JSON document for each time over HTTP; records are not sent.

    Keys: ``api``, ``method``, ``connection.timeout``, ``retry``, ``headers``.

    Parameters
    ----------
    name : str
    config : mapping
    """

    required = ("api",)

    def check(self) -> None:
        """Validate the configuration."""
        super().check()
        api = str(self.config["api"])
        if urlsplit(api).scheme not in {"http", "https"}:
            msg = f"sink {self.name!r}: 'api' must begin with http:// or https://, not {hide_secrets(api)!r}"
            raise GriffinConfigError(msg)
        method = self._method
        if method not in {"POST", "PUT"}:
            msg = f"sink {self.name!r}: 'method' must be 'post' or 'put', not {method.lower()!r}"
            raise GriffinConfigError(msg)
        if not isinstance(self.config.get("headers", {}), Mapping):
            msg = f"sink {self.name!r}: 'headers' must be a mapping"
            raise GriffinConfigError(msg)
        _ = self._tries, self._timeout

    @property
    def _method(self) -> str:
        return str(self.config.get("method") or "post").upper()

    @property
    def _tries(self) -> int:
        return max(0, self.number("retry", 10, _MOST_TRIES)) + 1

    @property
    def _timeout(self) -> float:
        asked = self.time("connection.timeout", 60_000)
        return (asked if asked > 0 else 60_000) / 1000

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Send the metrics of a time, with retries and exponential backoff."""
        body = self.document(timestamp, values).encode()
        headers = {"Content-Type": "application/json", **self.config.get("headers", {})}
        url = str(self.config["api"])
        request = urllib.request.Request(url, body, headers, method=self._method)  # noqa: S310 - checked
        pause = _FIRST_PAUSE
        for left in reversed(range(self._tries)):
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                    answer.read()
                    return
            except OSError as error:
                status, reason = None, ""
                if isinstance(error, urllib.error.HTTPError):
                    status, reason = error.code, server_reason(error)
                if not left or (status is not None and status not in _AGAIN):
                    tried = f" after {self._tries - left} tries" if self._tries - left > 1 else ""
                    msg = f"sink {self.name!r}: {url}: {error}{reason}{tried}"
                    raise SinkError(hide_secrets(msg, self.config)) from error
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def server_reason(error: urllib.error.HTTPError) -> str:
    """Return the reason that Elasticsearch gives for a refusal, in brackets; empty if there is none.

    The answer is closed.
    """
    with error:
        try:
            told = json.loads(error.read())["error"]
        except (OSError, ValueError, LookupError, TypeError):
            return ""
    reason = told.get("reason") if isinstance(told, Mapping) else told
    return f" ({reason[:_LONGEST_REASON]})" if isinstance(reason, str) else ""
