# Everything here makes what it needs: a Python ≥ 3.11 and make are enough to begin with.
# Java 17+ is wanted only by Spark and where Apache Kafka is asked; without it those parts say so.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
FIND_PYTHON = for name in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3 python; do \
	if command -v $$name >/dev/null && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$name; exit 0; fi; \
	done; echo "no Python 3.11 or newer found (set PYTHON=...)" >&2; exit 1
COMPILE = $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links
# Everything that a server can be asked for.
SERVED = --extra security --extra postgresql --extra s3 --extra telemetry --extra http --extra traces --extra console
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: oracle oracle-spark oracle-attack oracle-chaos attack help install demo serve test test-console test-spark mutants lint format bench bench-cluster bench-watched bench-spark chaos simulate pipelines
.PHONY: cluster-chaos conformance audit nodes clients-of-nodes power-cuts fresh mutants-over-a-store mutants-at-random jars jars-kafka jars-delta jars-tested spark-where-java wheel-spark docs lock clean man
.PHONY: dist dist-compiled test-compiled sbom image docs-site test-containers image-spark

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## Make .venv from the lock, with the tallystick command in it

demo: install ## Run the main job: exactly-once through kills, with a verdict (ARGS="--json --seed 7", over three nodes ARGS="--cluster")
	@$(BIN)/python -P -m tallystick demo $(ARGS)

serve: install ## A broker on 127.0.0.1:9092, data under ./data (ARGS="--port 9093")
	@exec $(BIN)/python -P -m tallystick serve --data-dir data $(ARGS)

test: lint jars-tested ## Lint, then every short test; those of Spark where Java 17+ is (ARGS="-k demo")
	@$(BIN)/python -m pytest -n 3 --dist loadgroup --durations 30 --durations-min 10 $(ARGS)

test-spark: jars jars-delta ## Every case of the Spark tests, the long ones too (ARGS="tests/spark/test_eos_faults.py")
	@TALLYSTICK_SPARK=whole $(BIN)/python -m pytest $(or $(ARGS),tests/spark)

conformance: install ## Clients of other languages and programs of Kafka's world, where a JDK, Go, Rust and Node are; what is missing is named (ARGS="-k Java")
	@$(BIN)/python -m tests.harness.jars --best-effort kafka kafka-3.9 connect flink
	@$(BIN)/python -m tests.conformance.matrix --prepare
	@TALLYSTICK_CONFORMANCE=whole $(BIN)/python -m pytest tests/conformance tests/programs tests/clients/test_administration.py $(ARGS)

fresh: install ## The two commands of the README on fresh machines: Debian 13 and testing (root and debootstrap needed)
	@$(BIN)/python -m tests.fresh $(ARGS)

# A browser is not brought by the lock: Debian has it (apt-get install chromium). What is missing is said, and is no failure.
CHROMIUM = $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
test-console: install ## The console in a real Chromium, and the pictures of docs/console.md (ARGS="-k 'not pictures'" without these)
	@if [ -z "$(CHROMIUM)" ]; then echo "no Chromium: the console is not tested in a browser"; \
	elif ! $(MAKE) $(VENV)/.console-test; then echo "Playwright cannot be installed from here: the console is not tested in a browser"; \
	else TALLYSTICK_BROWSER=$(CHROMIUM) $(BIN)/python -m pytest tests/console $(ARGS); fi

mutants: install ## Plant defects, one at a time; each must be noticed; write docs/mutants.md (ARGS="--jobs 2 NAME")
	@$(BIN)/python -m tests.mutants $(ARGS)

mutants-over-a-store: install ## The same of nodes over a store, in SQL and between nodes; wants PostgreSQL (ARGS="--every NAME")
	@$(BIN)/python -m tests.mutants.over_a_store $(ARGS)

mutants-at-random: $(VENV)/.mutants ## A draw of automatic defects; the score into docs/mutants.md (N=300 SEED=7 ARGS="--part transactions")
	@$(BIN)/python -m tests.mutants.at_random --count $(or $(N),300) $(if $(SEED),--seed $(SEED)) $(ARGS)

oracle: install jars-kafka ## Tell the scenarios to a real Apache Kafka, record its answers, show what differs (ARGS="groups.txt")
	@$(BIN)/python -m tests.scenarios oracle $(ARGS)

oracle-spark: jars ## The same against a real Apache Kafka, and the leases that the sink is made of (ARGS="tests/spark/test_eos_sink.py")
	@TALLYSTICK_TEST_BROKER=apache-kafka TALLYSTICK_SPARK=whole $(BIN)/python -m pytest $(or $(ARGS),tests/spark tests/clients/test_lease.py tests/clients/test_secured_connections.py)

