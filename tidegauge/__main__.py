"""The command line as a script, for ``python -m tidegauge`` and ``spark-submit``."""

import sys
from pathlib import Path

if not __package__:  # spark-submit puts this folder first, where modules have the names of rooms
    here = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != here]

from tidegauge.cli.main import main

if __name__ == "__main__":
    main()
