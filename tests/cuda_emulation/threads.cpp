/* Threads of a launch: a fiber each, blocks one after the other, the order of both drawn anew from
 * the seed. A fiber runs until it waits for its block or its warp, or is done. */
#include <sys/mman.h>
#include <ucontext.h>

#include <cassert>
#include <map>
#include <memory>
#include <numeric>

#include "tests/cuda_emulation/internal.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define SWITCH_STARTS(fake, bottom, bytes) __sanitizer_start_switch_fiber(fake, bottom, bytes)
#define SWITCH_ENDS(fake, bottom, bytes) __sanitizer_finish_switch_fiber(fake, bottom, bytes)
#else
#define SWITCH_STARTS(fake, bottom, bytes) (void)0
#define SWITCH_ENDS(fake, bottom, bytes) (void)0
#endif

#define STACK_BYTES (size_t{64} * 1024)
#define GUARD_BYTES (size_t{4096})

/* ---------------------------------------------------------------- one stack to another */

#if defined(__x86_64__)

/* swapcontext asks the kernel for the signal mask each time, which a kernel with shuffles feels. */
struct switch_point {
    void *stack_pointer; /* the registers that a call keeps are on the stack */
};

extern "C" void emulation_switch_stack(void **from, void *to);
__asm__(".text\n"
        ".type emulation_switch_stack, @function\n"
        "emulation_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emulation_switch_stack, . - emulation_switch_stack\n");

static void switch_point_swap(switch_point *from, const switch_point *to) {
    emulation_switch_stack(&from->stack_pointer, to->stack_pointer);
}

static void switch_point_start(switch_point *point, unsigned char *stack, void (*entry)()) {
    enum { RETURN = 6, WORDS = 8 }; /* as if entry had been called: 8 mod 16 */
    void **top = reinterpret_cast<void **>(stack + STACK_BYTES) - WORDS;
    for (int i = 0; i < WORDS; i++) {
        top[i] = nullptr;
    }
    top[RETURN] = reinterpret_cast<void *>(entry);
    point->stack_pointer = top;
}

#else

struct switch_point {
    ucontext_t context;
};

static void switch_point_swap(switch_point *from, switch_point *to) {
    swapcontext(&from->context, &to->context);
}

static void switch_point_start(switch_point *point, unsigned char *stack, void (*entry)()) {
    getcontext(&point->context);
    point->context.uc_stack.ss_sp = stack;
    point->context.uc_stack.ss_size = STACK_BYTES;
    point->context.uc_link = nullptr;
    makecontext(&point->context, entry, 0);
}

#endif

/* ---------------------------------------------------------------- the launch that runs */

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

enum wait_kind { READY, AT_BARRIER, AT_SYNCWARP, AT_BALLOT, AT_SHUFFLE, DONE };
static const char *const WAIT_NAMES[] = {"runs",
                                         "waits at __syncthreads",
                                         "waits at __syncwarp",
                                         "waits at __ballot_sync",
                                         "waits at a shuffle",
                                         "is done"};

struct fiber {
    switch_point point;
    unsigned char *stack;
    void *fake_stack;
    uint3 index;
    wait_kind state;
    int line;       /* where it waits */
    uint64_t value; /* what it gives its warp */
    emulation_thread seen;
};

struct warp_exchange {
    uint64_t value[EMULATION_WARP]; /* as they were when all lanes had come */
};

/* The launch that runs, and its block. */
static struct {
    const emulation_call *call;
    std::vector<fiber *> fibers; /* of the block, by linear index */
    std::vector<warp_exchange> warps;
    std::map<const void *, void *> shared; /* by site; NULL = dynamic */
    size_t shared_bytes, dynamic_bytes;
    fiber *running;
    bool has_failed;
    switch_point scheduler;
    void *scheduler_fake;
    const void *scheduler_stack;
    size_t scheduler_bytes;
} threads;

static std::vector<std::unique_ptr<fiber>> threads_pool;
static uint64_t threads_random;

void emulation_seed(uint64_t seed) {
    threads_random = seed;
}

uint64_t emulation_draw() { /* splitmix64 */
    uint64_t z = threads_random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static std::vector<unsigned> shuffled(unsigned count) {
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0u);
    for (unsigned i = count; i > 1; i--) {
        std::swap(order[i - 1], order[emulation_draw() % i]);
    }
    return order;
}

/* ---------------------------------------------------------------- switching */

const emulation_thread *emulation_current() {
    return threads.running != nullptr ? &threads.running->seen : nullptr;
}

static void switch_to_scheduler(fiber *self, bool for_good) {
    (void)for_good;
    SWITCH_STARTS(for_good ? nullptr : &self->fake_stack, threads.scheduler_stack,
                  threads.scheduler_bytes);
    switch_point_swap(&self->point, &threads.scheduler);
    SWITCH_ENDS(self->fake_stack, &threads.scheduler_stack, &threads.scheduler_bytes);
}

