"""Elasticsearch connector, over the HTTP API."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as percent

from tidegauge.analyzers.core.errors import GriffinConfigError, SourceError
from tidegauge.griffin.connectors.base import Connector
from tidegauge.griffin.connectors.conditions import condition_sql, selection_sql
from tidegauge.griffin.plugins import suggested
from tidegauge.griffin.sinks.http import server_reason
from tidegauge.spark.schemas import read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = (
    "es.nodes",
    "es.port",
    "es.net.ssl",
    "es.net.http.auth.user",
    "es.net.http.auth.pass",
    "es.scroll.size",
    "es.scroll.keepalive",
)
_WAIT = 60
_SHOWN = 100
"""Number of documents whose fields are looked at where only the columns matter."""


class ElasticsearchConnector(Connector):
    """Read Elasticsearch documents.

    Keys: ``paths`` of indexes, ``selectionExprs``, ``filterExprs``, and ``options`` as in
    Elasticsearch for Hadoop. All documents pass through the driver, in pages. Expressions are in
    the DSL. The older keys ``index``, ``host``, ``port`` and ``fields`` are supported too.

    Parameters
    ----------
    config : mapping
    """

    required = (("paths", "index"),)

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration."""
        super().check(spark)
        unknown = [name for name in self.options() if name not in _OPTIONS]
        if unknown:
            msg = f"unknown option {unknown[0]!r}; {suggested(unknown[0], _OPTIONS)}"
            raise GriffinConfigError(msg)
        if self.config.get("sql"):
            msg = "'sql' is not read any more; write 'selectionExprs' and 'filterExprs'"
            raise GriffinConfigError(msg)
        for text in self.texts("filterExprs"):
            condition_sql(text)
        for text in self.texts("selectionExprs") + self.texts("fields"):
            selection_sql(text)

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all documents that pass the filters."""
        return self._frame(spark, self._documents())

    def columns(self, spark: SparkSession) -> DataFrame:
        """Return the columns that the first 100 documents have; no others are read."""
        page = self._ask(f"/{self._path}/_search", {"size": _SHOWN, "sort": ["_doc"]})
        return self._frame(spark, (hit["_source"] for hit in page["hits"]["hits"]))

    def _frame(self, spark: SparkSession, documents: Iterable[Mapping[str, Any]]) -> DataFrame:
        found = [(json.dumps(document),) for document in documents]
        if not found:
            msg = f"there are no documents in {', '.join(self._indexes)}, so nothing tells their fields"
            raise SourceError(msg)
        frame = read_json(spark.createDataFrame(found, "value STRING"))
        for text in self.texts("filterExprs"):
            frame = frame.where(condition_sql(text))
        wanted = self.texts("selectionExprs") + self.texts("fields")
        return frame.selectExpr(*map(selection_sql, wanted)) if wanted else frame

    @property
    def _indexes(self) -> list[str]:
        return self.texts("paths" if self.config.get("paths") else "index")

    @property
    def _path(self) -> str:
        return ",".join(percent(index, safe="*") for index in self._indexes)

    def _documents(self) -> Iterator[Mapping[str, Any]]:
        options = self.options()
        keep = options.get("es.scroll.keepalive", "5m")
        size = int(options.get("es.scroll.size", "1000"))
        page = self._ask(
            f"/{self._path}/_search?scroll={percent(keep)}", {"size": size, "sort": ["_doc"]}
        )
        try:
            while page["hits"]["hits"]:
                for hit in page["hits"]["hits"]:
                    yield hit["_source"]
                scroll = page["_scroll_id"]
                page = self._ask("/_search/scroll", {"scroll": keep, "scroll_id": scroll})
        finally:  # else the server holds it for minutes
            if scroll := page.get("_scroll_id"):
                with suppress(SourceError, OSError):
                    self._ask("/_search/scroll", {"scroll_id": scroll}, "DELETE")

    def _ask(self, path: str, body: Mapping[str, Any], method: str = "POST") -> dict[str, Any]:
        options = self.options()
        node = options.get("es.nodes") or self.text("host", default="localhost")
        node = node.split(",")[0].strip()
        if "://" not in node:
            node = f"{'https' if options.get('es.net.ssl') == 'true' else 'http'}://{node}"
        if ":" not in node.partition("://")[2]:
            node = f"{node}:{options.get('es.port') or self.text('port', default='9200')}"
        request = urllib.request.Request(  # noqa: S310 - the scheme is configured
            node + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        if user := options.get("es.net.http.auth.user"):
            told = f"{user}:{options.get('es.net.http.auth.pass', '')}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(told).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=_WAIT) as answer:  # noqa: S310
                found: dict[str, Any] = json.loads(answer.read())
        except (OSError, ValueError) as error:
            reason = server_reason(error) if isinstance(error, urllib.error.HTTPError) else ""
            msg = f"cannot read {node}{path.partition('?')[0]}: {error}{reason}"
            raise SourceError(msg) from error
        return found
