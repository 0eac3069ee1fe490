#include "engine/wait_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lists of sequences */

static bool wait_queue_comes_before(const struct wait_queue_entry *a,
                                    const struct wait_queue_entry *b) {
    return a->arrival_ns != b->arrival_ns ? a->arrival_ns < b->arrival_ns : a->number < b->number;
}

/* Puts a sequence in at its place in the order of arrival, which nearly always is the last. */
static void wait_queue_link(struct wait_queue *queue, struct wait_queue_list *list,
                            enum wait_queue_order order, uint32_t handle) {
    struct wait_queue_entry *entries = queue->entries;
    uint32_t after = list->last;
    while (after != WAIT_QUEUE_NONE && wait_queue_comes_before(&entries[handle], &entries[after])) {
        after = entries[after].links[order].previous;
    }
    uint32_t before = after == WAIT_QUEUE_NONE ? list->first : entries[after].links[order].next;
    entries[handle].links[order].previous = after;
    entries[handle].links[order].next = before;
    if (after == WAIT_QUEUE_NONE) {
        list->first = handle;
    } else {
        entries[after].links[order].next = handle;
    }
    if (before == WAIT_QUEUE_NONE) {
        list->last = handle;
    } else {
        entries[before].links[order].previous = handle;
    }
    list->count++;
}

static void wait_queue_unlink(struct wait_queue *queue, struct wait_queue_list *list,
                              enum wait_queue_order order, uint32_t handle) {
    struct wait_queue_entry *entries = queue->entries;
    uint32_t previous = entries[handle].links[order].previous;
    uint32_t next = entries[handle].links[order].next;
    if (previous == WAIT_QUEUE_NONE) {
        list->first = next;
    } else {
        entries[previous].links[order].next = next;
    }
    if (next == WAIT_QUEUE_NONE) {
        list->last = previous;
    } else {
        entries[next].links[order].previous = previous;
    }
    list->count--;
}

/* ---------------------------------------------------------------- turns of tenants */

static void wait_queue_join_turns(struct wait_queue *queue, uint32_t index) {
    struct wait_queue_flow *flow = &queue->flows[index];
    struct wait_queue_list *turns = &queue->levels[flow->level].turns;
    flow->previous = turns->last;
    flow->next = WAIT_QUEUE_NONE;
    if (turns->last == WAIT_QUEUE_NONE) {
        turns->first = index;
    } else {
        queue->flows[turns->last].next = index;
    }
    turns->last = index;
    turns->count++;
}

static void wait_queue_leave_turns(struct wait_queue *queue, uint32_t index) {
    struct wait_queue_flow *flow = &queue->flows[index];
    struct wait_queue_list *turns = &queue->levels[flow->level].turns;
    if (flow->previous == WAIT_QUEUE_NONE) {
        turns->first = flow->next;
    } else {
        queue->flows[flow->previous].next = flow->next;
    }
    if (flow->next == WAIT_QUEUE_NONE) {
        turns->last = flow->previous;
    } else {
        queue->flows[flow->next].previous = flow->previous;
    }
    turns->count--;
}

static uint32_t *wait_queue_slot(struct wait_queue *queue, uint64_t tenant, uint32_t level) {
    uint64_t mixed = (tenant ^ level) * 0x9E3779B97F4A7C15u;
    return &queue->table[(uint32_t)(mixed >> 32) & queue->table_mask];
}

static uint32_t wait_queue_find_flow(struct wait_queue *queue, uint64_t tenant, uint32_t level) {
    uint32_t at = *wait_queue_slot(queue, tenant, level);
    while (at != WAIT_QUEUE_NONE &&
           (queue->flows[at].tenant != tenant || queue->flows[at].level != level)) {
        at = queue->flows[at].next_in_table;
    }
    return at;
}

static uint32_t wait_queue_enter_flow(struct wait_queue *queue, uint64_t tenant, uint32_t level) {
    uint32_t *slot = wait_queue_slot(queue, tenant, level);
    uint32_t index = wait_queue_find_flow(queue, tenant, level);
    if (index != WAIT_QUEUE_NONE) {
        return index;
    }
    index = queue->free_flows;
    assert(index != WAIT_QUEUE_NONE); /* none is empty, so there are no more than sequences */
    queue->free_flows = queue->flows[index].next;
    queue->flows[index] = (struct wait_queue_flow){
        .tenant = tenant, .level = level, .lanes = WAIT_QUEUE_NONE, .next_in_table = *slot};
    *slot = index;
    wait_queue_join_turns(queue, index);
    return index;
}

