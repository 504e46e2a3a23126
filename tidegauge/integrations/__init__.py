"""Operators and assets for schedulers: Airflow and Dagster."""

from __future__ import annotations

from typing import Any


def airflow_provider() -> dict[str, Any]:
    """Return what Airflow is told of this package, by its entry point ``apache_airflow_provider``."""
    return {
        "package-name": "tidegauge",
        "name": "tidegauge",
        "description": "Data quality metrics and anomalies of tables.",
        "extra-links": ["tidegauge.integrations.airflow.DashboardLink"],
    }