lint: install ## ruff, mypy --strict, the layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: install ## Put the code into form
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: install jars-kafka ## Measure beside Apache Kafka, and kfake where Go is, write docs/benchmarks.md (ARGS="--rows produce,txn --rounds 3", with the compiled core ARGS="--compiled", the page alone ARGS="--page")
	@$(BIN)/python -m tests.benchmarks $(ARGS)

bench-cluster: install ## One broker, and one to three nodes over PostgreSQL, with a bucket, too, where versitygw is; what they ask of both; how long a partition of a node that ends takes no writes (ARGS="--rounds 5", "--only sizing")
	@$(BIN)/python -m tests.benchmarks.several_nodes $(ARGS)

bench-watched: install ## What it costs a broker to be watched: processor time of a request with and without (ARGS="--rounds 15")
	@$(BIN)/python -m tests.benchmarks.watched $(ARGS)

bench-spark: jars ## Spark's connector and ours, on us and on Apache Kafka, into docs/benchmarks-spark.md (ARGS="--rounds 1")
	@$(BIN)/python -m tests.benchmarks.spark $(ARGS)

pipelines: jars jars-delta ## The three Spark pipelines through kills, with verdicts (ARGS="--seed 7")
	@$(BIN)/python -m tests.pipelines all $(ARGS)

jars: $(VENV)/.spark ## Bring Apache Kafka's and Spark's jars into .jars (Java needed)
	@$(BIN)/python -m tests.harness.jars kafka spark

jars-kafka: install
	@$(BIN)/python -m tests.harness.jars --best-effort kafka

# Without Delta's jars the table of the pipeline cdc is Parquet, and its verdict says why.
jars-delta: $(VENV)/.spark
	@$(BIN)/python -m tests.harness.jars --best-effort delta

jars-tested: spark-where-java
	@$(BIN)/python -m tests.harness.jars --best-effort kafka spark

# What is missing here is said, and its tests are skipped: no test run is red for want of Java or of an index.
spark-where-java: install
	@if ! $(BIN)/python -m tests.harness.jars --java; then echo "no Java 17 or newer: PySpark is not installed, the tests of Spark are skipped"; \
	elif ! $(MAKE) $(VENV)/.spark; then echo "PySpark cannot be installed from here: the tests of Spark are skipped"; fi

wheel-spark: install ## The distribution tallystick-spark: the Spark connector alone, into dist/
	@$(BIN)/python -m distributions.spark build/tallystick-spark
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist build/tallystick-spark
	@ls dist/tallystick_spark-*.whl

dist: install ## The sdist and the wheel, into dist/, tried in an environment with nothing but what an index gives
	@$(BIN)/python -m build --no-isolation --skip-dependency-check --outdir dist . > /dev/null
	@TALLYSTICK_DISTRIBUTIONS=whole $(BIN)/python -m pytest tests/distributions $(ARGS)

dist-compiled: install ## A wheel with the compiled core beside the sources, for this Python and machine, into dist/ (a C compiler needed)
	@rm -rf build/lib.* && TALLYSTICK_COMPILE=1 $(BIN)/python -m build --wheel --no-isolation --skip-dependency-check --outdir dist . > /dev/null
	@TALLYSTICK_DISTRIBUTIONS=compiled $(BIN)/python -m pytest tests/distributions/test_compiled.py $(ARGS)

test-compiled: install ## The tests of what is compiled, against a copy of the tree with the compiled core (ARGS="tests/server -n 2")
	@$(BIN)/python -m tests.compiled $(ARGS)

sbom: $(VENV)/.sbom $(VENV)/.shipped ## What a release consists of, with licences (CycloneDX), into dist/tallystick.cdx.json
	@mkdir -p dist
	@$(VENV)/sbom/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --mc-type application \
		--output-file dist/tallystick.cdx.json $(VENV)/shipped/bin/python
	@TALLYSTICK_SBOM=dist/tallystick.cdx.json $(BIN)/python -m pytest tests/distributions/test_sbom.py

# Exit status 75: it cannot be built here, and it has said why.
image: install ## The container image with Debian's buildah (root; no engine needed), started and driven by a client
	@status=0; $(BIN)/python -m distributions.image build/image $(ARGS) || status=$$?; \
	if [ $$status = 75 ]; then exit 0; elif [ $$status != 0 ]; then exit $$status; fi; \
	TALLYSTICK_IMAGES=build/image $(BIN)/python -m pytest tests/distributions/test_image.py

image-spark: install ## The image of the Spark job of docker/compose.spark.yml, as `make image` builds that of the broker
	@status=0; $(BIN)/python -m distributions.image build/image --image tallystick-spark-job $(ARGS) || status=$$?; \
	if [ $$status = 75 ]; then exit 0; fi; exit $$status

