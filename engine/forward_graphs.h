/* The graphs of a forward pass, found by the counts that were captured.
 *
 * Owns the graphs; borrows the device. One thread. Refuses to know what they compute. */
#ifndef SOLFLEET_ENGINE_FORWARD_GRAPHS_H
#define SOLFLEET_ENGINE_FORWARD_GRAPHS_H

#include "engine/forward_pass.h"

/* On the device, for each kernel of a captured pass and, more generously than op by op, for each
 * layer. Not measured: no card was there to ask. */
enum { FORWARD_GRAPHS_NODE_BYTES = 1024, FORWARD_GRAPHS_LAYER_NODES = 16 };

struct forward_graph {
    struct forward_pass pass;
    struct device_graph *graph;
};

struct forward_graphs {
    struct device *device;
    struct forward_graph *items;
    uint32_t count, room;
};

void forward_graphs_init(struct forward_graphs *graphs, struct device *device);
void forward_graphs_deinit(struct forward_graphs *graphs); /* accepts zeroed */

/* An allowance for the graphs of all decode passes. */
size_t forward_graphs_bytes(const struct forward_options *options, uint32_t layers);

/* Takes the graph; false when memory ran out: it stays the caller's. */
bool forward_graphs_add(struct forward_graphs *graphs, const struct forward_pass *pass,
                        struct device_graph *graph) __attribute__((warn_unused_result));
/* NULL = none was captured. */
struct device_graph *forward_graphs_find(const struct forward_graphs *graphs,
                                         const struct forward_pass *pass);

#endif
