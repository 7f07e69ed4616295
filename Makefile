# `make demo` and `make test` do their own set-up: nothing but Python 3.9-3.13 is needed.
# PYTHON=/path/to/python chooses the interpreter for the virtual environment, and LANE
# the releases of TensorFlow: `legacy` or `current` (docs/lanes.md). Each lane that is
# asked for has an environment of its own; the commands in run/ find them by themselves.

LANE ?=
VENV := .venv$(if $(LANE),-$(LANE))
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
SETUP_FILES := setup.cfg setup.py pyproject.toml constraints-legacy.txt \
	constraints-current.txt
# pytest-xdist runs the tests on this many processes.
TEST_WORKERS ?= 2
# `make compare` trains this many models at a time.
COMPARE_JOBS ?= 2

.PHONY: help setup demo compare test test-all test-lanes lint bench audit clean

help:
	@echo "make setup     the virtual environment; the other targets make it if necessary"
	@echo "make demo      train, evaluate and export a model on phantom data (minutes)"
	@echo "make compare   train all models alike on phantom data: one table (35 minutes)"
	@echo "make test      the tests"
	@echo "make test-all  the tests, including the slow ones"
	@echo "make test-lanes  SavedModels of each lane in the other (makes both environments)"
	@echo "make lint      ruff"
	@echo "make bench     speed and memory, as ratios"
	@echo "make audit     known vulnerabilities of the pinned packages (needs the network)"
	@echo "make clean     remove the virtual environments and the runs"
	@echo "Add LANE=legacy for TensorFlow 2.15, or LANE=current for the newest. The default"
	@echo "is what the newest Python on this machine supports (docs/lanes.md)."

setup: $(STAMP)

$(STAMP): $(SETUP_FILES)
	@bash .ci/venv $(VENV) $(LANE)
	@touch $@

demo: $(STAMP)
	$(RUN) run/demo.py

compare: $(STAMP)
	$(RUN) run/compare_models.py --jobs=$(COMPARE_JOBS)

test: $(STAMP)
	$(RUN) -m pytest -n $(TEST_WORKERS) -m "not slow"

test-all: $(STAMP)
	$(RUN) -m pytest -n $(TEST_WORKERS)

# Loads the SavedModels of each lane in the environment of the other.
test-lanes:
	$(MAKE) setup LANE=legacy
	$(MAKE) setup LANE=current
	.venv-current/bin/python -m pytest tests/test_lanes.py

lint: $(STAMP)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

bench: $(STAMP)
	@for bench in run/bench_*.py; do echo "== $$bench"; $(RUN) $$bench || exit 1; done

# pip-audit has an environment of its own, because the package does not need it.
# Exit codes: 0 none known, 1 vulnerabilities found, 3 some packages not checked.
audit: $(STAMP)
	@bash .ci/audit $(RUN) $(VENV)/audit

clean:
	rm -rf .venv .venv-legacy .venv-current runs build *.egg-info
