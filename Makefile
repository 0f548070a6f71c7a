# `make demo` and `make test` are all a newcomer needs; both make the environment (.venv) first.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= demo-out
# Tests compare our account with this one. Without its pins: it holds attrs below 24, which nothing of it needs.
ACCOUNTANT = dp-accounting dm-tree mpmath wrapt

.PHONY: demo network-demo debian test test-all test-r release hashes test-benchmark bench bench-scale benchmark docs architecture priors pictures site assurance lint clean

.venv: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || (apt-get update -qq && apt-get install -y -qq python3-venv)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,report,network,sql,docs]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt $(ACCOUNTANT)
	@touch $@

demo: .venv
	$(BIN)/fedci demo --out $(OUT) --force

# A coordinator and three sites as processes of their own, over mutual TLS on loopback.
network-demo: .venv
	rm -rf $(OUT)/network
	$(BIN)/python -m fedci.network.rehearsal $(OUT)/network

# What some tests need of Debian: a database and a browser. Without root or apt-get they skip, and say so.
debian:
	@need=; ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || need=postgresql; \
	command -v chromium >/dev/null || need="$$need chromium"; \
	if [ -n "$$need" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$need) \
	  || echo "Could not install $$need: the tests that need it skip"; \
	elif [ -n "$$need" ]; then echo "Not installed: $$need. The tests that need it skip"; fi

# Three workers on two cores: one of them mostly waits, for processes of its own on a network.
test: .venv debian lint
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m 'not slow'

test-all: .venv debian lint
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Wheel and sdist into dist/, with an SBOM (CycloneDX); then, as a new user would: the wheel in an environment of its own, the
# hashes of all that it takes compared, the README's commands and a newcomer's first hour run there. The version and the
# changelog's heading come first.
RELEASE = build/release
release: .venv
	rm -rf dist $(RELEASE)
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r constraints-hashed.txt
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[all]"
	$(BIN)/python release/readme.py $(RELEASE)/bin
	$(BIN)/python release/first_hour.py $(RELEASE)/bin
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt packaging
	$(RELEASE)/bin/python release/sbom.py fedci all > dist/fedci.cdx.json
	cp constraints.txt constraints-hashed.txt dist/
	cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

# constraints-hashed.txt anew, for this platform and Python, after a change of constraints.txt.
hashes: .venv
	mkdir -p build
	$(BIN)/pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --report build/report.json -c constraints.txt '.[all]'
	$(BIN)/python release/hashes.py build/report.json > constraints-hashed.txt

# The R package against Python's numbers, with R from Debian.
test-r: .venv
	@command -v Rscript >/dev/null || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends r-base-core r-cran-jsonlite)
	rm -rf build/r && mkdir -p build/r
	R CMD INSTALL --library=build/r r
	cd r/tests && R_LIBS=$(CURDIR)/build/r FEDCI=$(CURDIR)/$(BIN)/fedci FEDCI_PYTHON=$(CURDIR)/$(BIN)/python Rscript run.R

# The baselines of the benchmark have an environment of their own: torch and the forests weigh gigabytes.
test-benchmark: .venv-benchmark
	.venv-benchmark/bin/python -m pytest tests_benchmark

.venv-benchmark: .venv-benchmark/installed

.venv-benchmark/installed: pyproject.toml constraints.txt constraints-benchmark.txt
	$(PYTHON) -m venv .venv-benchmark
	.venv-benchmark/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-benchmark/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -c constraints-benchmark.txt -e '.[dev,benchmark]'
	@touch $@

# The whole grid behind docs/benchmarks.md: hours on two cores; interrupted, it goes on where it stopped.
IHDP ?= ../shared/data/ihdp
IHDP_MISSING ?= ../shared/data/ihdp-missing
JOBS ?= 2
GRID = .venv-benchmark/bin/fedci benchmark --jobs $(JOBS) --ihdp $(IHDP) --ihdp-missing $(IHDP_MISSING) --out benchmarks/results
PAPERS = --dataset data-1 --dataset data-2 --dataset ihdp
MORE = --dataset heterogeneous --dataset overlap --dataset linear
BEYOND = --dataset steps --dataset many-directions --dataset own-surfaces --dataset interactions
COVER = $(GRID)/coverage --methods fedci --modes fed --replications 100 --no-imputation
ABLATION = fedci,fedci-linear,fedci-no-products-or-thresholds,fedci-no-directions,fedci-16-draws
ABLATION := $(ABLATION),fedci-one-direction,fedci-three-directions,fedci-gaussian-directions,fedci-no-common-slope
ABLATION := $(ABLATION),fedci-free-between-arms
ABLATION := $(ABLATION),fedci-no-own-functions,fedci-point-estimates,fedci-standardised-0-1
FAST = bart,x-learner,r-learner,bart-t,ps-bart,bcf,causalforestdml,gp-t-learner,gp-t-learner-ard,ridge-t-learner,oracle
INTERVALS = fedci,bart,bart-t,ps-bart,bcf,causalforestdml,gp-t-learner,gp-t-learner-ard,oracle,orthorf