static void wait_queue_free_flow(struct wait_queue *queue, uint32_t index) {
    struct wait_queue_flow *flow = &queue->flows[index];
    uint32_t *at = wait_queue_slot(queue, flow->tenant, flow->level);
    while (*at != index) {
        at = &queue->flows[*at].next_in_table;
    }
    *at = flow->next_in_table;
    wait_queue_leave_turns(queue, index);
    flow->next = queue->free_flows;
    queue->free_flows = index;
}

/* ---------------------------------------------------------------- lanes of a flow */

static uint32_t wait_queue_enter_lane(struct wait_queue *queue, uint32_t flow, uint32_t bucket) {
    for (uint32_t at = queue->flows[flow].lanes; at != WAIT_QUEUE_NONE;
         at = queue->lanes[at].next) {
        if (queue->lanes[at].bucket == bucket) {
            return at;
        }
    }
    uint32_t index = queue->free_lanes;
    assert(index != WAIT_QUEUE_NONE);
    queue->free_lanes = queue->lanes[index].next;
    queue->lanes[index] = (struct wait_queue_lane){.list = {WAIT_QUEUE_NONE, WAIT_QUEUE_NONE, 0},
                                                   .bucket = bucket,
                                                   .next = queue->flows[flow].lanes};
    queue->flows[flow].lanes = index;
    return index;
}

static void wait_queue_free_lane(struct wait_queue *queue, uint32_t flow, uint32_t index) {
    uint32_t *at = &queue->flows[flow].lanes;
    while (*at != index) {
        at = &queue->lanes[*at].next;
    }
    *at = queue->lanes[index].next;
    queue->lanes[index].next = queue->free_lanes;
    queue->free_lanes = index;
}

static uint32_t wait_queue_oldest(const struct wait_queue *queue,
                                  const struct wait_queue_flow *flow) {
    uint32_t oldest = WAIT_QUEUE_NONE;
    for (uint32_t at = flow->lanes; at != WAIT_QUEUE_NONE; at = queue->lanes[at].next) {
        uint32_t first = queue->lanes[at].list.first;
        if (oldest == WAIT_QUEUE_NONE ||
            wait_queue_comes_before(&queue->entries[first], &queue->entries[oldest])) {
            oldest = first;
        }
    }
    return oldest;
}

/* The first of the lane that is nearest to a bucket; of two, of the shorter. */
static uint32_t wait_queue_nearest(const struct wait_queue *queue,
                                   const struct wait_queue_flow *flow, uint32_t bucket) {
    uint32_t nearest = WAIT_QUEUE_NONE, least = UINT32_MAX;
    for (uint32_t at = flow->lanes; at != WAIT_QUEUE_NONE; at = queue->lanes[at].next) {
        uint32_t other = queue->lanes[at].bucket;
        uint32_t distance = other <= bucket ? 2 * (bucket - other) : 2 * (other - bucket) + 1;
        if (distance < least) {
            least = distance;
            nearest = queue->lanes[at].list.first;
        }
    }
    return nearest;
}

/* ---------------------------------------------------------------- init, add, remove */

bool wait_queue_init(struct wait_queue *queue, uint32_t handles_max, int64_t ageing_ns) {
    const struct wait_queue_list empty = {WAIT_QUEUE_NONE, WAIT_QUEUE_NONE, 0};
    uint32_t slots = 1;
    assert(handles_max > 0 && ageing_ns >= 0);
    while (slots < handles_max) {
        slots *= 2;
    }
    memset(queue, 0, sizeof *queue);
    queue->ageing_ns = ageing_ns;
    queue->table_mask = slots - 1;
    queue->starts_since_aged = WAIT_QUEUE_AGED_EVERY - 1;
    queue->entries = calloc(handles_max, sizeof *queue->entries);
    queue->lanes = calloc(handles_max, sizeof *queue->lanes);
    queue->flows = calloc(handles_max, sizeof *queue->flows);
    queue->table = calloc(slots, sizeof *queue->table);
    if (queue->entries == NULL || queue->lanes == NULL || queue->flows == NULL ||
        queue->table == NULL) {
        wait_queue_deinit(queue);
        return false;
    }
    for (uint32_t i = 0; i < handles_max; i++) {
        queue->lanes[i].next = i + 1 < handles_max ? i + 1 : WAIT_QUEUE_NONE;
        queue->flows[i].next = i + 1 < handles_max ? i + 1 : WAIT_QUEUE_NONE;
    }
    for (uint32_t i = 0; i < slots; i++) {
        queue->table[i] = WAIT_QUEUE_NONE;
    }
    for (uint32_t i = 0; i < WAIT_QUEUE_LEVELS; i++) {
        queue->levels[i].list = empty;
        queue->levels[i].turns = empty;
    }
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        queue->buckets[i].list = empty;
    }
    return true;
}

