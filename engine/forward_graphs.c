#include "engine/forward_graphs.h"

#include <stdlib.h>

#define FORWARD_GRAPHS_ROOM 32u /* at first */

size_t forward_graphs_bytes(const struct forward_options *options, uint32_t layers) {
    struct forward_pass pass;
    uint32_t count = 0;
    while (forward_pass_decode(options, count, &pass)) {
        count++;
    }
    size_t nodes =
        (size_t)(layers + 1) * FORWARD_GRAPHS_LAYER_NODES; /* and a layer's for the ends */
    return count * nodes * FORWARD_GRAPHS_NODE_BYTES;
}

void forward_graphs_init(struct forward_graphs *graphs, struct device *device) {
    *graphs = (struct forward_graphs){.device = device};
}

void forward_graphs_deinit(struct forward_graphs *graphs) {
    for (uint32_t i = 0; i < graphs->count; i++) {
        device_graph_close(graphs->device, graphs->items[i].graph);
    }
    free(graphs->items);
    *graphs = (struct forward_graphs){.count = 0};
}

bool forward_graphs_add(struct forward_graphs *graphs, const struct forward_pass *pass,
                        struct device_graph *graph) {
    if (graphs->count == graphs->room) {
        uint32_t room = graphs->room == 0 ? FORWARD_GRAPHS_ROOM : 2 * graphs->room;
        struct forward_graph *items = realloc(graphs->items, room * sizeof *items);
        if (items == NULL) {
            return false;
        }
        graphs->items = items;
        graphs->room = room;
    }
    graphs->items[graphs->count++] = (struct forward_graph){.pass = *pass, .graph = graph};
    return true;
}

struct device_graph *forward_graphs_find(const struct forward_graphs *graphs,
                                         const struct forward_pass *pass) {
    for (uint32_t i = 0; i < graphs->count; i++) {
        const struct forward_pass *one = &graphs->items[i].pass;
        if (one->rows == pass->rows && one->segments == pass->segments &&
            one->sampled == pass->sampled && one->context_max == pass->context_max) {
            return graphs->items[i].graph;
        }
    }
    return NULL;
}
