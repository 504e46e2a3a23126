"""Test processes that are killed at random moments."""

import os
import random
import signal
import subprocess
import sys
import time

from tests.paths import ROOT


def random_moments():
    """Return a random generator and its seed, which TIDEGAUGE_SEED sets."""
    seed = int(os.environ.get("TIDEGAUGE_SEED", "0")) or random.randrange(2**31)
    return random.Random(seed), seed


def start(code, *arguments):
    """Start Python on some code, in a separate process group, so that its Java is killed with it."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for(file, process):
    """Wait until a process has written the file that signals that it is ready, or has ended."""
    while not file.exists() and process.poll() is None:
        time.sleep(0.01)


def kill(process):
    """Kill a process with all of its child processes."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
