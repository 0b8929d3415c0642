# Everything a contributor runs. Each target sets up what it needs, from nothing but a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LIBRARY := core/_native.abi3.so
# The environment, and the compiled library as the sources in native/ say.
READY := $(STAMP) $(LIBRARY)
PEERS := $(VENV)/.peers
FOLDERS := core compilers samplers data integrations cli
BENCH_ARGS ?=
CAMPAIGN_ARGS ?=
GOLDEN_ARGS ?=

.PHONY: demo test test-runs test-all golden test-processor lint types rest docs format bench bench-sets bench-grammars bench-aligned \
	bench-drafts bench-estimates bench-classify bench-answers bench-verdicts bench-candidates \
	bench-free bench-decoding bench-start bench-fields bench-recommender bench-schema bench-vllm links clean

demo: $(READY)
	$(BIN)/cdec demo

# One worker a core, and one thread a worker: they would only wait for each other.
# Files go to workers in the order of their folders: by their numbers of tests, as xdist would have
# them, the few long ones come last and a single worker ends with them.
PARALLEL := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
# What workers and the processes of tests compile of Python is kept for the next.
unexport PYTHONDONTWRITEBYTECODE
TIER ?=
# The first tier, minutes: every law, kind and method.
test: $(READY)
	$(PARALLEL) $(TIER) $(patsubst %,--ignore=%,$(RUNS) $(READ))

# What runs the whole command many times: the documentation's commands, a share of what was recorded
# and of the campaign.
RUNS := tests/docs tests/golden tools/campaign
test-runs: $(READY)
	$(PARALLEL) $(TIER) $(RUNS)

# Both tiers of both.
test-all:
	status=0; \
	$(MAKE) test TIER=--all || status=$$?; \
	$(MAKE) test-runs TIER=--all || status=$$?; \
	exit $$status

# All recorded cases against what they do now; GOLDEN_ARGS="--only sample-*" for some. After a change
# that is meant, `$(BIN)/python tests/golden freeze --only ...` records them anew.
golden: $(READY)
	$(BIN)/python tests/golden check $(GOLDEN_ARGS)

# The tests that compare batches of real models, on another processor as far as torch is concerned:
# one without the instructions that it takes by default.
OTHER_PROCESSOR := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE
# Whatever compares by the documented rounding, and what compares texts of other batches.
BATCHES := $(sort $(shell grep -rl --include='test_*.py' laws.rounding tests) \
	tests/integrations/test_one_id.py tests/samplers/test_sampling.py \
	tests/samplers/learning/test_processors.py)
test-processor: $(READY)
	$(OTHER_PROCESSOR) $(PARALLEL) $(BATCHES)

.PHONY: campaign bounds races wheels fuzz test-integrations test-lowest
# The tests of other libraries' ways of decoding, those among them whose packages `make test` does
# without. What is not installed is skipped, and -rs says which; INTEGRATIONS_PYTHON is the
# interpreter of an environment that has it and the test extra (llama.cpp's tests write models with
# gguf, those of object stores need moto).
INTEGRATIONS_PYTHON ?= $(BIN)/python
test-integrations: $(READY)
	OMP_NUM_THREADS=1 $(INTEGRATIONS_PYTHON) -m pytest -rs --heavy tests/integrations

# What runs modules of transformers, with the lowest release that pyproject.toml allows in front of
# the installed one, and what that release needs.
LOWEST := $(VENV)/.transformers-5.0.0
test-lowest: $(LOWEST)
	PYTHONPATH=$(LOWEST) OMP_NUM_THREADS=1 $(BIN)/python -m pytest --heavy tests/core/models \
		tests/integrations/test_generate.py tests/integrations/test_generate_free.py \
		tests/integrations/test_transformers.py

$(LOWEST): $(STAMP)
	$(BIN)/pip install -q --no-deps --target $@ transformers==5.0.0 tokenizers==0.22.2 \
		huggingface-hub==1.3.0
	$(BIN)/pip install -q --target $@ httpx

# All tests at their full size, those that `make test` leaves out because they need gigabytes or
# minutes among them: the shared half of SchemaStore, thousands of walks along the masks of types.
.PHONY: nightly
nightly: $(READY)
	OMP_NUM_THREADS=1 nice $(BIN)/python -m pytest --heavy