test-containers: install ## The modules for Testcontainers and the compose files, on Debian's podman with the image that `make image` has built (root)
	@if ! $(MAKE) $(VENV)/.testcontainers; then echo "Testcontainers cannot be installed from here: nothing of containers is tested"; else \
	$(BIN)/python -m tests.harness.jars --best-effort testcontainers kafka; \
	TALLYSTICK_CONTAINERS=build/image $(BIN)/python -m pytest tests/containers $(ARGS); fi

simulate: install ## Many seeds of a whole node under faults (SEEDS=20000 START=0; without START fresh ones)
	@$(BIN)/python -m tests.simulation --jobs 2 --seeds $(or $(SEEDS),1000) $(if $(START),--start $(START)) $(ARGS)

attack: install ## Every attack in its long form, beside an honest client; write docs/attacks.md (ARGS="idle-connections fuzz")
	@$(BIN)/python -m tests.attacks $(ARGS)

oracle-attack: install jars-kafka ## The same attacks on Apache Kafka, into its column of docs/attacks.md
	@$(BIN)/python -m tests.attacks --kafka $(ARGS)

chaos: install jars-kafka ## Real processes killed, frozen and out of disk under real clients (MINUTES=10 ARGS="--seed 7")
	@TALLYSTICK_CHAOS_THOROUGH=1 $(BIN)/python -m pytest -n 2 tests/chaos/test_fault_points.py tests/chaos/test_other_points.py
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) $(ARGS)

nodes: install ## Several nodes over one PostgreSQL under clients of theirs, every one of which dies, leaves or stands still (ARGS="-k kills")
	@TALLYSTICK_NODES_THOROUGH=1 $(BIN)/python -m pytest tests/shared_store/several_nodes $(ARGS)

# Connect and Flink have brokers of their own. Of the matrix the clients are told that `make conformance` has prepared.
OF_CLIENTS = tests/clients tests/scenarios/test_scenarios_over_several.py tests/spark \
	tests/conformance/test_matrix.py tests/conformance/test_java_client.py $(wildcard tests/conformance/test_franz_go*.py)
clients-of-nodes: jars-tested ## The tests of clients, and the stories, told to a node of three (NODES=postgresql ARGS="tests/clients/test_groups.py")
	@TALLYSTICK_TEST_NODES=$(or $(NODES),memory) TALLYSTICK_CONFORMANCE=whole $(BIN)/python -m pytest $(or $(ARGS),$(OF_CLIENTS))

power-cuts: install ## A file system shut down under load, mounted again, looked at (root; ROUNDS=20 ARGS="--seed 7 --on xfs")
	@TALLYSTICK_POWER_CUTS=whole $(BIN)/python -m pytest -n 2 tests/simulation/test_replaying.py
	@$(BIN)/python -m tests.chaos.power_cuts --rounds $(or $(ROUNDS),20) $(ARGS)

cluster-chaos: install jars-kafka ## Three nodes over PostgreSQL with a standby, all of which fail under real clients (MINUTES=10 ARGS="--seed 7", with records in a bucket ARGS="--bucket", in network namespaces ARGS="--namespaces")
	@$(BIN)/python -m tests.chaos.cluster --minutes $(or $(MINUTES),10) $(ARGS)

oracle-chaos: install jars-kafka ## The same on Apache Kafka, as a control (MINUTES=10 ARGS="--seed 7")
	@$(BIN)/python -m tests.chaos --kafka --minutes $(or $(MINUTES),10) $(ARGS)

docs: install ## Write the generated pages anew (docs/compatibility.md, docs/invariants.md, docs/commands.md, docs/benchmarks.md of what was measured, the tables in docs/security.md, docs/metrics.md and docs/spark.md)
	@$(BIN)/python -m tests.harness.compatibility --write
	@$(BIN)/python -m tests.harness.permissions --write
	@$(BIN)/python -m tests.harness.metrics_page --write
	@$(BIN)/python -m tests.harness.spark_settings --write
	@$(BIN)/python -m tests.scenarios.invariants --write
	@$(BIN)/python -m tests.harness.commands_page --write
	@$(BIN)/python -m tests.benchmarks --page

docs-site: install $(VENV)/.docs-site ## A site of docs/ and the README, into build/docs-site/site; in a real Chromium where one is
	@$(BIN)/python -m distributions.site build/docs-site
	@cd build/docs-site && NO_MKDOCS_2_WARNING=true $(abspath $(VENV))/docs-site/bin/python -m mkdocs --quiet build --strict
	@if [ -n "$(CHROMIUM)" ]; then $(MAKE) $(VENV)/.console-test || true; fi
	@TALLYSTICK_SITE=build/docs-site/site TALLYSTICK_BROWSER=$(CHROMIUM) $(BIN)/python -m pytest tests/distributions/test_site.py $(ARGS)

