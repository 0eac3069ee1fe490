/* What the files of the emulation share. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_INTERNAL_H
#define SOLFLEET_TESTS_CUDA_EMULATION_INTERNAL_H

#include <cuda_runtime.h>

#include <functional>
#include <vector>

#include "tests/cuda_emulation/emulation.h"

#define EMULATION_ALIGNMENT 256u /* of cudaMalloc, and the width of a red zone */
#define EMULATION_SHARED_MAX (48u * 1024u)
#define EMULATION_WARP 32u
#define EMULATION_MEMORY_BYTES (size_t{256} << 20) /* of a fresh device */

/* ---------------------------------------------------------------- threads.cpp */

/* Where the running thread stands, for the watch over memory. */
struct emulation_thread {
    unsigned id;                    /* from 1, over the launch */
    unsigned warp, block;           /* from 0, over the launch */
    uint32_t block_time, warp_time; /* of the last barrier of each */
    const unsigned char *stack;
    const void *arguments;
    size_t argument_bytes, stack_bytes;
};

/* NULL in host code. */
const emulation_thread *emulation_current();
void emulation_run_call(const emulation_call &call, dim3 grid, dim3 block, size_t shared_bytes);
/* Ends the running thread and its launch; only in a kernel. */
[[noreturn]] void emulation_leave_kernel();
unsigned emulation_warps_of(dim3 block);
uint64_t emulation_draw(); /* from the seed */
void emulation_seed(uint64_t seed);

/* ---------------------------------------------------------------- report.cpp */

/* Prints and keeps the first fault; in a kernel it does not return. */
void emulation_report(emulation_fault fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void emulation_report_where(const char *kernel, uint3 block, uint3 thread);
bool emulation_has_fault();

/* Every call of the API begins with this: an injected failure, or the fault that stays. */
int emulation_enter(const char *name);
int emulation_injected(const char *name); /* only an injected failure; 0 = none */
void emulation_note_stream(int number);   /* of the call that is being made */
void emulation_note_bytes(size_t bytes);
cudaError_t emulation_leave(cudaError_t error); /* remembered for cudaGetLastError */
void emulation_count(int objects);

#define EMULATION_ENTER()                                               \
    do {                                                                \
        if (int entered_ = emulation_enter(__func__)) {                 \
            return emulation_leave(static_cast<cudaError_t>(entered_)); \
        }                                                               \
    } while (0)

/* ---------------------------------------------------------------- memory.cpp */

enum emulation_kind { EMULATION_DEVICE, EMULATION_SHARED, EMULATION_PINNED };

/* Who touched a byte last. Readers of one interval are kept as the smallest scope around them. */
enum emulation_scope : uint8_t { SCOPE_NONE, SCOPE_THREAD, SCOPE_WARP, SCOPE_BLOCK, SCOPE_GRID };
struct emulation_touch {
    uint32_t time;
    unsigned thread, warp, block;
    emulation_scope scope;
    bool is_atomic;
};
struct emulation_byte {
    emulation_touch write, read;
    bool is_known;
};

struct emulation_allocation {
    emulation_kind kind;
    const char *name;
    unsigned number;
    unsigned char *data;
    size_t bytes;
    std::vector<emulation_byte> watch; /* one for each byte; none for pinned memory */
};

void *emulation_allocate(emulation_kind kind, const char *name, size_t bytes);
/* Checks the red zones. */
void emulation_release(void *data);
/* The allocation whose bytes or red zones hold the address; NULL = none. */
emulation_allocation *emulation_find(const void *address);
bool emulation_holds(const void *address, size_t bytes, emulation_kind kind);
emulation_allocation *emulation_at(const void *data); /* by its first byte */
void emulation_mark_known(void *address, size_t bytes);
void emulation_copy_known(void *to, const void *from, size_t bytes);
void emulation_check_red_zones();
void emulation_forget_memory();
size_t emulation_device_bytes();

/* Time passes at barriers and launches only. */
uint32_t emulation_tick();
void emulation_begin_launch();
void emulation_touch_memory(const void *address, size_t bytes, bool writes, bool is_atomic);

/* ---------------------------------------------------------------- streams.cpp */

/* Runs later, in the order of its stream; what it needs it holds. */
void emulation_enqueue(cudaStream_t stream, std::function<void()> run);
bool emulation_is_stream(cudaStream_t stream);
bool emulation_is_capturing(); /* any stream */
bool emulation_is_capturing(cudaStream_t stream);
/* A call that a capture does not survive. */
cudaError_t emulation_spoil_capture();
void emulation_drain(cudaStream_t stream); /* NULL = all */
void emulation_forget_streams();

/* ---------------------------------------------------------------- cublaslt.cpp */

void emulation_forget_cublas(); /* and what emulation_set_split_k said */

#endif
