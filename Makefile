# The two commands of the README are run and test; both make .venv first when needed. CONTRIBUTING.md explains the rest.

PY := .venv/bin/python
PYTEST_ARGS ?=
# Processes of the tests: a third of their time they wait. Beside them run those with a cluster each, which mostly wait for jobs and links;
# where no cluster can be had there are none (pytest's status 5).
WORKERS ?= 3
CLUSTERS ?= 3
# The newest Python that Clew supports, wherever this machine has it.
NEWEST_PYTHON ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python3.13) python3.13)
BENCH_ARGS ?=
ROUNDS ?=
# Some machines switch Python's cache of compiled modules off; the tests start hundreds of interpreters.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --dist loadfile --no-loadscope-reorder --max-worker-restart 0
SLOWEST := --durations=30 --durations-min=5
SOAK_MINUTES ?=
# All but the module of a process that others are copies of, which Windows has not.
FOR_WINDOWS = $(filter-out %/processes/nursery.py, $(shell git ls-files 'shared/*.py' 'agent/*.py' 'gui/*.py'))

.PHONY: help setup run test test-fast test-newest nightly test-windows check format docs bench soak fuzz gpu-check cluster-up cluster-down constraints newer packages

help:
	@echo "make run            open the window; without a display run an exercise headless and write a picture"
	@echo "make test           run the tests (PYTEST_ARGS='tests/unit -k journal' to choose); at the end"
	@echo "                    some with Windows Python under Wine, where it can be set up (root, apt)"
	@echo "make test-fast      run those of tests/unit, tests/contract and tests/gui"
	@echo "make test-newest    run tests/unit and tests/contract with Python 3.13, in .venv-newest (NEWEST_PYTHON names it)"
	@echo "make nightly        run what make test leaves out: that networks learn, and more cases of what it shows"
	@echo "make test-windows   run tests/unit and tests/contract with Windows Python under Wine, as root (PYTEST_ARGS)"
	@echo "make check          lint, types, import rules, generated files, size, the site of the docs"
	@echo "make format         let ruff rewrite what it can"
	@echo "make docs           build the pages of docs as a site, in build/docs/site"
	@echo "make bench          measure speed (BENCH_ARGS='--only loops' to choose); takes 25 minutes on a quiet machine"
	@echo "make soak           the fault tests, each scenario once, then many times: ROUNDS=10 or SOAK_MINUTES=60, up to the first failure"
	@echo "make fuzz           inputs that a fuzzer makes for every reader of foreign bytes (FUZZ_ARGS='--runs 10000 site' to choose)"
	@echo "make gpu-check      train on this machine's GPUs in every way, and keep the log in docs; without a GPU it does nothing"
	@echo "make cluster-up     a small Slurm cluster in network namespaces, as root; make cluster-down ends it"
	@echo "make setup          make .venv and install what is missing (NEWEST=1: not the tested versions but the newest)"
	@echo "make packages       build what can be installed without a checkout, in dist: wheel, source archive, folder for Windows"
	@echo "make newer          say which packages have newer versions than the tested ones"
	@echo "make constraints    take the newest versions as those to test (packaging/constraints.txt)"

setup:
	@NEWEST=$(NEWEST) packaging/setup.sh

run: setup
	@.venv/bin/clew start

test: setup
ifneq ($(PYTEST_ARGS),)
	@$(PYTEST) -n $(WORKERS) $(SLOWEST) $(PYTEST_ARGS)
else
	@mkdir -p build
	@$(PYTEST) -n $(CLUSTERS) tests/cluster $(SLOWEST) >build/cluster-tests.txt 2>&1 & clusters=$$!; \
	status=0; $(PYTEST) -n $(WORKERS) -m "not nightly" tests --ignore tests/cluster $(SLOWEST) || status=$$?; \
	echo "The mini cluster's tests:"; wait $$clusters || [ $$? = 5 ] || status=1; cat build/cluster-tests.txt; exit $$status
	@packaging/windows/test.sh --quick
endif

test-fast: setup
	@$(PYTEST) -n $(WORKERS) tests/unit tests/contract tests/gui $(PYTEST_ARGS)

test-newest:
	@CLEW_VENV=.venv-newest PYTHON=$(NEWEST_PYTHON) packaging/setup.sh
	@$(subst $(PY),.venv-newest/bin/python,$(PYTEST)) -n $(WORKERS) tests/unit tests/contract $(PYTEST_ARGS)

nightly: setup
	@$(PYTEST) -n $(WORKERS) -m nightly tests $(PYTEST_ARGS)

test-windows: setup
	@packaging/windows/test.sh $(PYTEST_ARGS)

check: setup
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy
	@.venv/bin/mypy --platform win32 --cache-dir .mypy_cache/windows --follow-imports silent $(FOR_WINDOWS)
	@.venv/bin/lint-imports
	@$(PY) -m clew_agent catalogue --check
	@$(PY) -m pytest -q --no-header tests/unit/journal/test_protocol_doc.py tests/unit/project/test_size.py
	@$(PY) docs/make_site.py

format: setup
	@.venv/bin/ruff check --fix
	@.venv/bin/ruff format

docs: setup
	@$(PY) docs/make_site.py

bench: setup
	@$(PY) -m tests.bench.others
	@$(PY) -m tests.bench $(BENCH_ARGS)

soak: setup
	@$(PY) -m tests.soak $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SOAK_MINUTES),--minutes $(SOAK_MINUTES)) $(PYTEST_ARGS)

fuzz: setup
	@$(PY) -c 'import atheris' 2>/dev/null || $(PY) -m pip install -q 'atheris>=3'
	@$(PY) -m tests.fuzz $(FUZZ_ARGS)

gpu-check: setup
	@$(PY) -m tests.gpu_check

cluster-up: setup
	@packaging/cluster/cluster up

cluster-down:
	@packaging/cluster/cluster down

newer: setup
	@$(PY) -m pip list --outdated --disable-pip-version-check

constraints: setup
	@packaging/constraints.sh

packages: setup
	@$(PY) packaging/packages.py