man: install ## Pages for man, one for each command, into build/man (ARGS="FOLDER")
	@$(BIN)/python -m distributions.manual $(or $(ARGS),build/man)

lock: install ## Compile the lock files anew from pyproject.toml
	@$(COMPILE) --upgrade $(SERVED) --extra test --output-file requirements/test.txt pyproject.toml requirements/build.in
	@$(COMPILE) --constraint requirements/test.txt $(SERVED) --output-file requirements/runtime.txt pyproject.toml
	@$(COMPILE) --constraint requirements/test.txt --output-file requirements/build.txt requirements/build.in
	@$(COMPILE) --upgrade $(SERVED) --extra test --extra spark --extra spark-connect --constraint requirements/test.txt \
		--output-file requirements/spark.txt pyproject.toml requirements/build.in
	@$(COMPILE) --upgrade $(SERVED) --extra test --extra mutants --constraint requirements/test.txt \
		--output-file requirements/mutants.txt pyproject.toml requirements/build.in
	@$(COMPILE) --upgrade $(SERVED) --extra test --extra console-test --constraint requirements/test.txt \
		--output-file requirements/console-test.txt pyproject.toml requirements/build.in
	@$(COMPILE) --upgrade $(SERVED) --extra test --extra testcontainers --constraint requirements/test.txt \
		--output-file requirements/testcontainers.txt pyproject.toml requirements/build.in
	@$(COMPILE) --upgrade --extra spark --extra security --constraint requirements/spark.txt \
		--output-file requirements/spark-job.txt pyproject.toml
	@for own in sbom docs-site; do $(COMPILE) --upgrade --output-file requirements/$$own.txt requirements/$$own.in; done

# In an environment of its own, which no lock knows: it looks at the locks from outside. What cannot be looked up is a failure, too.
audit: $(VENV)/.audit ## Ask for known vulnerabilities of everything in the lock files (ARGS="--vulnerability-service osv")
	@for lock in requirements/*.txt; do echo "$$lock"; \
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement $$lock $(ARGS); done

clean: ## Remove what was made here; .jars and .conformance stay
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@python=$$($(FIND_PYTHON)); echo "making $(VENV) with $$($$python --version)"; $$python -m venv $(VENV)

$(VENV)/.installed: requirements/test.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing from the lock into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/test.txt
	@PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation --editable .  # setuptools has a box of stars for it
	@$(BIN)/python -m compileall -q protocol keystores storage coordinator broker tallystick
	@touch $@

$(VENV)/.mutants: requirements/mutants.txt | $(VENV)/.installed
	@echo "installing mutmut and coverage from the lock into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/mutants.txt
	@touch $@

$(VENV)/.console-test: requirements/console-test.txt | $(VENV)/.installed
	@echo "installing Playwright from the lock into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/console-test.txt
	@touch $@

$(VENV)/.spark: requirements/spark.txt | $(VENV)/.installed
	@echo "installing PySpark from the lock into $(VENV) (about half a gigabyte)"
	@$(PIP) install --require-hashes -r requirements/spark.txt
	@touch $@

$(VENV)/.testcontainers: requirements/testcontainers.txt | $(VENV)/.installed
	@echo "installing Testcontainers from the lock into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/testcontainers.txt
	@touch $@

$(VENV)/.sbom: requirements/sbom.txt | $(VENV)/bin/python
	@echo "installing cyclonedx-bom from its lock into $(VENV)/sbom"
	@$(BIN)/python -m venv $(VENV)/sbom
	@$(VENV)/sbom/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/sbom.txt
	@touch $@

$(VENV)/.docs-site: requirements/docs-site.txt | $(VENV)/bin/python
	@echo "installing mkdocs from its lock into $(VENV)/docs-site"
	@$(BIN)/python -m venv $(VENV)/docs-site
	@$(VENV)/docs-site/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/docs-site.txt
	@touch $@

# What is handed out and nothing else: no tool, not even pip.
$(VENV)/.shipped: requirements/runtime.txt pyproject.toml | $(VENV)/.installed
	@rm -rf $(VENV)/shipped && $(BIN)/python -m venv --without-pip $(VENV)/shipped
	@$(PIP) --python $(VENV)/shipped/bin/python install --require-hashes -r requirements/runtime.txt
	@rm -rf build/shipped && $(BIN)/python -m build --no-isolation --skip-dependency-check --outdir build/shipped . > /dev/null
	@$(PIP) --python $(VENV)/shipped/bin/python install --no-deps build/shipped/*.whl
	@touch $@

$(VENV)/.audit: | $(VENV)/bin/python
	@echo "installing pip-audit into $(VENV)/audit"
	@$(BIN)/python -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip --disable-pip-version-check --quiet install 'pip-audit>=2.9'
	@touch $@
