# `make demo` and `make test` are all a newcomer needs; both make the environment (.venv) first.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= demo-out

.PHONY: demo test test-all test-benchmark bench lint clean

.venv: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || (apt-get update -qq && apt-get install -y -qq python3-venv)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,report]'
	@touch $@

demo: .venv
	$(BIN)/fedci demo --out $(OUT) --force

test: .venv
	$(BIN)/ruff check src tests tests_benchmark
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

test-all: .venv
	$(BIN)/ruff check src tests tests_benchmark
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The baselines of the benchmark have an environment of their own: torch and the forests weigh gigabytes.
test-benchmark: .venv-benchmark
	.venv-benchmark/bin/python -m pytest tests_benchmark

.venv-benchmark: .venv-benchmark/installed

.venv-benchmark/installed: pyproject.toml constraints.txt constraints-benchmark.txt
	$(PYTHON) -m venv .venv-benchmark
	.venv-benchmark/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-benchmark/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -c constraints-benchmark.txt -e '.[dev,benchmark]'
	@touch $@

bench: .venv
	$(BIN)/python -m fedci.benchmark.speed

lint: .venv
	$(BIN)/ruff check src tests tests_benchmark

clean:
	rm -rf .venv .venv-benchmark demo-out
