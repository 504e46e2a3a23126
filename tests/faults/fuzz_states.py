"""Fuzz the readers of states by coverage: `python -m tests.faults.fuzz_states [--seconds N] [--only KIND,KIND] [CORPUS]`.

Needs the package atheris. Whatever bytes are stored under a tag, a reader returns a state, or raises our
`StateError`: any other error ends the run, as do 512 MB of memory for one state and more than twenty
seconds; the bytes are kept in the corpus. What is read must also be packed, read again and added.
libFuzzer prints its seed; `--seed` repeats it. With `LD_PRELOAD=libc_malloc_debug.so.0
GLIBC_TUNABLES=glibc.malloc.check=3 ARROW_DEFAULT_MEMORY_POOL=system` a library that writes beside its
memory is caught where it frees it, and not some kinds later.
"""

import argparse
import atexit
import json
import resource
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tests.paths import DATA

LARGEST = 512 * 2**10
"""Kilobytes by which one state may let the process grow."""
LONGEST = 20
"""Seconds for one state."""


def main() -> None:
    """Fuzz until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", default="", help="tags that begin so, with commas between them")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; drawn by it if left out")
    parser.add_argument("corpus", nargs="?", type=Path, help="a folder that keeps what was found")
    options = parser.parse_args()

    import atheris

    with atheris.instrument_imports(include=["tidegauge"]):
        from tidegauge.analyzers.core.errors import StateError
        from tidegauge.analyzers.core.registry import STATE_MODULES
        from tidegauge.analyzers.core.state import READERS, read_state

        for module in STATE_MODULES:
            import_module(module)
    samples = [
        (state["tag"], bytes.fromhex(state["payload"]))
        for state in json.loads((DATA / "states.json").read_text())
        if state["tag"].startswith(tuple(options.only.split(",")))
    ]
    tags = sorted({tag for tag, _ in samples} & set(READERS))
    if not tags:
        parser.error(f"no state has a tag that begins with {options.only!r}")
    calls, read = dict.fromkeys(tags, 0), dict.fromkeys(tags, 0)

    def one(data: bytes) -> None:
        """Take the first byte as a tag and the rest as what is stored under it."""
        if not data:
            return
        tag, content = tags[data[0] % len(tags)], data[1:]
        calls[tag] += 1
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with suppress(StateError):
            state = read_state(tag, content)
            read[tag] += 1
            again = read_state(state.tag, state.pack())
            _ = again + state
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > LARGEST:
            raise MemoryError(f"{tag}: {grown} KB for {len(content)} bytes")

    folder = options.corpus or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for number, (tag, content) in enumerate(samples):
        (folder / f"seed{number}").write_bytes(bytes([tags.index(tag)]) + content)
    began = time.monotonic()

    @atexit.register
    def _told() -> None:
        seconds = time.monotonic() - began
        print(f"{sum(calls.values()):,} tries in {seconds:.0f} s; tried and read of each:")
        for tag in tags:
            print(f"  {tag:<28}{calls[tag]:>10,}{read[tag]:>10,}")
        sys.stdout.flush()

    limits = [
        f"-seed={options.seed}",
        f"-max_total_time={options.seconds}",
        f"-timeout={LONGEST}",
        "-max_len=4096",
    ]
    atheris.Setup([sys.argv[0], str(folder), f"-artifact_prefix={folder}/", *limits], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