benchmark: .venv-benchmark
	$(GRID) $(PAPERS) --methods fedci,fedci-classic,$(FAST),orthorf,cevae
	$(GRID) $(PAPERS) --methods fedci-no-inter-dependency --modes fed
	$(GRID) --dataset data-1 --methods fedci --sources 2,4
	$(GRID) --dataset data-1 --methods fedci-no-inter-dependency --modes fed --sources 2,4
	$(GRID) --dataset ihdp --methods fedci-paper --modes fed
	$(GRID) --dataset null --sources 5 --modes fed,com --replications 100 --slow-replications 20 --methods $(INTERVALS)
	$(GRID) --dataset data-1 --dataset data-2 --methods fedci-paper --modes fed
	$(GRID) $(MORE) --sources 5 --modes fed,com --methods fedci,fedci-classic,$(FAST),orthorf,cevae
	$(GRID) --dataset ihdp-shuffled --modes fed,com --methods fedci,$(FAST),orthorf,cevae
	$(GRID) --dataset ihdp-sites --modes fed,com --methods fedci,$(FAST),orthorf,cevae
	$(GRID) --dataset ihdp-causalrff --modes fed,com --methods fedci,$(FAST),orthorf,cevae
	$(GRID) --dataset ihdp-missing --modes fed,com --methods fedci,$(FAST),orthorf,cevae
	$(GRID) $(PAPERS) --methods orthorf-global-residuals --modes com
	$(GRID) $(BEYOND) --sources 5 --modes fed,com --methods fedci,$(FAST)
	$(COVER) --dataset data-1 --dataset data-2
	$(COVER) $(MORE) $(BEYOND) --dataset null --sources 5
	$(GRID)/ablation $(PAPERS) --methods $(ABLATION) --modes fed --no-imputation
	$(GRID)/ablation $(BEYOND) --dataset null --sources 5 --methods $(ABLATION) --modes fed --no-imputation
	$(MAKE) docs

# docs/benchmarks.md, docs/benchmarks/ and their figures, from the results on disk.
docs: .venv
	$(BIN)/python -m fedci.benchmark.pages.benchmark_page benchmarks/results docs/benchmarks.md
	$(BIN)/python -m fedci.benchmark.pages.outcomes_page benchmarks/results/outcomes docs/benchmarks/outcomes.md

# The tables of modules in docs/architecture.md, of requests in docs/security.md, and of floors in docs/site.md.
architecture: .venv
	$(BIN)/python docs/architecture_page.py
	$(BIN)/python docs/requests_page.py
	$(BIN)/python docs/policy_page.py

# The table of priors in docs/model.md.
priors: .venv
	$(BIN)/python docs/priors_page.py

# The README's pictures of the report.
pictures: demo debian
	$(BIN)/python docs/figures/pictures.py $(OUT)/result/report.html

# The documentation site, with every warning an error.
site: .venv
	$(BIN)/zensical build --strict

bench: .venv
	$(BIN)/python -m fedci.benchmark.cost.speed
	$(BIN)/python -m fedci.benchmark.cost.authors

# Sizes, sites, stages, the forests of econml beside them, the kernels; curves into docs/performance.md. About an hour and a half.
SCALE = .venv-benchmark/bin/python -m fedci.benchmark.cost.scale --out benchmarks/results/scale
bench-scale: .venv .venv-benchmark
	$(SCALE) 10x1000 10x10000 --peers --limit 900
	$(SCALE) 10x100000 5x1000 10x200 30x200 100x200
	$(SCALE) 5x1000 --options '{"model": {"exact_rows": 2000}}'
	$(SCALE) 10x10000 --options '{"optimiser": {"first_rows": 0}}'
	.venv-benchmark/bin/python -m fedci.benchmark.cost.hot --out benchmarks/results/scale
	$(BIN)/python -m fedci.benchmark.pages.scale_page benchmarks/results/scale docs/performance.md

# Attacks, faults, fuzzers, protections taken out and a soak of 1000 rounds, JOBS rows at a time; their table in docs/assurance.md.
# Cut, it goes on with `python assurance/run.py --missing`.
assurance: .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[assurance]'
	$(BIN)/python assurance/run.py --jobs $(JOBS)

# Style, and types: mypy reads the package in half a minute, and again in seconds.
lint: .venv
	$(BIN)/ruff check src tests tests_benchmark assurance docs examples release
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-benchmark demo-out site .cache .mypy_cache
