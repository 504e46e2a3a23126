"""Fuzz the readers of states: `python -m tests.faults.fuzz_states [--mutations N | --seconds N] [--only KIND,KIND]`.

Whatever bytes are stored under a tag, with a valid checksum, a reader returns a state or raises
`StateError`. A state that was read can be packed, read again, merged with another state of its
kind, and measured. Each of these steps may raise only errors of Tidegauge.

`--mutations N` changes samples of each kind N times, in separate processes. A mutation that
ends the process, takes too long or needs too much memory is counted and printed with its
bytes. The next process continues after it.

`--seconds N` fuzzes by coverage, with the package atheris. Any other error ends the run, and
the bytes are kept in the corpus. libFuzzer prints its seed; `--seed` repeats it.

With `LD_PRELOAD=libc_malloc_debug.so.0 GLIBC_TUNABLES=glibc.malloc.check=3
ARROW_DEFAULT_MEMORY_POOL=system`, a library that writes out of bounds is caught where it frees
the memory, and not several kinds later.
"""

import argparse
import atexit
import faulthandler
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache
from pathlib import Path

MAX_GROWTH_KB = 512 * 2**10
"""How many kilobytes one state may add to the process."""
MAX_STATE_SECONDS = 20
"""Time limit for one state, in seconds."""
OUTCOMES = ("refused", "read", "raw error", "crash")


