# Two commands matter: `make demo` and `make test`. Both install into .venv on first use. `make test-long` has the tests
# that take longest, which CI runs too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One more than there are cores: a test that waits for workers leaves its core to another.
TEST_WORKERS ?= $(shell n=$$(($$(nproc) + 1)); echo $$((n < 8 ? n : 8)))
PYTEST := $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-long lint docs docs-run wheel install clean

demo: $(STAMP)
	$(BIN)/gnnplan demo -o out/demo

test: $(STAMP) lint
	$(PYTEST) -m "not long"

test-long: $(STAMP)
	$(PYTEST) -m long

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs out/docs

docs-run: $(STAMP)
	$(BIN)/python -m tests.docs.follow --venv $(VENV)

wheel:
	PYTHON=$(PYTHON) .ci/wheel

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gnnplan needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) out build *.egg-info
