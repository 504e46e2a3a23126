"""Tables on S3 in a metastore service, tested in a separate process."""

import os
import subprocess
import sys

import pytest

from tests.paths import ROOT


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.postgres
def test_tables_on_s3_in_a_metastore_service_are_measured():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/metastore"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=ROOT,
        env={**os.environ, "TIDEGAUGE_SESSION": "metastore"},
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "3 passed" in done.stdout