# The campaign of attacks that `make test-runs` runs a share of: mutated files, kills, broken calls, fuzzed
# records and grammars. Hours; CAMPAIGN_ARGS="--minutes 30 --output counts.json" bounds it.
campaign: $(READY)
	nice $(BIN)/python -m tools.campaign $(CAMPAIGN_ARGS)

# The compiled library under sanitizers: AddressSanitizer and UndefinedBehaviorSanitizer (`bounds`) find
# a read outside that reads something nevertheless, ThreadSanitizer (`races`) what two threads write at
# once. The library is built as before afterwards.
BOUNDED := tests/native tests/core/grammars tests/core/artifacts/test_forged.py \
	tests/core/sets tests/compilers/sets tests/core/combine/test_conjunction.py \
	tests/core/tokens/test_token_trie.py tests/core/models/test_context_tree.py \
	tests/samplers/learning tests/samplers/loops tests/samplers/walks/test_events.py \
	tests/compilers/grammars/trees tests/compilers/grammars/scanner tests/compilers/regular \
	tests/compilers/schemas/test_number_spellings.py tests/core/schemas
SANITIZED = LD_PRELOAD="$(foreach name,$(1),$$(c++ -print-file-name=lib$(name).so))" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 TSAN_OPTIONS=ignore_noninstrumented_modules=1
bounds: $(READY)
	$(BIN)/python native/build.py --sanitize address,undefined
	status=0; $(call SANITIZED,asan ubsan) $(BIN)/python -m pytest $(BOUNDED) || status=$$?; \
	$(BIN)/python native/build.py --again; exit $$status

races: $(READY)
	$(BIN)/python native/build.py --sanitize thread
	status=0; $(call SANITIZED,tsan) $(BIN)/python -m pytest tests/native/test_threads.py || status=$$?; \
	$(BIN)/python native/build.py --again; exit $$status

# Fuzzers of each kind of artifact, FUZZ_SECONDS each, where clang is there.
FUZZ_SECONDS := 60
fuzz: $(READY)
	$(BIN)/python native/build.py --fuzzers build/fuzz
	$(BIN)/python -m tests.native.fuzz_seeds build/fuzz/seeds
	for kind in set grammar schema kept; do mkdir -p build/fuzz/found/$$kind; \
		CDEC_FUZZ_SEED=build/fuzz/seeds/$$kind build/fuzz/$$kind -max_len=512 -timeout=20 -verbosity=0 \
		-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=build/fuzz/$$kind- \
		build/fuzz/found/$$kind || exit 1; done

# Wheels for Linux, macOS and Windows in dist/, cross-compiled; minutes, WHEEL_ARGS="--tag win_amd64"
# for one. The one for this machine is tried where no compiler is found.
wheels: $(READY)
	$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[wheels]"
	$(BIN)/python native/wheels.py $(WHEEL_ARGS)

# Tests of how the code reads and is packed.
READ := tests/test_house.py tests/test_imports.py tests/test_library_words.py tests/test_wheel.py

# The types take as long as all the rest together, so they are checked beside it.
lint: $(READY) links
	$(MAKE) -j 2 types rest

types: $(READY) links
	$(BIN)/mypy

rest: $(READY) links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=.links $(BIN)/lint-imports
	$(BIN)/python -m pytest $(READ) --wheel
	$(MAKE) docs

# The pages are in build/site; `$(BIN)/mkdocs serve` shows them while they are written.
docs: $(READY) links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: bench-sets bench-grammars bench-schema bench-aligned bench-drafts bench-estimates \
	bench-classify bench-answers bench-verdicts bench-candidates bench-free bench-decoding bench-start \
	bench-fields bench-recommender

# Figures are written as JSON to bench-results/, or to BENCH_ARGS="--output DIR"; from another folder,
# `python PATH/TO/tools/benchmarks NAME` runs the same. --model, --draft, --device and --dtype choose
# what is run.

# The table of the set constraint; BENCH_ARGS="--titles 100000" for a quick look.
bench-sets: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_sets $(BENCH_ARGS)

