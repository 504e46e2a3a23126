"""Code that has to end in time: a second look from each letter of a long text would take hours."""

import subprocess
import sys
import textwrap


def run_in_time(code, seconds=120):
    """Run code in a process of its own, which can be ended within a regular expression."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run(command, check=True, timeout=seconds)