static void fiber_main() {
    SWITCH_ENDS(nullptr, &threads.scheduler_stack, &threads.scheduler_bytes);
    fiber *self = threads.running;
    threads.call->run(threads.call->arguments);
    self->state = DONE;
    switch_to_scheduler(self, true);
    assert(false);
}

[[noreturn]] void emulation_leave_kernel() {
    fiber *self = threads.running;
    threads.has_failed = true;
    self->state = DONE;
    switch_to_scheduler(self, true);
    __builtin_unreachable();
}

static void run_fiber(fiber *one) {
    threads.running = one;
    threadIdx = one->index;
    emulation_report_where(threads.call->name, blockIdx, threadIdx);
    SWITCH_STARTS(&threads.scheduler_fake, one->stack, STACK_BYTES);
    switch_point_swap(&threads.scheduler, &one->point);
    SWITCH_ENDS(threads.scheduler_fake, nullptr, nullptr);
    threads.running = nullptr;
}

static fiber *pooled_fiber(size_t index) {
    while (threads_pool.size() <= index) {
        auto made = std::make_unique<fiber>();
        void *memory = mmap(nullptr, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert(memory != MAP_FAILED);
        int guarded = mprotect(memory, GUARD_BYTES, PROT_NONE);
        assert(guarded == 0);
        (void)guarded;
        made->stack = static_cast<unsigned char *>(memory) + GUARD_BYTES;
        threads_pool.push_back(std::move(made));
    }
    return threads_pool[index].get();
}

/* ---------------------------------------------------------------- waiting */

static void wait_as(wait_kind state, int line, uint64_t value) {
    fiber *self = threads.running;
    self->state = state;
    self->line = line;
    self->value = value;
    switch_to_scheduler(self, false);
}

static void wait_for_warp(wait_kind state, int line, unsigned mask, uint64_t value) {
    unsigned block_threads = blockDim.x * blockDim.y;
    if (mask != 0xFFFFFFFFu || block_threads % EMULATION_WARP != 0) {
        emulation_report(EMULATION_SUBSET,
                         "line %d: a warp operation needs a full mask and full warps (mask %#x, "
                         "%u threads)",
                         line, mask, block_threads);
    }
    wait_as(state, line, value);
}

static unsigned own_index() {
    return threadIdx.y * blockDim.x + threadIdx.x;
}

static const warp_exchange &own_warp() {
    return threads.warps[own_index() / EMULATION_WARP];
}

void emulation_syncthreads(int line) {
    wait_as(AT_BARRIER, line, 0);
}

void emulation_syncwarp(int line) {
    wait_for_warp(AT_SYNCWARP, line, 0xFFFFFFFFu, 0);
}

unsigned emulation_ballot(int line, unsigned mask, bool predicate) {
    wait_for_warp(AT_BALLOT, line, mask, predicate);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < EMULATION_WARP; lane++) {
        votes |= static_cast<unsigned>(own_warp().value[lane]) << lane;
    }
    return votes;
}

uint64_t emulation_shuffle(int line, unsigned mask, uint64_t value, unsigned distance,
                           bool is_xor) {
    wait_for_warp(AT_SHUFFLE, line, mask, value);
    unsigned lane = own_index() % EMULATION_WARP;
    unsigned from = is_xor ? lane ^ distance : lane + distance;
    return from < EMULATION_WARP ? own_warp().value[from] : value;
}

/* Whether fibers [begin, end) all wait for the same thing at the same line. */
static bool wait_together(size_t begin, size_t end) {
    const fiber *first = threads.fibers[begin];
    for (size_t i = begin; i < end; i++) {
        const fiber *one = threads.fibers[i];
        if (one->state != first->state || one->line != first->line) {
            return false;
        }
    }
    return true;
}

static bool release_warp(size_t warp) {
    size_t begin = warp * EMULATION_WARP;
    size_t end = begin + EMULATION_WARP;
    if (end > threads.fibers.size() || !wait_together(begin, end)) {
        return false;
    }
    wait_kind kind = threads.fibers[begin]->state;
    if (kind != AT_SYNCWARP && kind != AT_BALLOT && kind != AT_SHUFFLE) {
        return false;
    }
    uint32_t time = kind == AT_SYNCWARP ? emulation_tick() : 0;
    for (size_t i = begin; i < end; i++) {
        fiber *one = threads.fibers[i];
        threads.warps[warp].value[i - begin] = one->value;
        one->state = READY;
        /* Only __syncwarp orders memory; a shuffle exchanges registers. */
        one->seen.warp_time = kind == AT_SYNCWARP ? time : one->seen.warp_time;
    }
    return true;
}

