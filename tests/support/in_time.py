"""Code that must finish in time; a search that restarts at each letter of a long string takes hours."""

import subprocess
import sys
import textwrap


def run_in_time(code, seconds=120):
    """Run code in a child process, which can be killed within a regular expression."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run(command, check=True, timeout=seconds)
