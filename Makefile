# Each target makes .venv itself, with uv where it is installed, and installs again only when pyproject.toml changed.

.DEFAULT_GOAL := help
.PHONY: help run test test-long lint audit bench interop clients conformance record chaos simulate \
	fuzz kernels clean

VENV := .venv
BIN := $(VENV)/bin
# The last file of a virtual environment. If its making is interrupted, Python is there without pip:
# so Ctrl-C waits for it, and what was killed is made again.
MADE := $(BIN)/activate
INSTALLED := $(VENV)/.installed
# What `make run` needs for its first part, and for all of it; each includes the one before.
GROUP_INSTALLED := $(VENV)/.installed-demo-group
DEMO_INSTALLED := $(VENV)/.installed-demo
$(INSTALLED): EXTRAS := [dev]
$(INSTALLED): NOTE := Installing Kohort, Spark and the tools of its tests into $(VENV): 1 GB to fetch, minutes, once only.
$(INSTALLED): packages/conformance/pyproject.toml
$(INSTALLED): BESIDES := --editable packages/conformance
DEMO_NEEDS := examples/demo/requirements.txt
$(GROUP_INSTALLED) $(DEMO_INSTALLED): $(DEMO_NEEDS)
$(GROUP_INSTALLED) $(DEMO_INSTALLED): BESIDES := --requirement $(DEMO_NEEDS)
# `make run` shows how far the downloads are.
$(GROUP_INSTALLED) $(DEMO_INSTALLED): QUIET :=
$(DEMO_INSTALLED): EXTRAS := [spark,report]
$(GROUP_INSTALLED): NOTE := Installing Kohort and another Kafka client into $(VENV): 60 MB to fetch, once only.
# Compiling all packages takes longer than all else of the first part, which needs few of them.
$(GROUP_INSTALLED): LAZY := yes

# pytest compiles every test with its assertions: more than half of the time of a collection.
unexport PYTHONDONTWRITEBYTECODE

# The first Python of 3.11 or later; override with `make PYTHON=/path/to/python`.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
# Three test processes for each processor (tests/conftest.py); more than six would mostly import.
BESIDE := -n auto --maxprocesses=6
QUIET := --quiet
UV := $(shell command -v uv 2>/dev/null || ls $(BIN)/uv 2>/dev/null)
ifneq ($(UV),)
CREATE_VENV = $(UV) venv --quiet $(if $(PYTHON),--python $(PYTHON))
INSTALL = $(UV) pip install $(QUIET) $(if $(LAZY),,--compile-bytecode) --python $(BIN)/python
else
CREATE_VENV = $(PYTHON) -m venv
INSTALL = $(BIN)/python -m pip install $(QUIET) $(if $(LAZY),--no-compile) --disable-pip-version-check
endif

help:
	@echo "make run          start a server and show a group at work on a real data set; Spark, too,"
	@echo "                  which is installed meanwhile"
	@echo "make test         run the test suite, in up to six processes"
	@echo "make test-long    run the long tests: older brokers, long outages, ten times the random cases"
	@echo "make lint         ruff, mypy, import-linter, bandit, and a look at the docs"
	@echo "make audit        look for known vulnerabilities of the installed packages"
	@echo "make interop      run the tests with clients written by others, also those that are built first"
	@echo "make clients      the same, and write docs/compatibility.md from the results"
	@echo "make conformance  start an Apache Kafka and compare with it, answer by answer"
	@echo "make record       record the responses of an Apache Kafka, and print what changed;"
	@echo "                  KAFKA=4.4.0 for another version, ONLY=PATTERN for some scenarios"
	@echo "make bench        measure against peers"
	@echo "make chaos        kill a server 200 times under real clients and 100 times under transactions,"
	@echo "                  the same with two workers, and with a cluster, beside its other faults;"
	@echo "                  kill Spark queries of a group 50 times, exactly-once ones 100 times;"
	@echo "                  check that every guarantee held"
	@echo "                  KAFKA=yes: exactly-once ones on an Apache Kafka, too"
	@echo "make simulate     run server and client on simulated time with random faults, 100,000 steps;"
	@echo "                  STEPS=1000000 for more, SEED=42 for the same ones again"
	@echo "make fuzz         feed broken bytes to the wire, the decoders, the logs: a million inputs"
	@echo "make kernels      compile the kernels of kohort.columnar by numba, after a change of them: on"
	@echo "                  Linux with x86-64, whose machine code the repository has"
	@echo "make clean        remove what was made, but not ./data"

