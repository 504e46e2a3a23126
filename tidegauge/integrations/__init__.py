"""Operators and assets for schedulers: Airflow and Dagster."""

from __future__ import annotations

from typing import Any


def airflow_provider() -> dict[str, Any]:
    """Return the description of this package for Airflow's entry point ``apache_airflow_provider``."""
    return {
        "package-name": "tidegauge",
        "name": "tidegauge",
        "description": "Data quality metrics and anomalies of tables.",
        "extra-links": ["tidegauge.integrations.airflow.DashboardLink"],
    }
