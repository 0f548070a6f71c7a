# `make demo` and `make test` are all a newcomer needs; both make the environment (.venv) first.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= demo-out

.PHONY: demo test test-all bench lint clean

.venv: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || (apt-get update -qq && apt-get install -y -qq python3-venv)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,report]'
	@touch $@

demo: .venv
	$(BIN)/fedci demo --out $(OUT) --force

test: .venv
	$(BIN)/ruff check src tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

test-all: .venv
	$(BIN)/ruff check src tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

bench: .venv
	$(BIN)/python -m fedci.benchmark.speed

lint: .venv
	$(BIN)/ruff check src tests

clean:
	rm -rf .venv demo-out
