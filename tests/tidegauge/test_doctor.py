"""The report of `doctor` on a session."""

import pytest

import tidegauge as tg
from tidegauge.analyzers.scan import capabilities as module
from tidegauge.analyzers.scan.capabilities import Capabilities
from tidegauge.installation import (
    STATUS_MISSING,
    STATUS_OK,
    STATUS_WRONG,
    WORKER_FIX,
    examine,
    examine_spark,
)

PACKAGES = {f"{name} of Spark's Python workers" for name in ("pyarrow", "numpy", "datasketches")}


@pytest.mark.spark
def test_a_session_is_examined(spark):
    actual = {one.subject: one for one in examine_spark(spark)}
    assert actual.pop("Spark").finding == spark.version
    assert actual.keys() >= PACKAGES
    assert {one.status for one in actual.values()} == {STATUS_OK}


class Session:
    version = "3.5.0"


def test_fallbacks_and_missing_packages_of_workers_are_reported(monkeypatch):
    least = Capabilities(frozenset({"hll"}), smallest_rows=False)
    monkeypatch.setattr(module, "capabilities", lambda _: least)
    monkeypatch.setattr(module, "worker_versions", lambda _: {"pyarrow": "15.0", "numpy": None})
    actual = {one.subject: one for one in examine_spark(Session())}
    assert actual["KLL quantiles"].finding.endswith("computed in Python workers, with datasketches")
    assert actual["pyarrow of Spark's Python workers"].finding == "15.0"
    lacking = actual["numpy of Spark's Python workers"]
    assert (lacking.status, lacking.finding, lacking.fix) == (
        STATUS_MISSING,
        "not installed",
        WORKER_FIX,
    )


def test_an_old_spark_version_is_reported(monkeypatch):
    def refuse(_):
        raise module.UnsupportedSparkError("Spark 3.2 is too old")

    monkeypatch.setattr(module, "capabilities", refuse)
    (actual,) = examine_spark(Session())
    assert (actual.status, actual.finding) == (STATUS_WRONG, "Spark 3.2 is too old")


def test_the_own_version_comes_first(tmp_path):
    first = next(iter(examine(f"sqlite:///{tmp_path / 'r.db'}")))
    assert (first.subject, first.finding) == ("Tidegauge", tg.__version__)


def test_no_part_of_a_password_is_shown(tmp_path):
    from tidegauge.installation import _check_repository

    for url in (
        "postgresql+psycopg://me:a@b:s3cret@host/db",
        "postgresql://me:s3cret@host:port/db",
    ):
        actual = _check_repository(url)
        assert actual.status == STATUS_WRONG
        assert "s3cret" not in str(actual)
    missing = _check_repository(f"sqlite:///{tmp_path / 'nope.db'}")
    assert missing.finding.endswith("nope.db does not exist yet; the first run creates it")
    assert not (tmp_path / "nope.db").exists()


def test_packages_that_do_not_fit_each_other_are_named_with_the_fix(tmp_path, monkeypatch):
    """pyarrow 26 is installed with NumPy 1, which Spark 3.5 requires."""
    from tidegauge import installation

    def import_module(name):
        if name == "pyarrow":
            raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4")

    monkeypatch.setattr(installation, "import_module", import_module)
    monkeypatch.setattr(installation, "version", lambda name: "1.26.4")
    by_subject = {one.subject: one for one in examine(f"sqlite:///{tmp_path / 'r.db'}")}
    pyarrow = by_subject["pyarrow, for measuring tables"]
    assert (pyarrow.status, pyarrow.fix) == (STATUS_WRONG, "pip install 'pyarrow<26'")
    assert "NumPy 2.0 or newer" in pyarrow.finding
    assert by_subject["numpy, for measuring tables"].status == STATUS_OK
    with pytest.raises(tg.SetupError, match=r"pyarrow cannot be imported: .* Run: pip install"):
        installation.require_array_packages.__wrapped__()
