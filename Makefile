# Everything that is done here. `make demo` and `make test` need Python 3.11 and make, nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Go downloads this version and compares it with Go's public checksum database.
ACTIONLINT := 1.7.12
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage docs soak matrix schedulers lint spelling types workflows bench lock release widgets clean

help: ## Say what can be done
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tidegauge needs Python 3.11 or later; name one: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Making $(VENV) ..."
	@"$(PYTHON)" -m venv $(VENV) && touch $@

# Pinned by hash; the project itself is installed in place, which also builds the dashboard's script.
$(VENV)/%.installed: requirements/%.txt pyproject.toml $(BIN)/python
	@echo "Installing requirements/$*.txt (Spark is large: some minutes the first time) ..."
	@$(PIP) --require-hashes --requirement requirements/$*.txt
	@command -v npm >/dev/null || $(PIP) --require-hashes --requirement requirements/node.txt || true
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

widgets: setup ## Build the dashboard's script, where it changed
	@$(BIN)/python hatch_build.py

setup: $(VENV)/dev.installed ## Install everything that development needs

demo: $(VENV)/demo.installed ## See it at work on real data: a year of flights
	@mkdir -p .demo
	@$(BIN)/tidegauge demo --folder .demo --db sqlite:///.demo/tidegauge.db

# Each process that a test starts would compile all modules anew.
test coverage soak schedulers: export PYTHONDONTWRITEBYTECODE :=

test: widgets ## Run the tests, in two processes
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

coverage: widgets ## Measure the branch coverage of the tests (TESTS=FOLDERS MARKERS="not spark": of a part)
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(if $(MARKERS),-m "$(MARKERS)") $(TESTS) \
	  --cov --cov-report=term --cov-report=xml

soak: widgets ## Run all tests in full, the long ones too (two and a half hours)
	@TIDEGAUGE_SOAK=$${TIDEGAUGE_SOAK:-1} HYPOTHESIS_PROFILE=soak \
	  $(BIN)/python -m pytest -m "soak or not soak" --numprocesses 2 --dist loadfile \
	  --no-loadscope-reorder --verbose -rfEP

matrix: setup ## Run the tests of all kinds of work on each Spark from 3.5 on (SPARK=3.5: on that)
	@$(BIN)/python -m tests.matrix $(SPARK)

schedulers: setup ## Run the operator, the assets and the cookbook's recipes in Airflow and Dagster
	@$(BIN)/python -m pytest tests/schedulers -m soak --numprocesses 2 --dist loadscope

lint: spelling ## Check style, format and spelling, and look for dead code
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m tests.dead_code

# Strings of tests are left out in the second run: they misspell names on purpose.
spelling: setup ## Look for misspelled words
	@$(BIN)/codespell --skip ./tests,./tidegauge/widgets/tests
	@$(BIN)/codespell --ignore-regex '(?<!")"(?!")[^"\n]+"(?!")' tests tidegauge/widgets/tests

types: widgets ## Check types
	@$(BIN)/mypy
	@$(BIN)/python hatch_build.py --types

$(VENV)/actionlint-$(ACTIONLINT): | $(BIN)/python
	@command -v go >/dev/null || { echo "actionlint needs Go; install golang-go"; exit 1; }
	@GOBIN="$(abspath $(VENV))" go install github.com/rhysd/actionlint/cmd/actionlint@v$(ACTIONLINT)
	@mv $(VENV)/actionlint $@

workflows: $(VENV)/actionlint-$(ACTIONLINT) ## Check the workflows in .github, which needs Go
	@$< -shellcheck= -pyflakes= .github/workflows/*.yml

docs: setup $(VENV)/docs.installed ## Build the documentation as a site, in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean --strict --quiet
	@echo "site/index.html"

release: widgets $(VENV)/release.installed ## Build, check and try a release, without publishing it
	@$(BIN)/python .ci/release.py

bench: setup ## Run the benchmarks, which takes hours (NAB=DIR: also on its data)
	@for one in $(filter-out benchmarks/nab.py,$(wildcard benchmarks/*.py)) \
	    $(if $(NAB),"benchmarks/nab.py --data $(NAB)") "-m benchmarks.checks" "-m benchmarks.deequ"; do \
	  echo "== $$one"; $(BIN)/python $$one || exit 1; done

lock: setup ## Pin the newest versions of all requirements
	@$(BIN)/python requirements/lock.py

clean: ## Remove what can be made again
	@rm -rf $(VENV) .demo .matrix site .coverage coverage.xml .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build tidegauge/widgets/static tidegauge/widgets/node_modules
