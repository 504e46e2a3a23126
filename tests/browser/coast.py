"""A small repository with hostile names, a histogram and one real anomaly, created without Spark."""

from tidegauge.repository.repository import Repository
from tidegauge.repository.testing import commit, day

MARKUP = "<img src=x onerror=\"document.title='owned'\">"
QUOTES = 'it\'s a "quoted" \\ back\\\\slashed `name`; DROP TABLE metric; --'
RIGHT_TO_LEFT = "\u202eמד גאות\u202c القياس"
LONG = "long " * 2000
HOSTILE = (MARKUP, QUOTES, RIGHT_TO_LEFT, LONG)
PLAIN = "coast"
DAYS = 60
BAD_DAY = 50
BAD_PARTITION = "ds=2013-02-19"


def make_coast(file):
    """Create it, and return its URL.

    The dataset `PLAIN` has 60 days of 1,000 rows (a few more on odd days), except for one of 300;
    its anomaly is stored. The dataset named `MARKUP` has 30 days, with metrics, columns and
    segments of hostile names, and labels with hostile notes.
    """
    url = f"sqlite:///{file}"
    with Repository(url) as repo:
        usual = [1000 + 7 * (n % 2) for n in range(DAYS)]
        usual[BAD_DAY - 1] = 300
        commit(
            repo,
            *(
                day(n, rows=rows, groups={("a",): rows - n, ("b",): n}, total=5.0 * rows)
                for n, rows in enumerate(usual, 1)
            ),
            dataset=PLAIN,
        )
        commit(repo, *(day(n) for n in range(1, 31)), dataset=MARKUP)
        january = [f"ds=2013-01-{n:02}" for n in range(1, 31)]
        for name in HOSTILE:
            values = {partition: float(n % 7) for n, partition in enumerate(january)}
            repo.record(MARKUP, name, values)
            repo.record(MARKUP, "Level", values, instance=name, entity="Column")
            repo.record(MARKUP, "Level", values, segment=f"place={name}")
        found = repo.detect(PLAIN)
        assert BAD_PARTITION in set(found["partition"])
        repo.detect(MARKUP)
        for note in HOSTILE:
            first = int(found["id"].iloc[0])
            repo.label(first, "acknowledged", note=note, by=MARKUP)
    return url