static bool release_block() {
    if (threads.fibers[0]->state != AT_BARRIER || !wait_together(0, threads.fibers.size())) {
        return false;
    }
    uint32_t time = emulation_tick();
    for (fiber *one : threads.fibers) {
        one->state = READY;
        one->seen.block_time = time;
        one->seen.warp_time = time;
    }
    return true;
}

static bool release() {
    bool released = false;
    for (size_t warp = 0; warp < threads.warps.size(); warp++) {
        released |= release_warp(warp);
    }
    return released || release_block();
}

/* ---------------------------------------------------------------- blocks */

static void start_fiber(unsigned index, unsigned block_number, uint32_t time) {
    fiber *one = pooled_fiber(index);
    unsigned count = blockDim.x * blockDim.y;
    one->index = {index % blockDim.x, index / blockDim.x, 0};
    one->state = READY;
    one->line = 0;
    one->fake_stack = nullptr;
    one->seen = {block_number * count + index + 1,
                 block_number * emulation_warps_of(blockDim) + index / EMULATION_WARP,
                 block_number,
                 time,
                 time,
                 one->stack,
                 threads.call->arguments,
                 threads.call->argument_bytes,
                 STACK_BYTES};
    switch_point_start(&one->point, one->stack, fiber_main);
    threads.fibers.push_back(one);
}

static void report_divergence() {
    const fiber *first = threads.fibers[0];
    for (const fiber *other : threads.fibers) {
        if (other->state != first->state || other->line != first->line) {
            emulation_report_where(threads.call->name, blockIdx, other->index);
            emulation_report(EMULATION_DIVERGENT,
                             "%s: block (%u, %u): thread (%u, %u) %s (line %d), thread (%u, %u) %s "
                             "(line %d)",
                             threads.call->name, blockIdx.x, blockIdx.y, first->index.x,
                             first->index.y, WAIT_NAMES[first->state], first->line, other->index.x,
                             other->index.y, WAIT_NAMES[other->state], other->line);
            return;
        }
    }
}

/* Runs every ready fiber once, in an order drawn anew; false when none was ready. */
static bool run_round() {
    bool ran = false;
    for (unsigned i : shuffled(static_cast<unsigned>(threads.fibers.size()))) {
        if (threads.fibers[i]->state == READY && !threads.has_failed) {
            run_fiber(threads.fibers[i]);
            ran = true;
        }
    }
    return ran;
}

static void run_block(unsigned block_number) {
    unsigned count = blockDim.x * blockDim.y;
    blockIdx = {block_number % gridDim.x, block_number / gridDim.x, 0};
    threads.fibers.clear();
    threads.warps.assign(emulation_warps_of(blockDim), {});
    uint32_t time = emulation_tick();
    for (unsigned i = 0; i < count; i++) {
        start_fiber(i, block_number, time);
    }
    while (!threads.has_failed && run_round()) {
        release();
    }
    bool all_done = true;
    for (const fiber *one : threads.fibers) {
        all_done &= one->state == DONE;
    }
    if (!threads.has_failed && !all_done) {
        threads.has_failed = true;
        report_divergence();
    }
    for (const auto &[site, memory] : threads.shared) {
        emulation_release(memory);
    }
    threads.shared.clear();
    threads.shared_bytes = threads.dynamic_bytes;
}

unsigned emulation_warps_of(dim3 block) {
    return (block.x * block.y + EMULATION_WARP - 1) / EMULATION_WARP;
}

void emulation_run_call(const emulation_call &call, dim3 grid, dim3 block, size_t shared_bytes) {
    threads.call = &call;
    threads.has_failed = false;
    threads.dynamic_bytes = threads.shared_bytes = shared_bytes;
    blockDim = block;
    gridDim = grid;
    emulation_begin_launch();
    for (unsigned block_number : shuffled(grid.x * grid.y)) {
        if (!threads.has_failed) {
            run_block(block_number);
        }
    }
    emulation_check_red_zones();
    threads.call = nullptr;
}

/* ---------------------------------------------------------------- shared memory */

static void *shared_at(const void *site, const char *name, size_t bytes) {
    void *&memory = threads.shared[site];
    if (memory == nullptr) {
        memory = emulation_allocate(EMULATION_SHARED, name, bytes);
    }
    return memory;
}

void *emulation_shared_static(const void *site, const char *name, size_t bytes) {
    if (threads.shared.count(site) == 0) {
        threads.shared_bytes += bytes;
        if (threads.shared_bytes > EMULATION_SHARED_MAX) {
            emulation_report(EMULATION_SUBSET, "%zu bytes of shared memory; a block has %u",
                             threads.shared_bytes, EMULATION_SHARED_MAX);
        }
    }
    return shared_at(site, name, bytes);
}

void *emulation_shared_dynamic() {
    if (threads.dynamic_bytes == 0) {
        emulation_report(EMULATION_SUBSET, "dynamic shared memory, and the launch gave none");
    }
    return shared_at(nullptr, "dynamic shared", threads.dynamic_bytes);
}
