"""Detector scores on the Numenta Anomaly Benchmark.

    python benchmarks/nab.py --data DIR [--json FILE] [--check]

The scoring rules are NAB's (Lavin and Ahmad, 2015), implemented independently. A window earns the
worth of its earliest detection: 1 at its left edge, about 0 at its right edge. A missed window and
every detection outside of a window cost. 0 is a detector that never fires; 100 is a detector that
finds each window at once and fires nowhere else. One threshold applies to all files. The table has
the score at the best threshold in hindsight, as in NAB, and the score at thresholds chosen on other
files than the scored ones. The lines "shipped" use the detector's default threshold or rule.

The weights, the emission window and the scale of Novelty were chosen in a study on these files, as
for most detectors that are published for NAB. So its scores are not held out, even with thresholds
from other files: expect slightly lower scores on other series.

The data are not part of this project. `--check` compares the scorer with a slow one, without data.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# The folder of this script contains a script named like one of our packages.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import chi2

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors import base as ours
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.novelty import Novelty
from tidegauge.repository.detectors.seasonal import Seasonal

DATA_INSTRUCTIONS = """NAB's data are not part of this project. Get them from https://github.com/numenta/NAB (MIT):
    git clone --depth 1 https://github.com/numenta/NAB
    python benchmarks/nab.py --data NAB"""
Detector = Callable[[np.ndarray, np.ndarray], np.ndarray]
SPLIT_SEED = 20150914
SPLIT_COUNT = 50
FULL_COST_WIDTHS = 3.0  # window widths after which a false detection costs in full
# window numbers of points outside of windows, and in probation
OUTSIDE_WINDOWS, IN_PROBATION = -1, -2


@dataclass(frozen=True)
class Profile:
    """Weights of a detected window, a missed window and a false detection."""

    detected: float
    missed: float
    false: float


PROFILES = {
    "standard": Profile(1.0, 1.0, 0.11),
    "reward_low_FP": Profile(1.0, 1.0, 0.22),
    "reward_low_FN": Profile(1.0, 2.0, 0.11),
}


@dataclass(frozen=True)
class Series:
    """A file of the benchmark; a window is its first and its last index, both inside."""

    name: str
    times: np.ndarray
    values: np.ndarray
    windows: tuple[tuple[int, int], ...]
    probation: int

    @property
    def scored(self) -> tuple[tuple[int, int], ...]:
        """The windows with at least one point after probation; no others count."""
        return tuple(window for window in self.windows if window[1] >= self.probation)


# Loading


def probation_of(length: int) -> int:
    """Return the number of points at the start of a file that are not scored."""
    return min(math.floor(0.15 * length), 750)


def load(folder: Path) -> list[Series]:
    """Read the files with labels, in order of their names.

    Parameters
    ----------
    folder : Path
        Contains `data/<group>/<file>.csv` and `labels/combined_windows.json`.
    """
    labels = json.loads((folder / "labels" / "combined_windows.json").read_text())
    series = []
    for path in sorted((folder / "data").glob("*/*.csv")):
        name = f"{path.parent.name}/{path.name}"
        table = pd.read_csv(path, parse_dates=["timestamp"])
        times = table["timestamp"].to_numpy().astype("datetime64[s]")
        windows = []
        for limits in labels[name]:
            first, last = (np.datetime64(limit, "s") for limit in limits)
            # A time can occur twice, as when the clocks go back: the window means its first row.
            windows.append((int(np.argmax(times == first)), int(np.argmax(times == last))))
            if times[windows[-1][0]] != first or times[windows[-1][1]] != last:
                raise ValueError(f"{name} has no rows of the window {limits}")
        values = table["value"].to_numpy(dtype=float)
        series.append(
            Series(name, times, values, tuple(sorted(windows)), probation_of(len(values)))
        )
    return series


# Scoring


def sigmoid(position: np.ndarray) -> np.ndarray:
    """Return NAB's scaled sigmoid of positions: about 1 at -1, 0 at 0, and -1 from 3 on."""
    position = np.asarray(position, dtype=float)
    return np.where(
        position >= FULL_COST_WIDTHS,
        -1.0,
        2 / (1 + np.exp(5 * np.minimum(position, FULL_COST_WIDTHS))) - 1,
    )


