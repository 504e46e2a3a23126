"""The command line as a script, for ``python -m tidegauge`` and ``spark-submit``."""

import sys
from pathlib import Path

if (
    not __package__
):  # spark-submit puts this folder first in the path, where modules shadow other packages
    package_folder = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != package_folder]

from tidegauge.cli.main import main

if __name__ == "__main__":
    main()