# The table of grammars beside glrmask, llguidance, xgrammar and outlines-core; needs the shared data.
# BENCH_ARGS="--only cliffs" for the grammars that were slow, "--only memory --documents 100000" for
# memory in full.
bench-grammars: $(PEERS)
	$(BIN)/python -m tools.benchmarks.bench_grammars $(BENCH_ARGS)

# JSON Schemas beside llguidance, xgrammar, glrmask and grid-guardrail; needs the shared data.
# BENCH_ARGS="--schemas 50 --engines cdec llguidance" for a quick look.
bench-schema: $(PEERS)
	$(BIN)/python -m tools.benchmarks.bench_schemas $(BENCH_ARGS)

# Samples that follow the model's own law: cost and convergence; BENCH_ARGS="--tasks 1 --draws 200"
# for a quick look. The vocabulary of 131,072 tokens comes with mistral-common.
bench-aligned: $(PEERS)
	$(BIN)/python -m tools.benchmarks.bench_aligned $(BENCH_ARGS)

# Two models and rewards: calls, cost, satisfaction, time; BENCH_ARGS="--quick" for a quick look,
# "--rewards DIR" to train the reward models once only.
bench-drafts: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_drafts $(BENCH_ARGS)

# Whether log_mass, its error and log_mass_reliable are what they say; BENCH_ARGS="--worlds 100" for a
# quick look.
bench-estimates: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_estimates $(BENCH_ARGS)

# vLLM under cdec's processor beside its own structured outputs, by the interpreter of an environment
# that has vLLM; BENCH_ARGS="--requests 64" for a quick look.
bench-vllm: $(READY)
	nice $(INTEGRATIONS_PYTHON) -m tools.benchmarks.bench_vllm $(BENCH_ARGS)

# The cost of classifying beside that of evaluating the labels' distinct prefixes;
# BENCH_ARGS="--prompts 10" for a quick look.
bench-classify: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_classify $(BENCH_ARGS)

# What a verdict on a text costs, in this process and in the one that can be killed.
bench-verdicts: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_verdicts $(BENCH_ARGS)

# The best members of a catalogue: calls, time, how often they are right; BENCH_ARGS="--members 5000
# --prompts 4" for a quick look.
bench-answers: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_answers $(BENCH_ARGS)

# What disc pays for K: candidates, calls and seconds; BENCH_ARGS="--prompts 16 --tries 1 4" for a
# quick look.
bench-candidates: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_candidates $(BENCH_ARGS)

# What free text before a constraint costs; BENCH_ARGS="--tokens 16 --repeats 2" for a quick look.
bench-free: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_free $(BENCH_ARGS)

# Tokens a second beside generate of transformers, alone and with the peers' processors;
# BENCH_ARGS="--models embedded --batches 1 --rounds 3" for a quick look.
bench-decoding: $(PEERS)
	$(BIN)/python -m tools.benchmarks.bench_decoding $(BENCH_ARGS)

# What a command costs before it does anything, first and later; BENCH_ARGS="--repeats 2" for a quick
# look.
bench-start: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_start $(BENCH_ARGS)

# What a constraint costs that nobody compiled beforehand; BENCH_ARGS="--repeats 2" for a quick look.
bench-fields: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_fields $(BENCH_ARGS)

# The next item of a user by semantic ids; trains a small model first, some minutes.
bench-recommender: $(READY)
	$(BIN)/python -m tools.benchmarks.bench_recommender $(BENCH_ARGS)

# Where the system has no C++ compiler, the package ziglang brings one.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt --upgrade setuptools wheel
	$(BIN)/python native/build.py --find || $(BIN)/pip install -q -c constraints.txt ziglang
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[lint]"
	touch $@

$(PEERS): $(STAMP)
	$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e ".[lint,bench]"
	touch $@

$(LIBRARY): native/build.py $(wildcard native/*/*.h native/*/*.cc) | $(STAMP)
	$(BIN)/python native/build.py
	touch $@

# mypy reads the folders under their installed names through links.
links:
	mkdir -p .links/cdec
	for folder in $(FOLDERS); do ln -sfn ../../$$folder .links/cdec/$$folder; done
	ln -sfn ../../integrations/python/__init__.py .links/cdec/__init__.py

clean:
	rm -rf $(LIBRARY) $(VENV) .links build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis bench-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
