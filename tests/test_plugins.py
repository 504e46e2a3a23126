"""Extensions from entry points: loaded when needed; an invalid one is reported and skipped."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOOD = '''
from dataclasses import dataclass
from typing import ClassVar
from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, analyzer
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.state import register_state

@register_state("good-count/1")
@dataclass(frozen=True, slots=True)
class GoodState(NumMatches):
    """Ours under another tag."""

@analyzer
class GoodCount(ColumnAnalyzer[GoodState, float]):
    """Counts."""
    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type] = GoodState
    def aggregations(self, schema):
        return (f"count({self.values(schema)})",)
    def fold(self, cells):
        return GoodState(*cells)
    def measure(self, state):
        return state.metric_value()
    def weight(self, state):
        return state.num_matches
'''
DUPLICATE = '''
from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, analyzer

@analyzer
class Innocent(ColumnAnalyzer):
    """Registered before the bad one; must go with it."""

@analyzer
class Completeness(ColumnAnalyzer):
    """Ours has this name."""
'''


def install(folder, package, module, text):
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tidegauge.analyzers]\n{module} = {module}\n")


def run(folder, code):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{folder}", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_valid_plugins_are_used_and_invalid_ones_reported_and_skipped(tmp_path):
    install(tmp_path, "good-plugin", "good_plugin", GOOD)
    install(tmp_path, "broken-plugin", "broken_plugin", "import no_such_module")
    install(tmp_path, "duplicate-plugin", "duplicate_plugin", DUPLICATE)
    done = run(
        tmp_path,
        "import tidegauge as tg\n"
        "from tidegauge.analyzers.core.analyzer import ANALYZERS\n"
        "from tidegauge.analyzers.core.state import read_state\n"
        "a = ANALYZERS.parse(\"GoodCount('x')\")\n"
        "state = read_state('good-count/1', b'\\x07' + bytes(7))\n"
        "print(a, a.compute_metric_from(state).value)\n"
        "print('Innocent' in list(ANALYZERS), ANALYZERS['Completeness'] is tg.Completeness)\n",
    )
    assert done.stdout == "GoodCount('x') 7.0\nFalse True\n"
    assert (
        "plug-in 'broken_plugin' of broken-plugin was skipped: ModuleNotFoundError" in done.stderr
    )
    assert "plug-in 'duplicate_plugin' of duplicate-plugin was skipped" in done.stderr
    assert "the analyzer Completeness is already registered" in done.stderr
    assert done.stderr.count("was skipped") == 2


def test_the_state_of_a_plugin_is_read_without_its_analyzer(tmp_path):
    install(tmp_path, "good-plugin", "good_plugin", GOOD)
    done = run(
        tmp_path,
        "from tidegauge.analyzers.core.state import read_state\n"
        "print(read_state('good-count/1', b'\\x02' + bytes(7)).metric_value())",
    )
    assert done.stdout == "2.0\n"


def test_importing_tidegauge_loads_no_plugins(tmp_path):
    install(tmp_path, "broken-plugin", "broken_plugin", "import no_such_module")
    done = run(tmp_path, "import tidegauge as tg; tg.Size()")
    assert done.stderr == ""


def test_the_doctor_lists_plugins(tmp_path):
    install(tmp_path, "good-plugin", "good_plugin", GOOD)
    install(tmp_path, "broken-plugin", "broken_plugin", "import no_such_module")
    done = run(
        tmp_path,
        "from tidegauge.installation import examine\n"
        "found = {f.subject: f for f in examine('sqlite://')}\n"
        "print(found['plug-in good_plugin'].status, found['plug-in broken_plugin'].status)\n"
        "print(found['plug-in broken_plugin'].fix)",
    )
    assert done.stdout == "ok missing\nrepair or remove broken-plugin\n"
