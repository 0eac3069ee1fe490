/* Streams, events and graphs. Nothing runs when it is enqueued: only when the host waits, and then
 * the streams take turns as the seed says, each in its own order, events kept. A host that forgets
 * to wait therefore reads what was there before. */
#include <deque>
#include <memory>
#include <set>

#include "tests/cuda_emulation/internal.h"

struct operation {
    std::function<void()> run;
    cudaEvent_t awaited; /* NULL = runs at once */
    uint64_t awaited_record;
};

struct emulation_graph {
    std::vector<operation> operations;
    bool is_spoilt;
};
struct emulation_graph_exec {
    std::vector<operation> operations;
};
struct emulation_stream {
    int number;
    std::deque<operation> queue;
    std::unique_ptr<emulation_graph> capture; /* NULL = not capturing */
};
struct emulation_event {
    uint64_t recorded, passed; /* how many records were enqueued, and the last that ran */
};

template <typename T> struct object_set {
    std::set<T *> live;

    T *make() {
        emulation_count(1);
        return *live.insert(new T()).first;
    }
    bool has(T *one) const {
        return live.count(one) != 0;
    }
    void drop(T *one) {
        emulation_count(-1);
        live.erase(one);
        delete one;
    }
    void clear() {
        for (T *one : live) {
            delete one;
        }
        live.clear();
    }
};

static object_set<emulation_stream> streams;
static int stream_count; /* ever made */
static int held_stream = -1;
static object_set<emulation_event> events;
static object_set<emulation_graph> graphs;
static object_set<emulation_graph_exec> graph_execs;

bool emulation_is_stream(cudaStream_t stream) {
    return streams.has(stream); /* the default stream is not part of the subset */
}

bool emulation_is_capturing(cudaStream_t stream) {
    return stream->capture != nullptr;
}

bool emulation_is_capturing() {
    for (const emulation_stream *one : streams.live) {
        if (one->capture != nullptr) {
            return true;
        }
    }
    return false;
}

cudaError_t emulation_spoil_capture() {
    for (emulation_stream *one : streams.live) {
        if (one->capture != nullptr) {
            one->capture->is_spoilt = true;
        }
    }
    return cudaErrorStreamCaptureUnsupported;
}

void emulation_hold_stream(int number) {
    held_stream = number;
}

static void put(cudaStream_t stream, operation one) {
    emulation_note_stream(stream->number);
    if (stream->capture != nullptr) {
        stream->capture->operations.push_back(std::move(one));
    } else {
        stream->queue.push_back(std::move(one));
    }
}

void emulation_enqueue(cudaStream_t stream, std::function<void()> run) {
    put(stream, {std::move(run), nullptr, 0});
}

static bool is_ready(const emulation_stream &stream) {
    const operation &head = stream.queue.front();
    return head.awaited == nullptr || !events.has(head.awaited) ||
           head.awaited->passed >= head.awaited_record;
}

static std::vector<emulation_stream *> ready_streams(bool held) {
    std::vector<emulation_stream *> ready;
    for (emulation_stream *one : streams.live) {
        if (!one->queue.empty() && is_ready(*one) && (one->number == held_stream) == held) {
            ready.push_back(one);
        }
    }
    return ready;
}

/* One operation of a stream that may go on; false when there is none. */
static bool run_one() {
    std::vector<emulation_stream *> ready = ready_streams(false);
    if (ready.empty()) {
        ready = ready_streams(true);
    }
    if (ready.empty()) {
        return false;
    }
    emulation_stream *chosen = ready[emulation_draw() % ready.size()];
    operation head = std::move(chosen->queue.front());
    chosen->queue.pop_front();
    if (head.run && !emulation_has_fault()) {
        head.run();
    }
    return true;
}

void emulation_drain(cudaStream_t stream) {
    while ((stream == nullptr || !stream->queue.empty()) && run_one()) {
    }
}