def worth(series: Series, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Return the worth of a detection at each point, and the number of its window.

    Returns
    -------
    worths : numpy.ndarray
        Inside of a window the gain of the earliest detection, outside of windows the cost.
    window : numpy.ndarray
        The position of the point's window in `series.windows`, `OUTSIDE_WINDOWS`, or
        `IN_PROBATION`, where a detection has neither gain nor cost.
    """
    n = len(series.values)
    index = np.arange(n)
    worths = np.full(n, -profile.false)
    window = np.full(n, OUTSIDE_WINDOWS)
    for number, (first, last) in enumerate(series.windows):
        width = last - first + 1
        after = index > last
        worths[after] = profile.false * sigmoid((index[after] - last) / max(width - 1, 1))
        inside = (index >= first) & (index <= last)
        position = (index[inside] - last - 1) / width
        worths[inside] = profile.detected * sigmoid(position) / float(sigmoid(np.array(-1.0)))
        window[inside] = number
    window[: series.probation] = IN_PROBATION
    return worths, window


@dataclass(frozen=True)
class Gains:
    """The result of a detector on a file: the change of the raw score at each point.

    The raw score at a threshold is `null` plus the changes of all points with at least that score.
    """

    scores: np.ndarray
    changes: np.ndarray
    null: float
    perfect: float


def gains(scores: np.ndarray, series: Series, profile: Profile) -> Gains:
    """Return the gains of a detector on one file.

    Outside of windows a point changes the raw score by its worth. Inside of a window it changes the
    raw score by the increase of the best worth among the window's points with at least its score.
    The first point also saves the cost of the miss.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.shape != series.times.shape or np.isnan(scores).any():
        raise ValueError(f"{series.name} needs one score for each point, and none that is NaN")
    worths, window = worth(series, profile)
    changes = np.where(window == OUTSIDE_WINDOWS, worths, 0.0)
    for number in range(len(series.windows)):
        inside = np.flatnonzero(window == number)
        order = inside[np.argsort(-scores[inside], kind="stable")]
        best = np.maximum.accumulate(worths[order])
        changes[order] = np.diff(best, prepend=-profile.missed)
    is_scored = window != IN_PROBATION
    windows = len(series.scored)
    null, perfect = -profile.missed * windows, profile.detected * windows
    return Gains(scores[is_scored], changes[is_scored], null, perfect)


def joined(parts: Sequence[Gains]) -> Gains:
    """Return the gains of several files as one."""
    scores = np.concatenate([part.scores for part in parts])
    changes = np.concatenate([part.changes for part in parts])
    return Gains(scores, changes, sum(p.null for p in parts), sum(p.perfect for p in parts))


def scaled(raw: float, null: float, perfect: float) -> float:
    """Return a raw score on the scale from 0, without detections, to 100; NaN without windows."""
    return 100 * (raw - null) / (perfect - null) if perfect > null else math.nan


def sweep(part: Gains) -> tuple[float, float]:
    """Return the best threshold and its raw score; infinity if it is best not to fire.

    If several thresholds are equally good, it is the highest.
    """
    order = np.argsort(-part.scores, kind="stable")
    scores = part.scores[order]
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    raw = part.null + np.cumsum(part.changes[order])[last]
    best = int(np.argmax(raw))
    if raw[best] <= part.null:
        return math.inf, part.null
    return float(scores[last[best]]), float(raw[best])


def raw_at(threshold: float, part: Gains) -> float:
    """Return the raw score at a threshold; points with at least that score fire."""
    return part.null + float(part.changes[part.scores >= threshold].sum())


def optimise(
    scores: Sequence[np.ndarray], series: Sequence[Series], profile: Profile
) -> tuple[float, float]:
    """Return the best threshold for all files, and the corpus score at it."""
    corpus = joined([gains(s, file, profile) for s, file in zip(scores, series, strict=True)])
    threshold, raw = sweep(corpus)
    return threshold, scaled(raw, corpus.null, corpus.perfect)


def score_at(
    threshold: float, scores: Sequence[np.ndarray], series: Sequence[Series], profile: Profile
) -> float:
    """Return the corpus score at a threshold."""
    corpus = joined([gains(s, file, profile) for s, file in zip(scores, series, strict=True)])
    return scaled(raw_at(threshold, corpus), corpus.null, corpus.perfect)


def cross_validated(
    scores: Sequence[np.ndarray],
    series: Sequence[Series],
    profile: Profile,
    folds: int = 5,
    splits: int = SPLIT_COUNT,
) -> tuple[float, float]:
    """Return the corpus score with thresholds of other files: mean and sd over random splits.

    The files are divided into folds. The files of a fold are scored at the best threshold for all
    other folds; the raw scores of all folds are added up, and scaled as one corpus.
    """
    parts = [gains(s, file, profile) for s, file in zip(scores, series, strict=True)]
    null, perfect = sum(p.null for p in parts), sum(p.perfect for p in parts)
    chance = np.random.default_rng(SPLIT_SEED)
    results = []
    for _ in range(splits):
        fold = chance.permutation(len(parts)) % folds
        raw = 0.0
        for number in range(folds):
            training = joined([p for p, f in zip(parts, fold, strict=True) if f != number])
            threshold, _ = sweep(training)
            raw += sum(
                raw_at(threshold, p) for p, f in zip(parts, fold, strict=True) if f == number
            )
        results.append(scaled(raw, null, perfect))
    return float(np.mean(results)), float(np.std(results, ddof=1))


def directly(
    threshold: float, scores: Sequence[np.ndarray], series: Sequence[Series], profile: Profile
) -> float:
    """Return the corpus score at a threshold, computed point by point from the rules."""

    def curve(y: float) -> float:
        return -1.0 if y >= FULL_COST_WIDTHS else 2 / (1 + math.exp(5 * y)) - 1

    raw = null = perfect = 0.0
    for file_scores, file in zip(scores, series, strict=True):
        fired = [i for i in range(file.probation, len(file_scores)) if file_scores[i] >= threshold]
        for first, last in file.windows:
            if last < file.probation:
                continue
            null -= profile.missed
            perfect += profile.detected
            inside = [i for i in fired if first <= i <= last]
            if inside:
                y = -(last - inside[0] + 1) / (last - first + 1)
                raw += profile.detected * curve(y) / curve(-1.0)
            else:
                raw -= profile.missed
        for i in fired:
            if any(first <= i <= last for first, last in file.windows):
                continue
            before = [(first, last) for first, last in file.windows if last < i]
            if before:
                first, last = max(before, key=lambda limits: limits[1])
                raw += profile.false * curve((i - last) / max(last - first, 1))
            else:
                raw -= profile.false
    return scaled(raw, null, perfect)


def self_check(cases: int = 300) -> None:
    """Compare the sweep with the direct scorer, on random small corpora and at every threshold."""
    chance = np.random.default_rng(SPLIT_SEED)
    for case in range(cases):
        series, scores = [], []
        for number in range(int(chance.integers(1, 5))):
            n = int(chance.integers(8, 120))
            edges = chance.choice(n, size=2 * int(chance.integers(0, 4)), replace=False)
            pairs = np.sort(edges).reshape(-1, 2).tolist()
            windows = tuple((first, last) for first, last in pairs)
            times = np.datetime64("2015-01-01", "s") + np.arange(n)
            series.append(Series(f"{number}", times, np.zeros(n), windows, probation_of(n)))
            levels = int(chance.integers(1, 30))
            scores.append(chance.integers(0, levels, size=n) / levels)  # with many ties
        if not any(file.scored for file in series):
            continue
        for profile in PROFILES.values():
            tried = [math.inf, *np.unique(np.concatenate(scores))[::-1]]
            slow = [directly(threshold, scores, series, profile) for threshold in tried]
            fast = [score_at(threshold, scores, series, profile) for threshold in tried]
            np.testing.assert_allclose(fast, slow, atol=1e-9, err_msg=f"case {case}")
            threshold, score = optimise(scores, series, profile)
            np.testing.assert_allclose(score, max(slow), atol=1e-9, err_msg=f"case {case}")
            direct = directly(threshold, scores, series, profile)
            np.testing.assert_allclose(score, direct, atol=1e-9, err_msg=f"case {case}")


def check_rules(series: Sequence[Series]) -> None:
    """Check the scores of detectors that are known without a sweep."""
    for profile in PROFILES.values():
        perfect_scores = [np.zeros(len(file.values)) for file in series]
        for scores, file in zip(perfect_scores, series, strict=True):
            for first, _ in file.scored:
                scores[max(first, file.probation)] = 1.0
        _, perfect = optimise(perfect_scores, series, profile)
        all_edges_scored = all(
            first >= file.probation for file in series for first, _ in file.scored
        )
        assert all_edges_scored == math.isclose(perfect, 100)
        assert optimise([0 * s for s in perfect_scores], series, profile)[1] >= 0
        assert score_at(math.inf, perfect_scores, series, profile) == 0


# Peers. A score depends on no later point, except for the bounds of relative entropy.


def null(values: np.ndarray, _times: np.ndarray) -> np.ndarray:
    """Score nothing."""
    return np.zeros(len(values))


def windowed_gaussian(
    values: np.ndarray, _times: np.ndarray, size: int = 6400, step: int = 100
) -> np.ndarray:
    """Score by the tail probability of a normal distribution fitted to a sliding window.

    The window adds every point until it is full, and then `step` points at a time. A point is
    scored before it is added. The score is 1 minus the tail on the point's own side.
    """
    n = len(values)
    mean, sd = np.zeros(n), np.ones(n)
    filling = min(n, size)
    centre = squares = 0.0
    for i, x in enumerate(values[: filling - 1].tolist(), 1):
        before = centre
        centre += (x - centre) / i
        squares += (x - before) * (x - centre)
        mean[i], sd[i] = centre, math.sqrt(squares / i)
    for end in range(size, n, step):
        mean[end : end + step] = values[end - size : end].mean()
        sd[end : end + step] = values[end - size : end].std()
    z = np.abs(values - mean) / np.where(sd > 0, sd, 1e-6)
    scores = 1 - ndtr(-z)
    scores[0] = 0.0
    return scores


def relative_entropy(
    values: np.ndarray, _times: np.ndarray, bins: int = 5, size: int = 52, alpha: float = 0.01
) -> np.ndarray:
    """Score 1 where the histogram of the last points fits none of the earlier ones (Wang, 2011).

    The histogram is tested against each stored one: twice the points times the relative entropy is
    chi-square if they agree. A histogram that agrees with none is stored. The bounds of the bins
    come from the whole file, which NAB gives its detectors in advance. As in NAB, values are
    rounded up to whole bins, so the lowest bin contains only the minimum, and the highest bin two
    fifths of the range.
    """
    n = len(values)
    scores = np.zeros(n)
    low, width = values.min(), (values.max() - values.min()) / bins
    if width == 0 or n < size:
        return scores
    bin_indices = np.minimum(np.ceil((values - low) / width).astype(int), bins - 1).tolist()
    limit = chi2.ppf(1 - alpha, bins - 1)
    counts = [0] * bins
    for bin_index in bin_indices[: size - 1]:
        counts[bin_index] += 1
    seen_tuples: set[tuple[int, ...]] = set()
    models = np.empty((0, bins))
    for i in range(size - 1, n):
        counts[bin_indices[i]] += 1
        now = tuple(counts)
        # A histogram that agreed once always will, as none is dropped; only new histograms need a
        # test.
        if now not in seen_tuples:
            seen_tuples.add(now)
            shares = np.array(now) / size
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(shares > 0, shares * np.log(shares / models), 0.0)
            if not (2 * size * terms.sum(axis=1) < limit).any():
                scores[i] = 1.0 if len(models) else 0.0
                models = np.vstack([models, shares])
        counts[bin_indices[i - size + 1]] -= 1
    return scores


def online_normal(values: np.ndarray, _times: np.ndarray) -> np.ndarray:
    """Score as Deequ's OnlineNormal: deviations from the running mean, both including the tested point."""
    scores = np.zeros(len(values))
    mean = squares = 0.0
    for i, x in enumerate(values.tolist()):
        before = mean
        mean += (x - mean) / (i + 1)
        squares += (x - before) * (x - mean)
        sd = math.sqrt(squares / (i + 1))
        scores[i] = abs(x - mean) / sd if sd > 0 else 0.0
    return scores


# Our own detectors


def scored_by(detector: ours.Detector, *, shipped: bool = False) -> Detector:
    """Return a detector of this project as one of this benchmark; a point without a score has 0.

    With ``shipped``, an anomaly by the detector's own rule scores 1 and all others 0, so that there
    is no threshold to choose.
    """

    def score(values: np.ndarray, times: np.ndarray) -> np.ndarray:
        row = values[None]
        history = ours.History(times, row, np.full_like(row, np.nan), [Scale.SIGNED])
        scores = detector.score(history)
        if shipped:
            return Monitor(detector=detector).decide(row, scores)[0].astype(float)
        return np.nan_to_num(scores.score[0])

    return score


# Reporting


def run(detector: Detector, series: Sequence[Series]) -> tuple[list[np.ndarray], float]:
    """Return a detector's scores of all files, and the microseconds per point."""
    started = time.perf_counter()
    scores = [detector(file.values, file.times) for file in series]
    took = time.perf_counter() - started
    return scores, took * 1e6 / sum(len(file.values) for file in series)


def report(
    name: str, scores: Sequence[np.ndarray], series: Sequence[Series], cost: float
) -> dict[str, float]:
    """Print a detector's line of the table, and return it."""
    results = {key: optimise(scores, series, profile)[1] for key, profile in PROFILES.items()}
    mean, sd = cross_validated(scores, series, PROFILES["standard"])
    results |= {"cross-validated": mean, "sd": sd, "us per point": cost}
    three = "".join(f"{results[key]:>15.2f}" for key in PROFILES)
    print(f"{name:<28}{three}{mean:>9.2f} +-{sd:>5.2f}{cost:>10.1f}", flush=True)
    return results


def header() -> None:
    """Print the head of the table."""
    print(f"{'':<28}{''.join(f'{key:>15}' for key in PROFILES)}{'5-fold CV':>17}{'us/point':>10}")


def main() -> None:
    """Measure and print."""
    detectors: list[tuple[str, Detector]] = [
        ("null", null),
        ("Windowed Gaussian", windowed_gaussian),
        ("relative entropy", relative_entropy),
        ("Deequ OnlineNormal", online_normal),
        *(
            (repr(scorer), scored_by(scorer))
            for scorer in (Seasonal(), Novelty("value"), Novelty())
        ),
        *(
            (f"{scorer!r}, shipped", scored_by(scorer, shipped=True))
            for scorer in (Seasonal(), Novelty())
        ),
    ]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="NAB's folder, with data/ and labels/ in it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true", help="check the scorer itself")
    options = parser.parse_args()
    if options.check:
        self_check()
        print("The scorer agrees with the slow one.")
    if options.data is None:
        print(DATA_INSTRUCTIONS)
        return
    series = load(options.data)
    if options.check:
        check_rules(series)
    points, windows = (
        sum(len(file.values) for file in series),
        sum(len(file.scored) for file in series),
    )
    print(f"{len(series)} files, {points:,} points, {windows} windows")
    header()
    results = {}
    for name, detector in detectors:
        scores, cost = run(detector, series)
        results[name] = report(name, scores, series, cost)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
