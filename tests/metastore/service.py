"""Hive Metastore as a separate service, on PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pyspark

from tests.services.maven import jars_of
from tests.services.servers import S3, Server, free_port
from tidegauge.spark.session import ensure_java

METASTORE = "org.apache.hive:hive-standalone-metastore:3.1.3:tar.gz:bin!"
BESIDE = ("org.postgresql:postgresql:42.7.8!", "commons-collections:commons-collections:3.2.2")
SDK = "2.35.4"
HADOOP_AWS = (
    "org.apache.hadoop:hadoop-aws:3.5.0!",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1!",
    *(
        f"software.amazon.awssdk:{name}:{SDK}"
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client")
    ),
)
"""S3 for Hadoop 3.5, which Spark 4.3 contains, without the bundle of all Amazon clients."""
OF_SPARK = ("hadoop-client-", "commons-", "jcl-over-slf4j-", "slf4j-api-")
"""Jars of Spark that the metastore needs: Hadoop, and its dependencies."""


def s3a(store: S3) -> dict[str, str]:
    """Return Hadoop's settings for a store."""
    return {
        "fs.s3a.endpoint": store.address,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": store.environment["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": store.environment["AWS_SECRET_ACCESS_KEY"],
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.input.stream.type": "classic",
        "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }


class Metastore:
    """A service on a free port. Its tables are in a new database."""

    def __init__(self, folder: Path, postgres, store: S3) -> None:
        (archive,) = jars_of(METASTORE)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (home,) = folder.glob("*/lib")
        url = postgres.database()
        database = url.rpartition("/")[2]
        (script,) = home.parent.glob("scripts/**/hive-schema-3.1.0.postgres.sql")
        address = f"host=127.0.0.1 port={postgres.port} user=tester dbname={database}"
        done = subprocess.run(
            ["psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={script}", address],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        spark = Path(pyspark.__file__).parent / "jars"
        jars = [str(jar) for jar in spark.glob("*.jar") if jar.name.startswith(OF_SPARK)]
        classes = [f"{home}/*", *jars, *jars_of(*BESIDE), *jars_of(*HADOOP_AWS)]
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{postgres.port}/{database}",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": "tester",
            "javax.jdo.option.ConnectionPassword": "none",
            "metastore.warehouse.dir": f"{folder}/warehouse",
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
            **s3a(store),
        }
        self.port = free_port()
        reported = [word for k, v in settings.items() for word in ("--hiveconf", f"{k}={v}")]
        command = [ensure_java(), "-Xmx512m", "-cp", os.pathsep.join(classes)]
        name = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        self.server = Server(
            [*command, name, "-p", str(self.port), *reported], folder, dict(os.environ)
        )
        self._wait()

    def _wait(self, within: float = 120.0) -> None:
        deadline = time.monotonic() + within
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self.server.process.poll() is None, f"it ended: {self.server.output[-3000:]}"
            assert time.monotonic() < deadline, f"it does not answer: {self.server.output[-3000:]}"
            time.sleep(0.1)

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"thrift://127.0.0.1:{self.port}"
