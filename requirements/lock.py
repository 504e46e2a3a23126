"""Pin all requirements: names, versions and hashes, and no host's name.

``demo.txt`` is a part of ``dev.txt``, so that one environment can hold both.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
COMMON = [
    *("--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade"),
    *("--no-header", "--no-emit-index-url", "--no-annotate", "--quiet"),
]


def pin(
    name: str, *options: str, sources: tuple[str, ...] = ("../pyproject.toml", "build.in")
) -> None:
    """Write one lock file."""
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "compile"]
    paths = [str((HERE / source).resolve()) for source in sources]
    subprocess.run([*uv, *paths, *COMMON, *options, "--output-file", str(HERE / name)], check=True)


pin("dev.txt", "--extra", "all", "--extra", "dev")
extras = [
    word for extra in ("spark", "charts", "demo", "java", "notebook") for word in ("--extra", extra)
]
pin("demo.txt", *extras, "--constraint", str(HERE / "dev.txt"))
pin("node.txt", sources=("node.in",))
pin("cassandra.txt", sources=("cassandra.in",))
pin("mongo.txt", sources=("mongo.in",))
pin("peers.txt", sources=("peers.in",))
# With extras: pip takes those that a package asks for as requirements of their own.
pin("migration.txt", "--no-strip-extras", sources=("migration.in",))
for name in ("docs", "release"):  # beside dev.txt, in one environment
    pin(f"{name}.txt", "--constraint", str(HERE / "dev.txt"), sources=(f"{name}.in",))
# Environments of older releases of Spark, with the packages of their time.
for path in sorted(HERE.glob("spark-*.in")):
    used = [
        word for extra in ("avro", "demo", "griffin", "lakehouse") for word in ("--extra", extra)
    ]
    pin(path.with_suffix(".txt").name, *used, sources=("../pyproject.toml", path.name))
# Schedulers, in environments of their own, with the extras that the cookbook installs.
for name in ("airflow", "dagster"):
    used = [word for extra in (name, "java", "postgres", "spark") for word in ("--extra", extra)]
    pin(f"{name}.txt", *used)
