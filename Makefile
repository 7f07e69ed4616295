# `make demo` and `make test` set everything up; they need only a Python 3.9 to 3.13.
# PYTHON=/path/to/python chooses the interpreter of the virtual environment, and LANE the
# releases of TensorFlow: `legacy` or `current` (docs/lanes.md). Each lane has its own
# environment, which the commands in run/ find by themselves.

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
DATA_BENCHES := $(addprefix run/bench_,noise.py preparation.py representatives.py)

.PHONY: help setup demo compare test test-all test-lanes test-pythons lint bench audit \
	clean

help:
	@echo "make setup     create the virtual environment; the other targets do so if needed"
	@echo "make demo      train, evaluate and export a model on phantom data (minutes)"
	@echo "make compare   train all models alike on phantom data and print a table"
	@echo "make test      lint and the tests"
	@echo "make test-all  all tests, including the slow ones"
	@echo "make test-lanes  models of one lane in the other, with both environments"
	@echo "make test-pythons  install and predict with every Python that is found"
	@echo "make lint      style (ruff) and types (mypy)"
	@echo "make bench     speed and memory, as ratios"
	@echo "make audit     known vulnerabilities of the pinned packages (needs the network)"
	@echo "make clean     remove the virtual environments and the runs"
	@echo "LANE=legacy or LANE=current after any of them chooses TensorFlow 2.15 or the newest."
	@echo "Without it, the newest Python that is found decides (docs/lanes.md)."

setup: $(STAMP)

$(STAMP): $(SETUP_FILES)
	@bash .ci/venv $(VENV) $(LANE)
	@touch $@

demo: $(STAMP)
	$(RUN) run/demo.py

compare: $(STAMP)
	$(RUN) run/compare_models.py --jobs=$(COMPARE_JOBS)

# Lint first: it is quick, and .ci/run calls this target only.
test: lint
	$(RUN) -m pytest -n $(TEST_WORKERS) -m "not slow"

test-all: $(STAMP)
	$(RUN) -m pytest -n $(TEST_WORKERS)

# Each lane reads the models of the other: tests/test_lanes.py.
test-lanes:
	$(MAKE) setup LANE=legacy
	$(MAKE) setup LANE=current
	.venv-current/bin/python -m pytest tests/test_lanes.py

# The wheel in an empty environment of each Python and lane: many minutes, and the network.
test-pythons: $(STAMP)
	@bash .ci/pythons $(RUN)

lint: $(STAMP)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# Those that need data of the user's are run by hand: --help says how.
bench: $(STAMP)
	@for bench in $(filter-out $(DATA_BENCHES),$(wildcard run/bench_*.py)); do echo "== $$bench"; $(RUN) $$bench || exit 1; done

# In its own environment, because the package does not need it. Exit codes: 0 nothing
# known, 1 vulnerabilities found, 3 no answer for some or all packages.
audit: $(STAMP)
	@bash .ci/audit $(RUN) $(VENV)/audit

clean:
	rm -rf .venv .venv-legacy .venv-current runs build *.egg-info