$(INSTALLED) $(DEMO_INSTALLED) $(GROUP_INSTALLED): pyproject.toml
	@test -e $(MADE) || test -n "$(PYTHON)" || { echo "Kohort needs Python 3.11 or later"; exit 1; }
	@test -e $(MADE) || (trap '' INT; $(CREATE_VENV) $(VENV))
	@$(if $(NOTE),echo "$(NOTE)")
	$(INSTALL) --editable '.$(EXTRAS)' $(BESIDES)
	@$(if $(LAZY),,$(BIN)/python -m compileall -q src packages examples)
	@touch $(GROUP_INSTALLED) $(if $(filter $@,$(INSTALLED)),$(DEMO_INSTALLED)) $@

# The demo installs Spark itself, while it shows its first part. PYTHONPATH: that takes Kohort's own
# entry out of the environment for a moment, and members are started meanwhile.
ITSELF := $(MAKE) --no-print-directory
run: $(GROUP_INSTALLED)
	@PYTHONPATH=$(CURDIR)/src $(BIN)/python examples/demo \
		$$(test $(DEMO_INSTALLED) -nt pyproject.toml || echo --install $(ITSELF) $(DEMO_INSTALLED))

test: $(INSTALLED)
	$(BIN)/pytest $(BESIDE) -m "not clients and not long"

test-long: $(INSTALLED)
	$(BIN)/pytest $(BESIDE) --hypothesis-profile=long --timeout=1800 -m "hypothesis or long" -rs

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd tests && $(CURDIR)/$(BIN)/mypy
	$(BIN)/lint-imports
	cd packages/conformance && $(CURDIR)/$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src packages examples
	@! grep -rnE --include='*.md' --include='*.py' --include='*.toml' --include=Makefile \
		'(^|[^A-Za-z0-9.])/(home|root|Users|work|mnt|builds)/' \
		*.md *.toml Makefile docs src packages examples tests benchmarks interop fuzz || { echo "paths of somebody's machine"; exit 1; }

audit: $(INSTALLED)
	.ci/audit

interop: $(INSTALLED)
	$(BIN)/pytest -m "interop and not long" -rs

clients: $(INSTALLED)
	$(BIN)/pytest -m "interop and not long" -rs --junitxml=.tools/interop.xml
	PYTHONPATH=tests $(BIN)/python -m interop.table .tools/interop.xml > docs/compatibility.md

conformance: $(INSTALLED)
	$(BIN)/python -m tests.peers.compare

record: $(INSTALLED)
	$(BIN)/python -m tests.peers.record $(if $(KAFKA),--version $(KAFKA)) $(if $(ONLY),--only '$(ONLY)')

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

chaos: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m live.chaos
	PYTHONPATH=tests $(BIN)/python -m live.chaos.bank
	PYTHONPATH=tests $(BIN)/python -m live.chaos --workers 2
	PYTHONPATH=tests $(BIN)/python -m live.chaos.bank --peer workers
	PYTHONPATH=tests $(BIN)/python -m live.cluster
	PYTHONPATH=tests $(BIN)/python -m live.cluster.bank
	$(BIN)/pytest -m "clients and long" tests/spark/test_member_chaos.py
	KOHORT_SPARK_STRIKES=100 $(BIN)/pytest -m "clients and long" -rs \
		tests/spark/test_exactly_once_chaos.py $(if $(KAFKA),,-k KohortServer)
	KOHORT_SPARK_STRIKES=500 $(BIN)/pytest -m "clients and long" -rs \
		tests/spark/test_exactly_once_in_a_session.py $(if $(KAFKA),,-k KohortServer)

simulate: $(INSTALLED)
	$(BIN)/python -m kohort.testing.simulation $(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED))

# A million inputs, guided by coverage where `atheris` has a wheel for this Python.
fuzz: $(INSTALLED)
	@$(INSTALL) atheris || echo "atheris is not available: inputs are mutated at random"
	@set -e; for harness in fuzz/[!_]*.py; do echo "== $$harness"; $(BIN)/python "$$harness"; done

kernels: $(INSTALLED)
	$(BIN)/python -m kohort.columnar.numba_compiler src/kohort/columnar

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src packages examples tests benchmarks interop fuzz -name __pycache__ -type d -prune -exec rm -rf {} +
