"""Progress bars, with a session that only reports its tasks."""

import io
import time
from types import SimpleNamespace

import pytest

from tidegauge.display import progress


class Session:
    """A session that reports the tasks of its active stages."""

    def __init__(self, done, total):
        stage = SimpleNamespace(numCompletedTasks=done, numTasks=total)
        tracker = SimpleNamespace(
            getActiveStageIds=lambda: [1, 2], getStageInfo=lambda i: stage if i == 1 else None
        )
        self.sparkContext = SimpleNamespace(statusTracker=lambda: tracker)


def test_tasks_of_active_stages_are_added_up():
    assert progress.spark_tasks(Session(3, 8)) == (3, 8)
    assert progress.spark_tasks(object()) == (0, 0)  # Spark Connect reports no tasks


@pytest.mark.soak
@pytest.mark.parametrize("kind", [progress.RichProgress, progress.TqdmProgress])
@pytest.mark.filterwarnings("ignore:IProgress not found")  # advice of tqdm outside of notebooks
def test_a_bar_grows_with_tasks_and_ends_with_partitions(kind, monkeypatch):
    bar = kind()
    bar.start("flights", 10)
    shown = []
    show = bar._show
    monkeypatch.setattr(bar, "_show", lambda done: (shown.append(done), show(done)))
    with bar.batch(Session(4, 8), 6):
        time.sleep(0.5)
    with bar.batch(Session(0, 0), 4):
        pass
    bar.close()
    assert shown[-1] == 10
    assert 0 < shown[0] < 6
    assert shown == sorted(shown)


def test_an_empty_run_draws_nothing(capsys):
    bar = progress.RichProgress()
    bar.start("flights", 0)
    bar.close()
    assert capsys.readouterr().err == ""


def test_a_failing_batch_stops_its_watcher():
    bar = progress.RichProgress()
    bar.start("flights", 1)
    with pytest.raises(ZeroDivisionError), bar.batch(Session(0, 1), 1):
        1 / 0  # noqa: B018
    bar.close()


def test_without_a_terminal_nothing_is_drawn(monkeypatch):
    from tidegauge.analyzers.runs.recording import Silent

    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(progress.progress_bar(), Silent)
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    assert isinstance(progress.progress_bar(), progress.TqdmProgress)