void wait_queue_deinit(struct wait_queue *queue) {
    free(queue->entries);
    free(queue->lanes);
    free(queue->flows);
    free(queue->table);
    memset(queue, 0, sizeof *queue);
}

void wait_queue_add(struct wait_queue *queue, uint32_t handle, const struct wait_queue_item *item) {
    struct wait_queue_entry *entry = &queue->entries[handle];
    assert(item->level < WAIT_QUEUE_LEVELS && item->prompt_tokens >= 1);
    *entry = (struct wait_queue_entry){.prompt_tokens = item->prompt_tokens,
                                       .tokens = item->tokens,
                                       .level = item->level,
                                       .bucket = bucket_index(item->prompt_tokens),
                                       .arrival_ns = item->arrival_ns,
                                       .number = item->number};
    struct wait_queue_bucket *bucket = &queue->buckets[entry->bucket];
    struct wait_queue_level *level = &queue->levels[entry->level];
    entry->flow = wait_queue_enter_flow(queue, item->tenant, item->level);
    entry->lane = wait_queue_enter_lane(queue, entry->flow, entry->bucket);
    wait_queue_link(queue, &queue->lanes[entry->lane].list, WAIT_QUEUE_IN_LANE, handle);
    wait_queue_link(queue, &bucket->list, WAIT_QUEUE_IN_BUCKET, handle);
    wait_queue_link(queue, &level->list, WAIT_QUEUE_IN_LEVEL, handle);
    queue->flows[entry->flow].count++;
    queue->flows[entry->flow].prompt_tokens += entry->prompt_tokens;
    bucket->prompt_tokens += entry->prompt_tokens;
    bucket->level_counts[entry->level]++;
    level->prompt_tokens += entry->prompt_tokens;
    queue->count++;
}

void wait_queue_remove(struct wait_queue *queue, uint32_t handle) {
    struct wait_queue_entry *entry = &queue->entries[handle];
    struct wait_queue_bucket *bucket = &queue->buckets[entry->bucket];
    struct wait_queue_level *level = &queue->levels[entry->level];
    wait_queue_unlink(queue, &queue->lanes[entry->lane].list, WAIT_QUEUE_IN_LANE, handle);
    wait_queue_unlink(queue, &bucket->list, WAIT_QUEUE_IN_BUCKET, handle);
    wait_queue_unlink(queue, &level->list, WAIT_QUEUE_IN_LEVEL, handle);
    queue->flows[entry->flow].count--;
    queue->flows[entry->flow].prompt_tokens -= entry->prompt_tokens;
    bucket->prompt_tokens -= entry->prompt_tokens;
    bucket->level_counts[entry->level]--;
    level->prompt_tokens -= entry->prompt_tokens;
    queue->count--;
    if (queue->lanes[entry->lane].list.count == 0) {
        wait_queue_free_lane(queue, entry->flow, entry->lane);
    }
    if (queue->flows[entry->flow].lanes == WAIT_QUEUE_NONE) {
        wait_queue_free_flow(queue, entry->flow);
    }
}

/* ---------------------------------------------------------------- who is next */

void wait_queue_begin_step(struct wait_queue *queue, uint32_t reference) {
    queue->step++;
    queue->reference = reference;
}

static uint32_t wait_queue_top_level(const struct wait_queue *queue) {
    uint32_t level = 0;
    while (level < WAIT_QUEUE_LEVELS && queue->levels[level].list.count == 0) {
        level++;
    }
    return level;
}

