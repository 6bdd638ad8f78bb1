# Needs make and Python 3.11 or newer; everything else is fetched, pinned by hash, into .venv and a cache outside this folder.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ROOT   := $(CURDIR)

# Set, not extended: what a shell happens to export must not decide what the tests import.
export PYTHONPATH := $(ROOT)/operator:$(ROOT)/spark:$(ROOT)/tests
# Compiled tests are kept: a dozen processes import them.
export PYTHONDONTWRITEBYTECODE :=

SOURCES := $(wildcard operator spark tests demo bench charts/*.py)
# Keeps each tier's seconds in build/timings.json.
TIMED := $(BIN)/python -m testbed.timed
# Checked once, wherever the checkout lies: a fresh clone need not do all of it again.
CACHE := $(or $(KAFKA_RECOVERY_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kafka-recovery)
# What a tier runs: by folder, for to collect everything and then leave most of it out takes longer than `unit`.
UNIT       := tests/unit tests/mutations
SIMULATED  := tests/simulation tests/fidelity tests/exhaustive tests/property
BROKERS    := tests/brokers
APISERVER  := tests/apiserver tests/charts
QUICK      := not full and not bench
PYTEST     := $(BIN)/pytest --durations 15 --durations-min 1
# CI alone grants these (.ci/run): how many tests on real processes may fail once and be run again, in each such tier.
# Every one is shown with its first failure: it passes a change, and is a defect to find all the same.
SECOND_CHANCES ?= 0
ON_REAL_PROCESSES := $(PYTEST) $(if $(filter-out 0,$(SECOND_CHANCES)),--reruns 1 --max-suite-reruns $(SECOND_CHANCES) --rerun-show-tracebacks)
# Tests on real processes wait more than they work: three tiers side by side keep two cores busy. The longest come first,
# or one of them is alone at the end, with a core idle. Make starts whatever can be started, and the longest need a few
# seconds to see that Kafka and Kubernetes are there; so those that need neither wait for HEAD_START. With an empty cache
# they run beside the builds all the same.
JOBS  ?= 3
TIERS := lint brokers apiserver spark unit simulation
HEAD_START :=
MUTATIONS := $(BIN)/python -m mutations --jobs 2
# Named by content, not by time: a fresh clone gives every file the same date.
PINNED    := $(VENV)/.pinned-$(shell cksum < requirements/dev.txt | tr ' ' '-')
INSTALLED := $(VENV)/.installed-$(shell cat requirements/dev.txt pyproject.toml | cksum | tr ' ' '-')

.DEFAULT_GOAL := help
.PHONY: help setup java lint style types layers unit explore head-start simulation simulate spark brokers apiserver test test-full mutations fuzz upstream demo demo-kube demo-fleet bench docs lock clean kafka-newest kafka-4.0 kafka-all kube kubernetes helm prometheus

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) ## Make .venv and install everything pinned in requirements/dev.txt

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; '$(PYTHON)' is not (or is missing). Name another one: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu install python3-venv." >&2; exit 1; }

$(PINNED): | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@rm -f $(VENV)/.pinned-* $(VENV)/.installed-*
	@touch $@

$(INSTALLED): $(PINNED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q operator spark # else a dozen processes of the tests do so side by side
	@rm -f $(VENV)/.installed-*
	@touch $@

lint: style types layers ## Style, types and the import rules between rooms

style: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	@$(TIMED) types $(BIN)/mypy --cache-dir $(CACHE)/mypy $(SOURCES)

layers: $(INSTALLED)
	@$(TIMED) layers $(BIN)/lint-imports --cache-dir $(CACHE)/import-linter

# Three processes for two cores: some tests wait for real sockets and processes. Every process imports all the tests.
# `make test` has two: other tiers keep the cores busy there, and a third process would only import them once more.
UNIT_PROCESSES ?= 3
unit: $(INSTALLED) | $(HEAD_START) ## Unit tests: no Kafka, no Java, no Kubernetes
	@$(TIMED) unit $(PYTEST) -n $(UNIT_PROCESSES) --dist worksteal --timeout 60 -m "$(QUICK)" $(UNIT)

head-start:
	@sleep 10

explore: $(INSTALLED) ## The property tests with new examples, ten times as many of each
	$(BIN)/pytest --hypothesis-profile explore -m "$(QUICK) and hypothesis" $(UNIT) tests/property

simulation: $(INSTALLED) | $(HEAD_START) ## What is enumerated, drawn or simulated: all small evidence, properties, 500 histories; no Kafka, no Java
	@$(TIMED) simulation $(PYTEST) -n 2 --dist worksteal -m "$(QUICK)" $(SIMULATED)

simulate: $(INSTALLED) ## As many histories as you like: SEEDS=20000, or SEEDS=500..900; or JUDGE=folder: a journal from the field
	$(BIN)/python -m kafka_recovery.simulator $(if $(JUDGE),judge $(JUDGE),run --seeds $(or $(SEEDS),500)) $(ARGS)

# Said before anything runs: half an hour later is too late to hear of it.
java: $(INSTALLED)
	@test -n "$$JAVA_HOME" || $(BIN)/python -m testbed.debian java
	@said=$$($(BIN)/python -c 'from kafka_recovery_spark.session import check_java; check_java()' 2>&1) || { \
	  echo "$${said##*JavaMissing: }" >&2; exit 1; }

spark: java ## A fleet's ranking on a real Spark; needs a Java of 17 or newer on this machine
	@$(TIMED) spark $(ON_REAL_PROCESSES) -m "$(QUICK)" tests/spark

brokers: kafka-all ## Tests against real brokers: Kafka 3.9, 4.0 and the newest
	@$(TIMED) brokers $(ON_REAL_PROCESSES) -n 3 --dist loadgroup -m "$(QUICK)" $(BROKERS)

apiserver: kube kafka-newest ## Tests against a real Kubernetes API server, some with the newest Kafka as well
	@$(TIMED) apiserver $(ON_REAL_PROCESSES) -n 3 --dist loadgroup -m "$(QUICK)" $(APISERVER)

test: $(INSTALLED) ## All of the above; what can't be fetched fails it, nothing is skipped silently
	@echo "$(JOBS) tiers side by side; each is shown when it ends."
	@rm -f build/timings.json
	@$(TIMED) total $(MAKE) --no-print-directory --jobs $(JOBS) --keep-going --output-sync=target HEAD_START=head-start \
	  UNIT_PROCESSES=2 $(TIERS); \
	  status=$$?; cat build/timings.json; exit $$status

test-full: test java kafka-all kube ## Everything in test, and what is long: an hour or two; images on a real node (as root, on Debian)
	@$(TIMED) full $(PYTEST) -m "full and not bench" tests
	@$(TIMED) mutations $(MUTATIONS)
	@cat build/timings.json

mutations: $(INSTALLED) ## Small defects of the product, one after the other: each must be noticed; ARGS="--tier apiserver" for more
	@$(TIMED) mutations $(MUTATIONS) $(ARGS)

# Where there is no wheel of atheris this fails, and hypothesis' tests of the same in `unit` are what there is.
build/fuzz: requirements/fuzz.txt | $(INSTALLED)
	@rm -rf $@
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --target $@ -r $<
	@touch $@

fuzz: build/fuzz ## Bytes that either end of the wire does not take, with atheris: ARGS="client -max_total_time=600", or server
	PYTHONPATH=$(PYTHONPATH):$(ROOT)/build/fuzz $(BIN)/python -m fuzz $(or $(ARGS),server)

upstream: kafka-newest kafka-4.0 ## What docs/explanation/upstream.md reports of Kafka itself, on real brokers: ARGS="-k test_refused_default" for one
	$(BIN)/pytest -q -s tests/brokers/test_upstream.py $(ARGS)

demo: kafka-newest ## Lose brokers of a real Kafka on this machine and bring its partitions back
	$(BIN)/python demo/run.py $(ARGS)

demo-kube: $(INSTALLED) ## The operator's whole story on a real Kafka and a real Kubernetes API; says first what it needs
	$(BIN)/python demo/kube.py

demo-fleet: $(INSTALLED) ## What a simulated fleet would lose, as one page; needs a Java of 17 or newer on this machine
	$(BIN)/python demo/fleet.py

bench: kube kafka-newest ## Measure, as a table and as build/bench.json
	@mkdir -p build
	$(BIN)/python bench/run.py $(ARGS)

docs: $(INSTALLED) ## Build the documentation, broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

# A Java runtime and Kafka's jars, fetched once into a cache outside this folder.
kafka-newest: RELEASES := newest
kafka-4.0: RELEASES := 4.0
kafka-all: RELEASES := newest 3.9 4.0
kafka-newest kafka-4.0 kafka-all: $(INSTALLED)
	@$(BIN)/python -m testbed.distribution $(RELEASES) || { \
	  echo "Could not get Kafka ($(RELEASES)) or the Java runtime for it: the reason is above. What needs them did not run." >&2; exit 1; }

kube: kubernetes helm prometheus ## Get etcd, API server, controllers, kubectl (unless KUBEBUILDER_ASSETS names them), Helm and Prometheus

# Apart, so that the builds and what needs none of them go on side by side.
kubernetes: $(INSTALLED)
	@$(TIMED) kubernetes $(BIN)/python -m testbed.kubernetes.distribution || { \
	  echo "Could not get Kubernetes: the reason is above. What needs it did not run." >&2; exit 1; }

helm: $(INSTALLED)
	@$(TIMED) helm $(BIN)/python -m testbed.helm.distribution || { \
	  echo "Could not get Helm: the reason is above. What needs it did not run." >&2; exit 1; }

prometheus: $(INSTALLED)
	@$(BIN)/python -m testbed.prometheus || { \
	  echo "Could not get Prometheus and Alertmanager: the reason is above. What needs them did not run." >&2; exit 1; }

# Keeps what is pinned as far as it still fits; `make lock UPGRADE=1` takes the newest of everything.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
          --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: $(PINNED) ## Pin requirements/*.txt again from pyproject.toml (UPGRADE=1: take the newest)
	$(COMPILE) pyproject.toml -o requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra operator --extra fleet -c requirements/runtime.txt -o requirements/operator.txt
	$(COMPILE) pyproject.toml --extra spark -c requirements/runtime.txt -o requirements/spark.txt
	$(COMPILE) pyproject.toml --extra operator --group dev -c requirements/runtime.txt -c requirements/operator.txt \
	  -c requirements/spark.txt -o requirements/dev.txt
	$(COMPILE) requirements/build.in -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) requirements/fuzz.in -o requirements/fuzz.txt

clean: ## Remove what builds and tests left behind (.venv and the Kafka cache stay)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find $(wildcard operator spark tests demo bench) -name __pycache__ -type d -prune -exec rm -rf {} +
