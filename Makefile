# `make demo` shows what sqirl does, `make test` runs the tests, `make check` is what every change must pass.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
APT := DEBIAN_FRONTEND=noninteractive timeout 600 apt-get

.PHONY: demo check lint test test-slow bench bench-gpu browser docs site data clean

demo: $(VENV)/installed
	@$(BIN)/python scripts/demo.py

check: lint test

lint: $(VENV)/installed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

test: $(VENV)/installed browser
	@$(BIN)/python -m pytest -n 2

# With all bad inputs, also the fast ones, so that the counts at its end are those of all
test-slow: $(VENV)/installed
	@$(BIN)/python -m pytest -n 2 -m 'slow or hostile'

bench: $(VENV)/installed
	@$(PIP) install -c constraints.txt -e '.[bench]'
	@$(BIN)/python -W ignore benchmarks/bench_analysis.py
	@$(BIN)/python -W ignore benchmarks/bench_build.py
	@$(BIN)/python -W ignore benchmarks/bench_train.py

# Needs a GPU and a PyTorch with CUDA; elsewhere it says so and does nothing
bench-gpu: $(VENV)/installed
	@$(BIN)/python -W ignore benchmarks/bench_gpu.py

# Chromium for the tests that open the report in a browser; where it cannot be installed, these tests are skipped. A fresh machine
# has an empty list of packages: it is fetched when the install fails
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && { \
	  $(APT) install -y -qq chromium || { $(APT) update -qq && $(APT) install -y -qq chromium; }; } >/dev/null 2>&1; } || \
	  echo "no Chromium here, and it cannot be installed: the browser tests will be skipped"

docs: $(VENV)/installed
	@SQIRL_HOME=$(VENV)/no-builds $(BIN)/sqirl envs --markdown > docs/bridge.md
	@SQIRL_HOME=$(VENV)/no-builds $(BIN)/python -W ignore scripts/make_docs.py
	@$(BIN)/python -W ignore scripts/make_site.py
	@$(BIN)/python -W ignore scripts/snippets.py --write

# The docs as a site in site/, which opens from disk; warnings are errors. NO_MKDOCS_2_WARNING: no advertisement of another generator
site: $(VENV)/installed
	@$(PIP) install -c constraints.txt -e '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html is written"

data: $(VENV)/installed
	@$(BIN)/python -W ignore scripts/make_data.py --time-limit 600 minigrid atari procgen

# The marker is written last, so an interrupted install is done again. Procgen has wheels for Linux and Python 3.11 and 3.12 only
$(VENV)/installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV); }
	@echo "installing sqirl into $(VENV)"
	@$(PIP) install -c constraints.txt torch==2.13.0  # first and by this name: any other request may bring CUDA
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@$(PIP) install --no-deps 'procgen-mirror>=0.10.7; sys_platform == "linux" and python_version < "3.13"'
	@touch $@

clean:
	rm -rf $(VENV) out site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