static bool wait_queue_is_aged(const struct wait_queue *queue, uint32_t level, int64_t now_ns) {
    const struct wait_queue_list *list = &queue->levels[level].list;
    return list->count > 0 &&
           now_ns - queue->entries[list->first].arrival_ns >= level * queue->ageing_ns;
}

static uint32_t wait_queue_pick_level(const struct wait_queue *queue, int64_t now_ns,
                                      uint32_t level_end) {
    uint32_t top = wait_queue_top_level(queue);
    if (queue->starts_since_aged + 1 < WAIT_QUEUE_AGED_EVERY) {
        return top;
    }
    for (uint32_t i = 1; i <= WAIT_QUEUE_LEVELS; i++) {
        uint32_t level = (queue->aged_level + i) % WAIT_QUEUE_LEVELS;
        if (level > top && level < level_end && wait_queue_is_aged(queue, level, now_ns)) {
            return level;
        }
    }
    return top;
}

/* The flow whose turn it is: each that has used up what it got gets anew and goes to the end. */
static struct wait_queue_flow *wait_queue_pick_flow(struct wait_queue *queue, uint32_t level) {
    struct wait_queue_list *turns = &queue->levels[level].turns;
    while (queue->flows[turns->first].balance_tokens <= 0) {
        uint32_t index = turns->first;
        queue->flows[index].balance_tokens += WAIT_QUEUE_QUANTUM_TOKENS;
        if (turns->count > 1) {
            wait_queue_leave_turns(queue, index);
            wait_queue_join_turns(queue, index);
        }
    }
    return &queue->flows[turns->first];
}

uint32_t wait_queue_peek(struct wait_queue *queue, int64_t now_ns, uint32_t level_end) {
    uint32_t level = wait_queue_pick_level(queue, now_ns, level_end);
    if (level >= level_end || level == WAIT_QUEUE_LEVELS) {
        return WAIT_QUEUE_NONE;
    }
    const struct wait_queue_flow *flow = wait_queue_pick_flow(queue, level);
    if (flow->served_in == queue->step) {
        return wait_queue_nearest(queue, flow, flow->reference);
    }
    return queue->reference == WAIT_QUEUE_NONE ? wait_queue_oldest(queue, flow)
                                               : wait_queue_nearest(queue, flow, queue->reference);
}

void wait_queue_start(struct wait_queue *queue, uint32_t handle) {
    const struct wait_queue_entry *entry = &queue->entries[handle];
    struct wait_queue_flow *flow = &queue->flows[entry->flow];
    if (entry->level > wait_queue_top_level(queue)) {
        queue->starts_since_aged = 0;
        queue->aged_level = entry->level;
    } else if (queue->starts_since_aged < WAIT_QUEUE_AGED_EVERY - 1) {
        queue->starts_since_aged++;
    }
    if (flow->served_in != queue->step) {
        flow->served_in = queue->step;
        flow->reference = queue->reference == WAIT_QUEUE_NONE ? entry->bucket : queue->reference;
    }
    flow->balance_tokens -= entry->tokens;
    wait_queue_remove(queue, handle);
}

struct wait_queue_before wait_queue_before(struct wait_queue *queue, uint32_t level,
                                           uint64_t tenant) {
    struct wait_queue_before before = {0, 0};
    uint32_t flow = wait_queue_find_flow(queue, tenant, level);
    for (uint32_t i = 0; i < level; i++) {
        before.count += queue->levels[i].list.count;
        before.prompt_tokens += queue->levels[i].prompt_tokens;
    }
    if (flow != WAIT_QUEUE_NONE) {
        before.count += queue->flows[flow].count;
        before.prompt_tokens += queue->flows[flow].prompt_tokens;
    }
    return before;
}

/* ---------------------------------------------------------------- buckets */

uint32_t wait_queue_bucket_level(const struct wait_queue *queue, uint32_t bucket) {
    uint32_t level = 0;
    while (level < WAIT_QUEUE_LEVELS && queue->buckets[bucket].level_counts[level] == 0) {
        level++;
    }
    return level;
}

int64_t wait_queue_bucket_oldest_ns(const struct wait_queue *queue, uint32_t bucket) {
    const struct wait_queue_list *list = &queue->buckets[bucket].list;
    assert(list->count > 0);
    return queue->entries[list->first].arrival_ns;
}
