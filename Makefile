# What can be done here. `make` alone lists it.
#
#   make serve SERVE_ARGS="--listen 0.0.0.0:8080 --config conf/office.yaml"
#   make test TEST_ARGS="tests/spec -k ttl"
#   make test PYTHON=python3.12 VENV=.venv-3.12
#
# Every path is relative, so the folder may have any name, blanks included.

VENV ?= .venv
PYTHON ?=
SERVE_ARGS ?=
DEMO_ARGS ?=
TEST_ARGS ?=
CONFORMANCE_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=
WEEK_ARGS ?=
QUICK ?=
SUITE ?=
ENTRANCE ?=

py := $(VENV)/bin/python
# Written last: as long as it is newer than what it depends on, everything is installed.
stamp := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_NO_INPUT = 1
# A tool's settings from an environment that happens to be active have no say in ours. Without compiled files every
# process that a test starts would compile the whole product again.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

# Store and CA belong into the home folder; where nothing can be written there, into build/home.
define with_a_home
for each in "$${XDG_CACHE_HOME:-$$HOME/.cache}/feedproxy" "$$HOME/.mitmproxy"; do \
	mkdir -p "$$each" 2>/dev/null && test -w "$$each" || { \
		unset XDG_CACHE_HOME; HOME="$$PWD/build/home"; export HOME; mkdir -p "$$HOME"; \
		echo "The home folder cannot be written to: using build/home"; break; }; done;
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: FORCE help install serve demo test spec live lint type format docs fuzz bench soak bench-week conformance conformance-check constraints image-digests sbom dist clean

help: ## this list
	@echo "feedproxy: make TARGET"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/  \1~\2/p' Makefile | while IFS='~' read -r target text; \
		do printf '%-21s %s\n' "  $$target" "$$text"; done

install: $(stamp) ## a virtual environment with feedproxy (editable) and all that its tests need
	@echo "$(VENV) is ready: the command is $(VENV)/bin/feedproxy"

$(stamp): pyproject.toml constraints.txt
	@test -z "$(PYTHON)" && scripts/find-python "$(py)" >/dev/null 2>&1 || { \
		found=$$(scripts/find-python "$(PYTHON)") && echo "Making $(VENV) with $$found" && \
		"$$found" -m venv --clear "$(VENV)"; }
	@echo "Installing what constraints.txt names into $(VENV) …"
	@$(py) -m pip install --quiet --require-hashes --requirement constraints.txt
	@$(py) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(py) -m compileall -q -j 0 feedproxy addons
	@echo "$(PYTHON)" > $@

# Another Python than the environment was made with was asked for.
ifneq ($(PYTHON),)
ifneq ($(PYTHON),$(shell cat $(stamp) 2>/dev/null))
$(stamp): FORCE
endif
endif

serve: $(stamp) ## run the proxy (SERVE_ARGS="--listen HOST:PORT …")
	@$(with_a_home) exec $(VENV)/bin/feedproxy serve $(SERVE_ARGS)

demo: $(stamp) ## a small recorded week and what was saved; needs no network
	@$(with_a_home) exec $(VENV)/bin/feedproxy demo $(DEMO_ARGS)

test: $(stamp) ## all tests (TEST_ARGS="tests/cache -k fresh")
	$(py) -m pytest -n auto --dist worksteal $(TEST_ARGS)

spec: $(stamp) ## tests against the specifications: RFCs, RSS, USM, pings
	$(py) -m pytest tests/spec $(TEST_ARGS)

live: $(stamp) ## the tests with real readers and servers, as far as they are installed
	$(py) -m pytest tests/live $(TEST_ARGS)

# All three are run, whatever the first has found.
lint: $(stamp) ## ruff and mypy
	@code=0; for each in "ruff check ." "ruff format --check ." "mypy --strict"; do \
		echo "== $$each"; $(py) -m $$each || code=1; done; exit $$code

type: $(stamp) ## mypy alone
	$(py) -m mypy --strict

format: $(stamp) ## write code as ruff has it
	$(py) -m ruff check --fix .
	$(py) -m ruff format .

docs: $(stamp) ## write what is made from the code: reference pages, conf/*.yaml, manual page, completion
	$(py) scripts/reference.py
	$(py) scripts/examples.py
	$(py) scripts/shell.py

fuzz: $(stamp) ## hostile requests and feeds, made up from a seed (SEED=1 SECONDS=60)
	@for name in requests feeds; do \
	  if [ -f tests/fuzz/$$name.py ]; then \
	    $(py) -m tests.fuzz.$$name --seed $(or $(SEED),1) --seconds $(or $(SECONDS),60) || exit 1; \
	  fi; \
	done

bench: $(stamp) ## what a request costs, beside nginx, Varnish and Squid (QUICK=1: two minutes instead of ten)
	@$(py) -m benchmarks $(if $(QUICK),--quick) $(BENCH_ARGS)

soak: $(stamp) ## does anything grow under mixed load? (SOAK_ARGS="--minutes 15 --rate 100")
	@$(py) -m benchmarks.soak $(SOAK_ARGS)

bench-week: $(stamp) ## a week of polling through the same caches (WEEK_ARGS="--readers 60 --seed 2 --frontier")
	@$(py) -m benchmarks.week $(WEEK_ARGS)

conformance_args = $(if $(SUITE),--suite "$(SUITE)") $(if $(ENTRANCE),--entrance $(ENTRANCE)) \
	$(if $(WORKERS),--workers $(WORKERS)) $(CONFORMANCE_ARGS)
conformance: $(stamp) ## the public tests for HTTP caches, beside other caches (SUITE=DIR, ENTRANCE=proxy, WORKERS=N)
	@$(py) -m conformance $(conformance_args)

conformance-check: $(stamp) ## has feedproxy lost one of these tests that it passed before?
	@$(py) -m conformance check $(conformance_args)

# For all systems and versions at once; hashes, but no addresses, so that any mirror will do.
constraints: $(stamp) ## renew constraints.txt from pyproject.toml
	$(py) -m venv build/uv
	build/uv/bin/python -m pip install --quiet uv
	build/uv/bin/uv pip compile pyproject.toml --extra test --extra redis --universal --python-version 3.12 --upgrade \
		--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --quiet \
		--custom-compile-command "make constraints" --output-file constraints.txt

image-digests: $(stamp) ## renew the digests of the images in Dockerfile and conf/compose.yaml (needs docker)
	$(py) scripts/image_digests.py

# The environment has what the product needs and no more; the tool that lists it has an environment of its own.
sbom: $(stamp) ## a list of all components (CycloneDX) and what holds for their known faults (OpenVEX), in dist/
	$(py) scripts/sbom.py requirements build/sbom/requirements.txt
	$(py) -m venv --clear build/sbom/tool
	build/sbom/tool/bin/python -m pip install --quiet "cyclonedx-bom>=7,<8"
	$(py) -m venv --clear --without-pip build/sbom/product
	$(py) -m pip --python build/sbom/product/bin/python install --quiet --no-deps --require-hashes \
		--requirement build/sbom/requirements.txt
	mkdir -p dist
	build/sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --short-PURLs --output-reproducible \
		--output-file dist/feedproxy.cdx.json build/sbom/product/bin/python
	$(py) scripts/sbom.py vex dist/feedproxy.openvex.json

dist: $(stamp) ## a wheel and a source archive, in dist/
	$(py) -c 'from setuptools import build_meta; build_meta.build_sdist("dist"); build_meta.build_wheel("dist")'

clean: ## remove what was made here
	rm -rf build dist *.egg-info .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