def main() -> None:
    """Fuzz until the mutations or the time are used up; exit with 1 if a state was handled wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--mutations", type=int, help="number of mutations of each kind")
    parser.add_argument("--only", default="", help="beginnings of tags, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("corpus", nargs="?", type=Path, help="a folder that keeps what was found")
    options = parser.parse_args()
    if options.child:
        run_child(*json.loads(options.child))
    elif options.mutations:
        sys.exit(fuzz_by_mutation(options.only, options.mutations, options.seed))
    else:
        fuzz_by_coverage(parser, options)


def samples_by_tag(prefixes: str) -> dict[str, list[bytes]]:
    """Return samples of the kinds whose tags begin with one of the comma-separated prefixes."""
    from tests.support.crafted import samples

    by_tag = defaultdict(list)
    for tag, payload in samples():
        if tag.startswith(tuple(prefixes.split(","))):
            by_tag[tag].append(payload)
    return dict(sorted(by_tag.items()))


def use_state(tag: str, payload: bytes, sample: bytes) -> None:
    """Read a state, pack, merge and compare it, and compute its metrics."""
    from tidegauge.analyzers.core.errors import StateMismatchError
    from tidegauge.analyzers.core.metric import flatten
    from tidegauge.analyzers.core.state import read_state

    state, good = read_state(tag, payload), read_state(tag, sample)
    again = read_state(state.tag, state.pack())
    again.agrees_with(state)
    results = [state]
    for states in ([state, again], [good, state], [state, good, again]):
        with suppress(StateMismatchError):
            results.append(type(state).merge(states))
    with suppress(StateMismatchError):
        results.append(state + good)
    for result in results:
        read_state(result.tag, result.pack())
        result.forget("v1", "token")
        for analyzer in analyzers_of(type(state)):
            metric = analyzer.compute_metric_from(result)
            list(flatten(metric))
        for method in ("kept", "top"):
            if hasattr(result, method):
                list(getattr(result, method)())


@cache
def analyzers_of(state_type: type) -> list[object]:
    """Return the analyzers that compute metrics from a type of state."""
    import tidegauge as tg

    analyzers = [
        tg.Size(),
        tg.Completeness("x"),
        tg.Compliance("c", "x > 0"),
        tg.Minimum("x"),
        tg.Maximum("x"),
        tg.Range("x"),
        tg.Mean("x"),
        tg.Sum("x"),
        tg.RatioOfSums("x", "y"),
        tg.StandardDeviation("x"),
        tg.Skewness("x"),
        tg.Kurtosis("x"),
        tg.Correlation("x", "y"),
        tg.ApproxCountDistinct("x"),
        tg.ApproxQuantiles("x", [0.0, 0.5, 1.0]),
        tg.KLLSketch("x"),
        tg.ReqQuantile("x", 0.99),
        tg.TopValues("x"),
        tg.ApproxUniqueness("x"),
        tg.ApproxUniqueValueRatio("x"),
        tg.Uniqueness("x"),
        tg.Entropy("x"),
        tg.Histogram("x"),
        tg.HistogramOfSums("x", "y"),
        tg.DataType("x"),
        tg.MinTime("x"),
        tg.Freshness("x"),
        tg.CustomSql("max(x)", "x"),
        tg.ColumnCount(),
        tg.ColumnExists("x"),
    ]
    return [analyzer for analyzer in analyzers if analyzer.state_type is state_type]


def mutation(samples: list[bytes], seed: str) -> tuple[bytes, bytes]:
    """Return a mutated sample and an intact sample, drawn with a seed."""
    from tests.support.crafted import mutate

    draw = random.Random(seed)
    return mutate(draw.choice(samples), draw), draw.choice(samples)


def run_child(prefixes: str, first: int, mutations: int, seed: int) -> None:
    """Try mutations from a position on, kind after kind, and print each outcome before the next try."""
    from tidegauge.analyzers.core.errors import TidegaugeError

    by_tag = samples_by_tag(prefixes)
    attempts = [(tag, number) for tag in by_tag for number in range(mutations)]
    warnings.simplefilter("ignore")
    for tag, number in attempts[first:]:
        faulthandler.dump_traceback_later(MAX_STATE_SECONDS, exit=True)
        payload, sample = mutation(by_tag[tag], f"{seed}/{tag}/{number}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome, detail = "read", ""
        try:
            use_state(tag, payload, sample)
        except TidegaugeError:
            outcome = "refused"
        except Exception as error:  # noqa: BLE001 - any other error is a finding
            outcome, detail = (
                "raw error",
                f"{location_of(error)}: {type(error).__name__}: {error}"[:200],
            )
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if growth > MAX_GROWTH_KB:
            outcome, detail = "crash", f"{growth} KB"
        print(json.dumps([outcome, detail]), flush=True)


def location_of(error: Exception) -> str:
    """Return the file and the line where an error was raised."""
    step = error.__traceback__
    while step.tb_next:
        step = step.tb_next
    return f"{Path(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno}"


def fuzz_by_mutation(prefixes: str, mutations: int, seed: int) -> int:
    """Mutate samples of each kind, print a table of outcomes, and return the exit status."""
    by_tag = samples_by_tag(prefixes)
    tags, position = list(by_tag), 0
    counts = {tag: Counter() for tag in tags}
    details = {tag: Counter() for tag in tags}
    while position < len(tags) * mutations:
        arguments = json.dumps([prefixes, position, mutations, seed])
        command = [sys.executable, "-m", "tests.faults.fuzz_states", "--child", arguments]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in child.stdout.splitlines():
            tag = tags[position // mutations]
            outcome, detail = json.loads(line)
            counts[tag][outcome] += 1
            details[tag].update([detail] if detail else [])
            position += 1
        if position < len(tags) * mutations:  # the process ended during this mutation
            tag, number = tags[position // mutations], position % mutations
            payload, _ = mutation(by_tag[tag], f"{seed}/{tag}/{number}")
            counts[tag]["crash"] += 1
            details[tag][f"exit {child.returncode} {child.stderr[-200:]!r}: {payload.hex()}"] += 1
            position += 1
    print(f"{'kind':<28}{'mutations':>10}" + "".join(f"{name:>11}" for name in OUTCOMES))
    for tag in tags:
        print(
            f"{tag:<28}{mutations:>10,}" + "".join(f"{counts[tag][name]:>11,}" for name in OUTCOMES)
        )
        for detail, count in details[tag].most_common(8):
            print(f"    {count:,} x {detail}")
    return sum(count["crash"] + count["raw error"] for count in counts.values()) > 0


def fuzz_by_coverage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Let libFuzzer mutate states until the time is over."""
    import atheris

    with atheris.instrument_imports(include=["tidegauge"]):
        from tidegauge.analyzers.core.errors import TidegaugeError

    samples = samples_by_tag(options.only)
    tags = list(samples)
    if not tags:
        parser.error(f"no state has a tag that begins with {options.only!r}")
    calls, read = dict.fromkeys(tags, 0), dict.fromkeys(tags, 0)

    def use(data: bytes) -> None:
        """Take the first byte as the tag and the rest as the stored bytes."""
        if not data:
            return
        tag, payload = tags[data[0] % len(tags)], data[1:]
        calls[tag] += 1
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with suppress(TidegaugeError):
            use_state(tag, payload, samples[tag][0])
            read[tag] += 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > MAX_GROWTH_KB:
            raise MemoryError(f"{tag}: {grown} KB for {len(payload)} bytes")

    folder = options.corpus or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for place, (tag, payloads) in enumerate(samples.items()):
        for number, payload in enumerate(payloads):
            (folder / f"seed{place}-{number}").write_bytes(bytes([tags.index(tag)]) + payload)
    began = time.monotonic()

    @atexit.register
    def _print_counts() -> None:
        seconds = time.monotonic() - began
        print(f"{sum(calls.values()):,} tries in {seconds:.0f} s; tried and read of each:")
        for tag in tags:
            print(f"  {tag:<28}{calls[tag]:>10,}{read[tag]:>10,}")
        sys.stdout.flush()

    limits = [
        f"-seed={options.seed}",
        f"-max_total_time={options.seconds}",
        f"-timeout={MAX_STATE_SECONDS}",
        "-max_len=4096",
    ]
    atheris.Setup([sys.argv[0], str(folder), f"-artifact_prefix={folder}/", *limits], use)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