void emulation_forget_streams() {
    graph_execs.clear();
    graphs.clear();
    events.clear();
    streams.clear();
    stream_count = 0;
    held_stream = -1;
}

/* ---------------------------------------------------------------- streams */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    EMULATION_ENTER();
    if (stream == nullptr || flags > cudaStreamNonBlocking) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    *stream = streams.make();
    (*stream)->number = stream_count++;
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    EMULATION_ENTER();
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    emulation_drain(stream);
    streams.drop(stream);
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    EMULATION_ENTER();
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (emulation_is_capturing(stream)) {
        return emulation_leave(emulation_spoil_capture());
    }
    emulation_note_stream(stream->number);
    emulation_drain(stream);
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
    EMULATION_ENTER();
    if (emulation_is_capturing()) {
        return emulation_leave(emulation_spoil_capture());
    }
    emulation_drain(nullptr);
    return emulation_leave(cudaSuccess);
}

/* ---------------------------------------------------------------- events */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    EMULATION_ENTER();
    if (event == nullptr || (flags & ~unsigned{cudaEventDisableTiming}) != 0) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    *event = events.make();
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    EMULATION_ENTER();
    if (!events.has(event)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    events.drop(event);
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    EMULATION_ENTER();
    if (!events.has(event) || !emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (emulation_is_capturing(stream)) { /* events in graphs are not part of the subset */
        return emulation_leave(emulation_spoil_capture());
    }
    uint64_t record = ++event->recorded;
    emulation_enqueue(stream, [event, record] {
        if (events.has(event)) {
            event->passed = record;
        }
    });
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    EMULATION_ENTER();
    if (!events.has(event) || !emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (flags != 0) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    if (emulation_is_capturing(stream)) {
        emulation_spoil_capture();
        return emulation_leave(cudaErrorStreamCaptureIsolation);
    }
    put(stream, {nullptr, event, event->recorded});
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    EMULATION_ENTER();
    if (!events.has(event)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (event->passed < event->recorded) {
        run_one(); /* so that a host that asks again gets there */
    }
    return emulation_leave(event->passed < event->recorded ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    EMULATION_ENTER();
    if (!events.has(event)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    while (event->passed < event->recorded && run_one()) {
    }
    return emulation_leave(cudaSuccess);
}

/* ---------------------------------------------------------------- graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    EMULATION_ENTER();
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (mode != cudaStreamCaptureModeGlobal && mode != cudaStreamCaptureModeThreadLocal) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    if (emulation_is_capturing(stream)) {
        return emulation_leave(emulation_spoil_capture());
    }
    stream->capture = std::make_unique<emulation_graph>();
    return emulation_leave(cudaSuccess);
}

/* A capture is over even when the call fails. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    if (int error = emulation_enter(__func__)) {
        if (emulation_is_stream(stream)) {
            stream->capture.reset();
        }
        return emulation_leave(static_cast<cudaError_t>(error));
    }
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (graph == nullptr || !emulation_is_capturing(stream)) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    auto captured = std::move(stream->capture);
    *graph = nullptr;
    if (captured->is_spoilt) {
        return emulation_leave(cudaErrorStreamCaptureInvalidated);
    }
    *graph = graphs.make();
    (*graph)->operations = std::move(captured->operations);
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    EMULATION_ENTER();
    if (exec == nullptr || !graphs.has(graph) || flags != 0) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    *exec = graph_execs.make();
    (*exec)->operations = graph->operations;
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    EMULATION_ENTER();
    if (!graph_execs.has(exec)) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (emulation_is_capturing(stream)) {
        return emulation_leave(emulation_spoil_capture());
    }
    for (const operation &one : exec->operations) {
        put(stream, one);
    }
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    EMULATION_ENTER();
    if (!graphs.has(graph)) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    graphs.drop(graph);
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    EMULATION_ENTER();
    if (!graph_execs.has(exec)) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    graph_execs.drop(exec);
    return emulation_leave(cudaSuccess);
}
