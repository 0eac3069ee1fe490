/* The graphs of a forward pass, found by the counts that were captured.
 *
 * Owns the graphs; borrows the device. One thread. Refuses to know what they compute. */
#ifndef SOLFLEET_ENGINE_FORWARD_GRAPHS_H
#define SOLFLEET_ENGINE_FORWARD_GRAPHS_H

#include "engine/forward_pass.h"

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

/* Takes the graph; false when memory ran out: it stays the caller's. */
bool forward_graphs_add(struct forward_graphs *graphs, const struct forward_pass *pass,
                        struct device_graph *graph) __attribute__((warn_unused_result));
/* NULL = none was captured. */
struct device_graph *forward_graphs_find(const struct forward_graphs *graphs,
                                         const struct forward_pass *pass);

#endif
