"""Errors of broken connections to Spark, which do not mention Spark themselves."""

import pytest

from tidegauge.analyzers.core.errors import describe, has_spark_ended

REFUSED = ConnectionRefusedError(111, "Connection refused")


class SparkConnectGrpcException(Exception):
    """Stands for PySpark's class of this name."""


class Py4JNetworkError(Exception):
    """Stands for py4j's class of this name."""


def raised_in(module, error):
    """Return an error raised by a function of a module with the given name."""
    names = {"__name__": module, "error": error}
    exec("def connect():\n    raise error", names)  # noqa: S102 - a function of another module
    try:
        names["connect"]()
    except Exception as caught:  # noqa: BLE001 - of any class
        return caught


@pytest.mark.parametrize(
    "error",
    [
        raised_in("py4j.java_gateway", ConnectionRefusedError(111, "Connection refused")),
        raised_in("py4j.clientserver", ConnectionResetError(104, "Connection reset by peer")),
        raised_in("py4j.clientserver", EOFError()),
        Py4JNetworkError("Answer from Java side is empty"),
        SparkConnectGrpcException("status = StatusCode.UNAVAILABLE"),
    ],
    ids=repr,
)
def test_the_error_of_a_broken_connection_names_spark_and_the_fix(error):
    description = describe(error)
    assert description.startswith(f"Spark does not answer ({type(error).__name__}")
    assert "spark.driver.memory" in description
    assert "run again" in description


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        raised_in("requests.adapters", ConnectionRefusedError(111, "Connection refused")),
        raised_in("py4j.protocol", ValueError("no such column")),
        ValueError("the service is UNAVAILABLE"),
    ],
    ids=repr,
)
def test_other_errors_are_unchanged(error):
    assert not has_spark_ended(error)
    assert describe(error).startswith(type(error).__name__)
