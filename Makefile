# solfleet: the build. `make help` lists the targets.
#
# One make for the whole tree: sources are found by wildcard, objects lie in
# build/<variant>/<source path>.o, each layer is one static library, and libraries are
# linked from the top layer down, so a layer can only use what lies below it.
#
#   VARIANT=release|debug|asan|ubsan|tsan|crash   what to build (asan includes ubsan; crash: release
#                                           with the places where tests kill the process)
#   RDKAFKA=PATH                            another librdkafka, by its include/ and lib/
#   CUDA=1                                  with the CUDA back end, by `make deps-cuda` or CUDA_HOME=
#   CUDA_ARCHS=80                           only for these of the architectures 80 86 89 90
#   V=1                                     show the commands
#   T=name[:case]                           one test file, or one case of it; T=suite: all of a suite

VARIANT ?= release
RDKAFKA ?=
CUDA    ?=
BACKEND ?= cpu
CUDA_HOME  ?= .deps/cuda
CUDA_ARCHS ?= 80 86 89 90
V       ?= 0
T       ?=
# T= may name a suite (one that a file is named after, too: the file is in it).
SUITE_NAMES := unit kernels cuda_emulation component golden tools fuzz integration
ifneq ($(filter $(T),$(SUITE_NAMES)),)
override SUITES := $(T)
override T :=
endif
WERROR  ?= -Werror
PREFIX  ?= /usr/local
DESTDIR ?=
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
CXX     := $(if $(filter default,$(origin CXX)),g++,$(CXX))
PYTHON  ?= python3

BUILD := build/$(VARIANT)$(if $(RDKAFKA),-rdkafka)
Q     := $(if $(filter 1,$(V)),,@)
say    = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' '$(1)' '$(2)';)
MAKEFLAGS += --no-builtin-rules

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# ---- packages ---------------------------------------------------------------------------------
LIB_PACKAGES  := $(if $(RDKAFKA),,rdkafka) hiredis libcjson libcrypto
TEST_PACKAGES := cmocka
MISSING := $(strip $(foreach p,$(LIB_PACKAGES),$(shell pkg-config --exists $(p) 2>/dev/null || echo $(p))))
ifeq ($(MISSING),)
PKG_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(LIB_PACKAGES)))
PKG_LIBS   := $(shell pkg-config --libs $(LIB_PACKAGES))
endif
ifneq ($(RDKAFKA),)
PKG_CFLAGS += -isystem $(abspath $(RDKAFKA))/include
PKG_LIBS   += -L$(abspath $(RDKAFKA))/lib -Wl,-rpath,$(abspath $(RDKAFKA))/lib -lrdkafka
endif

# ---- flags ------------------------------------------------------------------------------------
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wundef $(WERROR)
# The arithmetic contract (kernels/canonical.h) needs every multiply and add rounded by itself. The
# other two say that nobody reads errno or exception flags after a sum: loops vectorise, values stay.
LANGUAGE := -std=c11 -D_GNU_SOURCE -I. -ffp-contract=off -fno-math-errno -fno-trapping-math
OPTIMIZE_release := -O3 -g
# Instrumented code confuses gcc's guesses about uninitialised variables; release still makes them.
INSTRUMENTED     := -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized
OPTIMIZE_debug   := -O0 -g3
OPTIMIZE_crash   := $(OPTIMIZE_release) -DSOLFLEET_CRASH_POINTS
OPTIMIZE_asan    := $(INSTRUMENTED) -fsanitize=address,undefined
OPTIMIZE_ubsan   := $(INSTRUMENTED) -fsanitize=undefined
OPTIMIZE_tsan    := $(INSTRUMENTED) -fsanitize=thread
# The fuzz variant is built with clang; its own rules are below. What a conversion is, gcc decides:
# clang's also minds enums as int and assert(... && "why"); and librdkafka's macros.
OPTIMIZE_fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
                    -fno-sanitize-recover=all -Wno-sign-conversion -Wno-string-conversion \
                    -Wno-gnu-statement-expression
ifeq ($(OPTIMIZE_$(VARIANT)),)
$(error VARIANT=$(VARIANT) is unknown: use release, debug, asan, ubsan, tsan or crash)
endif
ifeq ($(VARIANT),fuzz)
CC := clang-14
endif

ALL_CFLAGS  = $(LANGUAGE) $(WARNINGS) $(OPTIMIZE_$(VARIANT)) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(OPTIMIZE_$(VARIANT)) -Wl,--as-needed $(LDFLAGS)
LIBS        = $(PKG_LIBS) -lm -lpthread

# CUDA sources, for the emulation that tests them without a card: g++ compiles them as C++. Before
# each load and store -fsanitize=thread puts a call, which tests/cuda_emulation/access.cpp answers: it
# cannot go together with ASan, and knows the bounds of every array itself.
CXX_LANGUAGE = $(filter-out -std=%,$(LANGUAGE)) -std=c++17 -isystem tests/cuda_emulation/include
CXX_WARNINGS = $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARNINGS)) -Wno-pedantic \
               -Wno-unused-parameter
ALL_CXXFLAGS = $(CXX_LANGUAGE) $(CXX_WARNINGS) $(OPTIMIZE_$(VARIANT)) $(CXXFLAGS)
ALL_CUFLAGS  = $(CXX_LANGUAGE) $(CXX_WARNINGS) -O1 -g -fsanitize=thread $(CXXFLAGS) \
               $(if $(findstring undefined,$(OPTIMIZE_$(VARIANT))),-fsanitize=undefined \
               -fno-sanitize=alignment -fno-sanitize-recover=all)

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
GEN_engine   := engine/prompt_text.c
SRC_main     := $(wildcard consumer/main.c)
SRC_consumer := $(filter-out $(SRC_main),$(wildcard consumer/*.c))
SRC_support  := $(wildcard tests/support/*.c)
SRC_tests    := $(wildcard tests/unit/test_*.c tests/kernels/test_*.c tests/component/test_*.c \
                  tests/golden/test_*.c)
SRC_fuzz     := $(wildcard tests/fuzz/fuzz_*.c)
SRC_sim      := $(wildcard tests/sim/*.c)
SRC_bench    := $(filter-out $(if $(FLAGS_AVX2),,%/bench_roofline.c),$(wildcard tests/bench/bench_*.c))
SRC_limits   := tests/bench/limits.c tests/bench/values.c tests/bench/cpu_rig.c
SRC_tiny     := tests/integration/make_tiny_llama.c
SRC_cuda     := $(wildcard kernels/cuda/*.cu)
SRC_emulated := $(SRC_cuda) $(wildcard tests/cuda_emulation/*.cu) \
                $(filter-out tests/cuda_emulation/test_%,$(wildcard tests/cuda_emulation/*.cpp))
# Not with ThreadSanitizer, whose library answers the same calls, nor by clang.
SRC_emulation_tests := $(if $(filter tsan fuzz,$(VARIANT)),,$(wildcard tests/cuda_emulation/test_*.cpp \
                          tests/cuda_emulation/test_*.c))
SRC_layers   := $(foreach l,$(LAYERS),$(SRC_$(l)))
SRC_all      := $(SRC_layers) $(SRC_main) $(SRC_support) $(SRC_tests) $(SRC_fuzz) $(SRC_bench) $(SRC_limits) $(SRC_sim) \
                $(SRC_tiny) \
                $(wildcard tests/fuzz/replay_main.c)
HEADERS      := $(wildcard schemas/*.h kernels/*.h kernels/*/*.h kernels/*/*/*.h engine/*.h \
                  consumer/*.h tests/support/*.h tests/fuzz/*.h tests/sim/*.h \
                  tests/cuda_emulation/*.h tests/cuda_emulation/include/*.h)

objects    = $(patsubst %,$(BUILD)/%.o,$(1))
LAYER_LIBS := $(LAYERS:%=$(BUILD)/lib%.a)
SUPPORT    := $(BUILD)/libsupport.a
# The CUDA back end is objects beside the same libraries: nothing else is compiled anew.
CUDA_BUILD := build/cuda$(if $(filter-out build/release,$(BUILD)),-$(notdir $(BUILD)))
CUDA_OBJECTS := $(if $(filter 1,$(CUDA)),$(SRC_cuda:%=$(CUDA_BUILD)/%.o))
PROGRAM    := $(if $(CUDA_OBJECTS),$(CUDA_BUILD)/solfleet,$(if $(filter build/release,$(BUILD)),build/solfleet,$(BUILD)/solfleet))
TEST_BINS  := $(SRC_tests:%.c=$(BUILD)/%)
EMULATION_TESTS := $(patsubst %,$(BUILD)/%,$(basename $(SRC_emulation_tests)))
REPLAYS    := $(SRC_fuzz:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)

# What T= (one name) or ONLY= (a list of names) selects; the runner complains if that is nothing.
comma    := ,
empty    :=
space    := $(empty) $(empty)
WANTED   := $(if $(T),$(patsubst test_%,%,$(firstword $(subst :, ,$(T)))),$(subst $(comma), ,$(ONLY)))
SELECTED := $(TEST_BINS) $(EMULATION_TESTS) $(REPLAYS)
ifneq ($(WANTED),)
SELECTED := $(filter $(foreach w,$(WANTED),%/test_$(w) %/replay_$(w)),$(SELECTED))
endif

# ---- build ------------------------------------------------------------------------------------
.PHONY: all debug crash
all: $(LAYER_LIBS) $(if $(SRC_main),$(PROGRAM))   ## build/solfleet, optimised, asserts on (default)

debug:                                            ## build/debug/solfleet
	$(Q)$(MAKE) --no-print-directory VARIANT=debug all

crash:                                            ## build/crash/solfleet, which tests can have killed at crash points
	$(Q)$(MAKE) --no-print-directory VARIANT=crash all

.PHONY: packages
packages:
ifneq ($(MISSING),)
	@echo "missing libraries: $(MISSING)" >&2
	@echo "run 'make deps' (as root), or: apt-get install pkg-config librdkafka-dev libhiredis-dev libcjson-dev libssl-dev" >&2
	@exit 1
endif

# Rebuild when the flags change, and an archive when its list of members changes.
.PHONY: FORCE
FORCE:
$(BUILD)/flags: FORCE | packages
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) | $(CXX) $(ALL_CXXFLAGS) | $(ALL_CUFLAGS) | $(FLAGS_AVX512) | $(ALL_LDFLAGS) $(LIBS)' | cmp -s - $@ || \
	  echo '$(CC) $(ALL_CFLAGS) | $(CXX) $(ALL_CXXFLAGS) | $(ALL_CUFLAGS) | $(FLAGS_AVX512) | $(ALL_LDFLAGS) $(LIBS)' > $@
$(BUILD)/sources: FORCE
	@mkdir -p $(@D)
	@echo '$(SRC_layers) $(GEN_engine) $(SRC_support)' | cmp -s - $@ || \
	  echo '$(SRC_layers) $(GEN_engine) $(SRC_support)' > $@

$(BUILD)/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) $(call folder_flags,$<) -MMD -MP -c -o $@ $<

$(BUILD)/%.cpp.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(ALL_CXXFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CU,$<)$(CXX) $(ALL_CUFLAGS) -MMD -MP -x c++ -c -o $@ $<

# ---- CUDA -------------------------------------------------------------------------------------
# Every multiply and add rounded by itself, denormals kept, division and roots exact: canonical.h.
# The last architecture's PTX is for later cards; that of 90a would not load there.
NVCC         := $(CUDA_HOME)/bin/nvcc
CUDA_FLAGS    = -std=c++17 -O3 -I. --fmad=false -ftz=false -prec-div=true -prec-sqrt=true \
                -Xcompiler -Wall,-Wextra,-ffp-contract=off -Xptxas -v \
                $(if $(WERROR),-Werror all-warnings) $(NVCCFLAGS) \
                $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
                $(if $(filter 90,$(CUDA_ARCHS)),-gencode arch=compute_90$(comma)code=compute_90)
CUDA_LIBS     = $(firstword $(wildcard $(CUDA_HOME)/lib/libcudart_static.a \
                  $(CUDA_HOME)/lib64/libcudart_static.a)) -ldl -lrt -lstdc++

$(CUDA_BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@test -x $(NVCC) || { echo "no $(NVCC): run 'make deps-cuda', or name a toolkit by CUDA_HOME=" >&2; exit 1; }
	@echo '$(NVCC) $(CUDA_FLAGS)' | cmp -s - $@ || echo '$(NVCC) $(CUDA_FLAGS)' > $@

# What ptxas says of each kernel is kept beside its object, for the report.
$(CUDA_BUILD)/%.cu.o: %.cu $(CUDA_BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) $(CUDA_FLAGS) -MMD -MP -c -o $@ $< >$@.ptxas 2>&1 || { cat $@.ptxas; exit 1; }

.PHONY: cuda-report check-cuda
cuda-report:                                      ## registers and spills of each CUDA kernel; a hot one that spills fails
	$(Q)$(SUBMAKE) CUDA=1 cuda-objects
	$(Q)$(PYTHON) ops/dev/cuda_report.py $(CUDA_BUILD)
.PHONY: cuda-objects
cuda-objects: $(CUDA_OBJECTS)

check-cuda: deps-cuda                             ## the CUDA build for sm_80: links, refuses without a device, report
	$(Q)$(SUBMAKE) all $(TINY_MODEL)
	$(Q)$(SUBMAKE) CUDA=1 CUDA_ARCHS=80 all card-tests card-bench
	$(Q)$(PYTHON) ops/dev/check_cuda.py $(CUDA_BUILD)

# The tests of the emulation on a card: the same cases, another rig. The emulation's own are left out.
CARD_TESTS   := $(filter-out %/test_cuda_emulation %/test_cuda_runtime %/test_cuda_cublaslt, \
                  $(patsubst tests/cuda_emulation/%.cpp,$(CUDA_BUILD)/tests/%, \
                    $(wildcard tests/cuda_emulation/test_*.cpp)))
CARD_KERNELS := $(CUDA_BUILD)/tests/cuda_emulation/right_kernels.cu.o
CARD_RIGS    := $(patsubst %,$(CUDA_BUILD)/%.o,tests/cuda_card/card.cpp $(wildcard tests/cuda_emulation/*_rig.cpp))
# CUDA's own headers name a type `half`.
CARD_CXXFLAGS = $(patsubst tests/cuda_emulation/include,$(CUDA_HOME)/include,$(ALL_CXXFLAGS)) -Wno-shadow

$(CUDA_BUILD)/%.cpp.o: %.cpp $(CUDA_BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(CARD_CXXFLAGS) -MMD -MP -c -o $@ $<

$(CARD_TESTS): $(CUDA_BUILD)/tests/%: $(CUDA_BUILD)/tests/cuda_emulation/%.cpp.o \
               $(CARD_RIGS) $(CARD_KERNELS) $(CUDA_OBJECTS) $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CXX) $(ALL_LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(LIBS) -lcmocka

# The bench of ops, with the back end in front of the libraries.
CARD_BENCH := $(CUDA_BUILD)/tests/bench/bench_ops
$(CARD_BENCH): $(BUILD)/tests/bench/bench_ops.c.o $(CUDA_OBJECTS) $(LAYER_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(LIBS)

# Those in C need none of CUDA's headers.
CARD_C_TESTS := $(patsubst %,$(CUDA_BUILD)/tests/test_%,cuda_backend cuda_fast cuda_table)
$(CARD_C_TESTS): $(CUDA_BUILD)/tests/%: $(BUILD)/tests/cuda_emulation/%.c.o \
                 $(CARD_RIGS) $(CARD_KERNELS) $(CUDA_OBJECTS) $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CXX) $(ALL_LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(LIBS) -lcmocka

.PHONY: card-tests card-bench gpu-check
card-bench: $(CARD_BENCH)
card-tests: $(CARD_TESTS) $(CARD_C_TESTS)
gpu-check:                                        ## on a machine with a card: every kernel on it, in parts, resumed where it ended
	$(Q)$(if $(wildcard $(NVCC)),$(SUBMAKE) CUDA=1 all card-tests)
	$(Q)$(PYTHON) ops/dev/gpu_check.py $(CUDA_BUILD) $(GPU_CHECK_ARGS)

# The prompts are files for people to read and change; the program carries them.
PROMPTS := $(sort $(wildcard engine/prompts/*.txt))
$(BUILD)/engine/prompt_text.c: ops/dev/prompt_text.awk $(PROMPTS)
	@mkdir -p $(@D)
	$(call say,GEN,$@)awk -f $< $(PROMPTS) > $@
$(BUILD)/engine/prompt_text.c.o: $(BUILD)/engine/prompt_text.c $(BUILD)/flags
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

define layer_rule
$(BUILD)/lib$(1).a: $(call objects,$(SRC_$(1)) $(GEN_$(1))) $(BUILD)/sources
	$$(call say,AR,$$@)rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^)
endef
$(foreach l,$(LAYERS) support,$(eval $(call layer_rule,$(l))))

# In front of the libraries, the objects of the back end take the place of cuda_backend.c.
$(PROGRAM): $(call objects,$(SRC_main)) $(CUDA_OBJECTS) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(if $(CUDA_OBJECTS),$(CUDA_LIBS)) $(LIBS)

$(TEST_BINS): $(BUILD)/%: $(BUILD)/%.c.o $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

define emulation_rule
$(BUILD)/$(basename $(1)): $(call objects,$(1) $(SRC_emulated)) $(SUPPORT) $(LAYER_LIBS)
	$$(call say,LINK,$$@)$(CXX) $(ALL_LDFLAGS) -o $$@ $$^ $(LIBS) -lcmocka
endef
$(foreach t,$(SRC_emulation_tests),$(eval $(call emulation_rule,$(t))))

# The program and the bench of ops on the emulated card, for tests of what measures one.
EMULATED := $(BUILD)/emulated/solfleet $(BUILD)/emulated/tests/bench/bench_ops
$(BUILD)/emulated/solfleet: $(call objects,$(SRC_main))
$(BUILD)/emulated/tests/bench/bench_ops: $(BUILD)/tests/bench/bench_ops.c.o
$(EMULATED): $(call objects,$(SRC_emulated)) $(SUPPORT) $(LAYER_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -lcmocka

# A model that is loaded at once and answers at once, for the workers of integration tests.
TINY_MODEL := $(BUILD)/tests/tiny_llama.gguf
$(BUILD)/$(SRC_tiny:.c=): $(BUILD)/$(SRC_tiny).o $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka
$(TINY_MODEL): $(BUILD)/$(SRC_tiny:.c=)
	$(call say,GEN,$@)$< > $@

# This test fails allocations one by one: the linker sends those of the layers through it. private:
# what it depends on is linked, and flagged, like everything else.
$(BUILD)/tests/unit/test_out_of_memory: private ALL_LDFLAGS += \
  $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc strdup strndup)

# What stands in for the library that a card is asked through; opened by this test at run time.
FAKE_NVML := $(BUILD)/tests/fake/libnvidia-ml.so.1
$(FAKE_NVML): tests/fake/nvml.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -fPIC -shared -o $@ $<
$(BUILD)/tests/unit/test_gpu_monitor: | $(FAKE_NVML)

# A fuzz target with a main of its own, so that the corpus is replayed without clang.
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.c.o $(BUILD)/tests/fuzz/replay_main.c.o $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

-include $(patsubst %.o,%.d,$(call objects,$(SRC_all) $(GEN_engine) $(SRC_emulated) $(SRC_emulation_tests)) \
           $(CUDA_OBJECTS)) $(CARD_TESTS:$(CUDA_BUILD)/tests/%=$(CUDA_BUILD)/tests/cuda_emulation/%.cpp.d)

# ---- dependencies and model -------------------------------------------------------------------
.PHONY: deps deps-demo deps-cuda model
deps:                                             ## install packages, Kafka, Python tools and the model's wheel
	$(Q)ops/dev/deps.sh all
deps-demo:
	$(Q)ops/dev/deps.sh demo
deps-cuda:                                        ## the CUDA compiler and cuBLASLt to .deps/cuda, for CUDA=1 (550 MB)
	$(Q)ops/dev/deps.sh cuda

MODEL_FILE := models/SmolLM2-135M-Instruct.Q4_1.gguf
model: $(MODEL_FILE)                              ## unpack the demo model to models/
$(MODEL_FILE):
	$(Q)ops/dev/deps.sh model

# ---- tests ------------------------------------------------------------------------------------
SUITES    ?= $(subst $(space),$(comma),$(SUITE_NAMES))
ONLY      ?=
SLOWNESS  ?= 1
RUN_TESTS = $(PYTHON) ops/dev/run_tests.py --variant $(notdir $(BUILD)) --suites $(SUITES) \
            --timeout-factor $(SLOWNESS) $(if $(ONLY),--only $(ONLY)) $(if $(T),--select '$(T)')
# A sub-make is only another variant, or the same tree once packages are there.
SUBMAKE   = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# Tests whose threads are all ours: ThreadSanitizer cannot run with the packaged librdkafka.
TSAN_TESTS := $(filter $(SRC_tests:tests/unit/test_%.c=%) $(SRC_tests:tests/kernels/test_%.c=%) \
                $(SRC_tests:tests/component/test_%.c=%),ring pool device engine_null engine log)

.PHONY: test tests run-tests
test: deps                                        ## all tests; T=name[:case] runs one, T=suite a suite
	$(Q)$(SUBMAKE) run-tests

tests: $(SELECTED) $(if $(findstring integration,$(SUITES)),all $(TINY_MODEL)) \
       $(if $(filter integration,$(subst $(comma),$(space),$(SUITES))),$(EMULATED)) \
       $(if $(filter integration integration/faults,$(subst $(comma),$(space),$(SUITES))),crash)
run-tests: tests $(MODEL_FILE)
	$(Q)$(RUN_TESTS)

.PHONY: integration check check-all check-asan check-ubsan check-tsan check-emulation check-clients check-faults check-valgrind
integration: deps                                 ## only the tests against real Kafka and Redis
	$(Q)$(SUBMAKE) run-tests SUITES=integration

check: deps                                       ## lint, test and sanitizers
	$(Q)$(SUBMAKE) lint
	$(Q)$(SUBMAKE) run-tests
	$(Q)$(SUBMAKE) check-asan
	$(Q)$(SUBMAKE) check-tsan

check-all: check                                  ## everything, the long ones too
	$(Q)$(SUBMAKE) check-emulation
	$(Q)$(SUBMAKE) check-clients
	$(Q)$(SUBMAKE) check-faults
	$(Q)$(SUBMAKE) check-rdkafka
	$(Q)$(SUBMAKE) soak
	$(Q)$(SUBMAKE) check-valgrind
	$(Q)$(SUBMAKE) fuzz FUZZ_SECONDS=600

check-asan:                                       ## unit, kernels, CUDA emulation, component, fuzz corpora under ASan and UBSan
	$(Q)$(SUBMAKE) run-tests VARIANT=asan SLOWNESS=4 SUITES=unit,kernels,cuda_emulation,component,fuzz

check-ubsan:                                      ## the same under UBSan alone
	$(Q)$(SUBMAKE) run-tests VARIANT=ubsan SLOWNESS=4 SUITES=unit,kernels,cuda_emulation,component,fuzz

check-tsan:                                       ## our own threads under ThreadSanitizer
	$(Q)$(SUBMAKE) run-tests VARIANT=tsan SLOWNESS=4 SUITES=unit,kernels,component \
	  ONLY=$(subst $(space),$(comma),$(strip $(TSAN_TESTS)))

check-emulation:                                  ## CUDA sources under the emulation in 8 orders, ASan and UBSan
	$(Q)SOLFLEET_CUDA_SHUFFLES=8 $(SUBMAKE) run-tests VARIANT=asan SLOWNESS=8 SUITES=cuda_emulation \
	  ONLY=$(subst $(space),$(comma),$(patsubst tests/cuda_emulation/test_%,%,$(basename $(SRC_emulation_tests))))

check-clients: deps                               ## the clients of ops/clients, in Java and JavaScript
	$(Q)ops/dev/deps.sh clients
	$(Q)$(SUBMAKE) run-tests SUITES=integration/clients

check-faults: deps                                ## the faults that take long: servers, network, rebalances, shutdown
	$(Q)$(SUBMAKE) run-tests SUITES=integration/faults

# The suites that Kafka shows in, on a librdkafka newer than the system's; cooperative groups and the
# consumer protocol need it, and ThreadSanitizer cannot run with the packaged one.
RDKAFKA_TESTS := kafka_source,kafka_clients,worker,worker_faults
check-rdkafka: deps                               ## component and group tests on a newer librdkafka, TSan
	$(Q)ops/dev/deps.sh rdkafka
	$(Q)$(SUBMAKE) run-tests RDKAFKA=.deps/rdkafka SUITES=component ONLY=$(RDKAFKA_TESTS)
	$(Q)$(SUBMAKE) run-tests RDKAFKA=.deps/rdkafka SUITES=integration/groups
	$(Q)TSAN_OPTIONS=suppressions=$(CURDIR)/ops/dev/tsan.supp $(SUBMAKE) run-tests VARIANT=tsan \
	  RDKAFKA=.deps/rdkafka SLOWNESS=6 SUITES=component ONLY=$(RDKAFKA_TESTS)

check-valgrind:                                   ## unit tests under valgrind
	$(Q)$(SUBMAKE) tests VARIANT=debug SUITES=unit
	$(Q)$(PYTHON) ops/dev/run_tests.py --variant debug --suites unit --timeout-factor 10 \
	  --wrapper 'valgrind -q --error-exitcode=99 --leak-check=full'

# ---- fuzzing ----------------------------------------------------------------------------------
FUZZ_SECONDS ?= 60
FUZZERS := $(SRC_fuzz:tests/fuzz/%.c=$(BUILD)/tests/fuzz/%)
.PHONY: fuzz fuzzers
fuzz:                                             ## libFuzzer, FUZZ_SECONDS=60 over all targets
	$(Q)$(SUBMAKE) fuzzers VARIANT=fuzz WERROR=
	$(Q)ops/dev/fuzz.sh $(FUZZ_SECONDS)

fuzzers: $(FUZZERS)
ifeq ($(VARIANT),fuzz)
$(FUZZERS): $(BUILD)/%: $(BUILD)/%.c.o $(SUPPORT) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS) -lcmocka
endif

# ---- lint and format --------------------------------------------------------------------------
STEPS ?=
.PHONY: lint format
lint: all compile_commands.json                   ## format, includes, symbols, headers, text, scripts, docs, tidy
	$(Q)PYTHON=$(PYTHON) ops/dev/lint.sh $(STEPS)

format:                                           ## clang-format all C sources in place
	$(Q)clang-format-14 -i $(SRC_all) $(HEADERS) $(SRC_emulated) $(wildcard tests/cuda_emulation/test_* tests/cuda_card/*.cpp)

.PHONY: compile_commands.json
compile_commands.json: $(BUILD)/sources | packages                 ## for editors and clang-tidy
	$(file >$(BUILD)/commands,$(foreach f,$(SRC_all),$(f)|$(CC) $(ALL_CFLAGS) $(call folder_flags,$(f)) -c -o $(call objects,$(f)) $(f)@))
	$(Q)$(PYTHON) ops/dev/compile_commands.py $(BUILD)/commands $@

# ---- running it -------------------------------------------------------------------------------
.PHONY: demo soak bench bench-roofline bench-kernels bench-parts docs golden
demo: deps-demo                                   ## broker, Redis, worker and a dozen problems, live
	$(Q)$(SUBMAKE) all $(MODEL_FILE)
	$(Q)ops/demo/demo.sh

soak: deps                                        ## workers under random faults for SOAK_SECONDS=600; nothing lost, nothing grows
	$(Q)$(SUBMAKE) all $(BUILD)/tests/tiny_llama.gguf
	$(Q).deps/venv/bin/python tests/soak/soak.py

BENCH_MODEL ?= $(MODEL_FILE)
BENCH_ARGS  ?=
# BACKEND=cuda measures the first card instead (BENCH_ARGS="--device cuda:N": another).
bench: deps                                       ## speed of the engine and of the pipeline on this machine; BACKEND=cuda: of a card
	$(Q)$(SUBMAKE) $(if $(filter cuda,$(BACKEND)),CUDA=1 all card-bench,all) $(MODEL_FILE)
	$(Q).deps/venv/bin/python tests/bench/run.py --model $(BENCH_MODEL) --solfleet \
	  $(if $(filter cuda,$(BACKEND)),$(CUDA_BUILD)/solfleet --device cuda:0,$(PROGRAM)) $(BENCH_ARGS)
	$(Q)$(if $(filter cuda,$(BACKEND)),,$(SUBMAKE) bench-roofline)

BENCHES := $(SRC_bench:%.c=$(BUILD)/%)
$(BENCHES): $(BUILD)/%: $(BUILD)/%.c.o $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/tests/bench/bench_roofline: $(call objects,$(SRC_limits))
$(BUILD)/tests/bench/bench_kernels: $(call objects,$(filter-out %/limits.c,$(SRC_limits)))

bench-roofline: $(BENCHES)                        ## our kernels as shares of what the processor can do, both tiers
	-$(Q)$(BUILD)/tests/bench/bench_roofline avx2
	-$(Q)$(BUILD)/tests/bench/bench_roofline avx512

bench-kernels: $(BENCHES)                         ## speed of each kernel of the best tier
	$(Q)$(BUILD)/tests/bench/bench_kernels

bench-parts: $(BENCHES)                           ## processor time of codecs and, with REDIS=URL, of statuses
	$(Q)$(BUILD)/tests/bench/bench_schemas
	$(Q)$(if $(REDIS),$(BUILD)/tests/bench/bench_store $(REDIS))

SIM_ARGS ?=
.PHONY: sim
sim: deps                                         ## a contest's evening in virtual time: the scheduler beside first come, first served
	$(Q)ops/dev/deps.sh sim
	$(Q)$(SUBMAKE) $(BUILD)/tests/sim/sim
	$(Q)$(BUILD)/tests/sim/sim tests/sim/lengths.tsv --csv $(BUILD)/evening.csv $(SIM_ARGS)
	$(Q).deps/venv/bin/python tests/sim/plot.py $(BUILD)/evening.csv $(BUILD)/evening.png

$(BUILD)/tests/sim/sim: $(call objects,$(SRC_sim)) $(LAYER_LIBS)
	$(call say,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

docs: all                                         ## regenerate ops/CONFIGURATION.md from the option table
	$(Q)$(PROGRAM) config --markdown >$(BUILD)/CONFIGURATION.md
	$(Q)cp $(BUILD)/CONFIGURATION.md ops/CONFIGURATION.md

golden:                                           ## make the goldens anew (large packages); review the diff
	$(Q)ops/dev/deps.sh golden
	$(Q)$(SUBMAKE) $(MODEL_FILE)
	$(Q)for script in tests/golden/make_*.py; do .deps/venv/bin/python $$script || exit 1; done

# ---- the rest ---------------------------------------------------------------------------------
.PHONY: install clean help
install: all                                      ## to DESTDIR and PREFIX (default /usr/local)
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/solfleet
	install -d $(DESTDIR)$(PREFIX)/share/solfleet/schemas/v1 $(DESTDIR)$(PREFIX)/share/doc/solfleet
	install -m 644 schemas/v1/*.schema.json $(DESTDIR)$(PREFIX)/share/solfleet/schemas/v1
	install -m 644 LICENSE README.md README.zh-CN.md $(DESTDIR)$(PREFIX)/share/doc/solfleet

clean:                                            ## remove build/ (not .deps/, not models/)
	$(Q)rm -rf build compile_commands.json

help:                                             ## this list
	@sed -nE 's/^([a-z][a-z_.-]*):.*## (.*)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  awk -F'|' '{ printf "  %-22s %s\n", $$1, $$2 }'
	@echo "  Variables: VARIANT=release|debug|asan|ubsan|tsan  V=1  T=name[:case]  CUDA=1  CUDA_ARCHS=80  PREFIX=  DESTDIR="
