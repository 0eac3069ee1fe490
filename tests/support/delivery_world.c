#include "tests/support/delivery_world.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/offset_metadata.h"
#include "tests/support/test.h"

uint32_t delivery_world_below(struct delivery_world *world, uint32_t bound) {
    return (uint32_t)((test_random(&world->random) >> 32) * bound >> 32);
}

void delivery_world_violate(struct delivery_world *world, const char *rule) {
    if (world->violation == NULL) {
        delivery_world_tell(world, "broken: %s", rule);
        world->violation = rule;
    }
}

void delivery_world_tell(const struct delivery_world *world, const char *format, ...) {
    if (world->is_told) {
        va_list arguments;
        va_start(arguments, format);
        printf("%6lld  ", (long long)world->now_ms);
        vprintf(format, arguments);
        printf("\n");
        va_end(arguments);
    }
}

/* Some ids come twice, some as another job, some are no job; offsets have gaps. */
static void delivery_world_fill(struct delivery_world *world) {
    bool is_malformed[DELIVERY_IDS][DELIVERY_CONTENTS];
    for (int id = 0; id < DELIVERY_IDS; id++) {
        is_malformed[id][0] = delivery_world_below(world, 16) == 0;
        is_malformed[id][1] = delivery_world_below(world, 4) == 0;
    }
    for (int p = 0; p < DELIVERY_PARTITIONS; p++) {
        struct delivery_partition *partition = &world->partitions[p];
        int64_t offset = delivery_world_below(world, 3);
        partition->owner = DELIVERY_NOBODY;
        partition->committed = -1;
        partition->count = 1 + (int)delivery_world_below(world, DELIVERY_RECORDS);
        for (int i = 0; i < partition->count; i++) {
            uint8_t id = (uint8_t)delivery_world_below(world, DELIVERY_IDS);
            uint8_t content = delivery_world_below(world, 8) == 0;
            partition->log[i] = (struct delivery_record){.offset = offset,
                                                         .id = id,
                                                         .content = content,
                                                         .is_malformed = is_malformed[id][content]};
            offset += 1 + (delivery_world_below(world, 4) == 0);
        }
        partition->end = offset;
    }
}

void delivery_world_init(struct delivery_world *world, uint64_t seed,
                         enum delivery_mutation mutation) {
    memset(world, 0, sizeof *world);
    world->random = seed;
    world->mutation = mutation;
    world->now_ms = 1000;
    world->is_redis_up = true;
    world->poison = delivery_world_below(world, 4) == 0
                        ? (int)delivery_world_below(world, DELIVERY_IDS)
                        : DELIVERY_NOBODY;
    delivery_world_fill(world);
}

/* ---- Kafka ----------------------------------------------------------------------------------- */

bool delivery_world_is_answered(const struct delivery_world *world, int number, int index) {
    const struct delivery_record *record = &world->partitions[number].log[index];
    return world->has_letter[record->id][record->content] ||
           world->has_result[record->id][record->content];
}

/* What the commit says is settled: below its offset, and in its metadata. */
static bool delivery_world_is_settled(int64_t offset, int64_t mark,
                                      const struct offset_range *ranges, size_t count) {
    bool is_settled = offset < mark;
    for (size_t i = 0; i < count; i++) {
        is_settled |= offset >= ranges[i].begin && offset < ranges[i].end;
    }
    return is_settled;
}

bool delivery_world_commit(struct delivery_world *world, int number, int worker,
                           uint64_t generation, int64_t offset, const char *metadata) {
    static struct offset_range ranges[OFFSET_METADATA_RANGES_MAX];
    size_t count = 0;
    struct delivery_partition *partition = &world->partitions[number];
    delivery_world_tell(world, "w%d commits %d:%lld '%s' in generation %llu of %llu", worker,
                        number, (long long)offset, metadata, (unsigned long long)generation,
                        (unsigned long long)partition->generation);
    if (partition->owner != worker || partition->generation != generation) {
        return false;
    }
    if (offset < partition->committed) {
        delivery_world_violate(world, "a commit never goes back");
    }
    bool is_ours = offset_metadata_decode(offset, metadata, strlen(metadata), ranges, &count);
    assert(is_ours);
    for (int i = 0; i < partition->count; i++) {
        if (delivery_world_is_settled(partition->log[i].offset, offset, ranges, count) &&
            !delivery_world_is_answered(world, number, i)) {
            delivery_world_violate(world, "acknowledged before committed");
        }
    }
    partition->committed = offset;
    snprintf(partition->metadata, sizeof partition->metadata, "%s", metadata);
    return true;
}

static bool delivery_world_same_answer(const char *a, const char *b) {
    size_t a_bytes = strcspn(a, "|"), b_bytes = strcspn(b, "|");
    bool is_computed = a[0] == 'a' && b[0] == 'a'; /* others say why there is no answer */
    return !is_computed || (a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0);
}

void delivery_world_append_result(struct delivery_world *world, int id, int content,
                                  const char *result) {
    char *first = world->result[id][content];
    delivery_world_tell(world, "result %s", result);
    if (!world->has_result[id][content]) {
        snprintf(first, STATUS_MODEL_TEXT_MAX, "%s", result);
        world->has_result[id][content] = true;
    } else if (!world->is_open[id] && strcmp(first, result) != 0) {
        delivery_world_violate(world, "one outcome per id");
    } else if (!delivery_world_same_answer(first, result)) {
        delivery_world_violate(world, "without Redis the same answer");
    }
}

void delivery_world_append_letter(struct delivery_world *world, int id, int content) {
    delivery_world_tell(world, "letter of %d.%d", id, content);
    world->has_letter[id][content] = true;
}

/* ---- Redis ----------------------------------------------------------------------------------- */

static bool delivery_world_is_terminal(const struct status_model *key) {
    return key->state != STATUS_UNKNOWN && key->state != STATUS_QUEUED &&
           key->state != STATUS_RUNNING;
}

uint32_t delivery_world_begin(struct delivery_world *world, int worker) {
    uint32_t number = ++world->incarnation_count; /* 0: nobody */
    struct delivery_incarnation *self = &world->incarnations[number];
    assert(number < DELIVERY_INCARNATIONS_MAX);
    *self = (struct delivery_incarnation){.last_renewed_ms = world->now_ms};
    snprintf(self->worker, sizeof self->worker, "w%d", worker);
    snprintf(self->owner, sizeof self->owner, "w%d/%016x", worker, number);
    delivery_world_tell(world, "w%d begins as %u", worker, number);
    return number;
}

/* The owner that a key names, as its incarnation's number. */
static uint32_t delivery_world_owner(const struct status_model *key) {
    const char *slash = strchr(key->owner, '/');
    return slash == NULL ? 0 : (uint32_t)strtoul(slash + 1, NULL, 16);
}

static void delivery_world_check_death(struct delivery_world *world,
                                       const struct status_model *before, int id) {
    const struct delivery_incarnation *owner = &world->incarnations[delivery_world_owner(before)];
    bool is_silent = world->now_ms - owner->last_renewed_ms >= DELIVERY_LEASE_MS;
    if (before->owner[0] == '\0' || (!owner->is_dead && !is_silent)) {
        delivery_world_violate(world, "deaths only by owners that died");
    } else if (owner->is_dead && (owner->begun >> id & 1u) == 0) {
        delivery_world_violate(world, "deaths only by owners that had begun to run");
    }
}

static void delivery_world_check_key(struct delivery_world *world,
                                     const struct status_model *before,
                                     const struct status_model *after, int id) {
    if (delivery_world_is_terminal(before) &&
        (after->state != before->state ||
         strcmp(after->outcome.result, before->outcome.result) != 0)) {
        delivery_world_violate(world, "terminal never goes back");
    }
    if (before->sealed != STATUS_UNKNOWN && !delivery_world_is_terminal(after) &&
        (after->sealed != before->sealed ||
         strcmp(after->outcome.result, before->outcome.result) != 0)) {
        delivery_world_violate(world, "a seal is never broken");
    }
    if (before->state == STATUS_RUNNING && after->state == STATUS_QUEUED) {
        delivery_world_violate(world, "the state never goes back");
    }
    /* Without the keys that were, an attempt may mean another record of the id. */
    if (after->deaths > before->deaths && !world->has_lost_keys) {
        delivery_world_check_death(world, before, id);
    }
}

static void delivery_world_run(struct delivery_world *world, struct status_model *key,
                               const struct status_model_caller *caller,
                               struct delivery_call *call) {
    static const char *const fingerprints[DELIVERY_CONTENTS] = {"f0", "f1"};
    const char *fingerprint = fingerprints[call->content];
    char claim[STATUS_MODEL_TEXT_MAX];
    struct status_model_finish finish = {.state = call->state,
                                         .fingerprint = fingerprint,
                                         .attempt = call->attempt,
                                         .started_at = -1,
                                         .finished_at = world->now_ms,
                                         .prompt_tokens = -1,
                                         .completion_tokens = -1,
                                         .result = call->result,
                                         .keep = 1,
                                         .result_partition = -1,
                                         .result_offset = -1};
    switch (call->script) {
    case STATUS_SCRIPT_CLAIM:
        snprintf(claim, sizeof claim, "%d:%lld:%llu", call->source.partition,
                 (long long)call->source.offset, (unsigned long long)call->source.epoch);
        call->answer =
            status_model_claim(key, caller,
                               &(struct status_model_claim){
                                   .claim = claim, .fingerprint = fingerprint, .queued_at = -1});
        break;
    case STATUS_SCRIPT_ADVANCE:
        call->answer.code =
            status_model_advance(key, caller, call->attempt, world->now_ms, -1, -1, NULL);
        break;
    case STATUS_SCRIPT_SEAL: call->answer = status_model_seal(key, caller, &finish); break;
    case STATUS_SCRIPT_FINISH:
        call->answer.code = status_model_finish(key, caller, &finish);
        if (world->mutation == DELIVERY_WRITES_OVER_A_TERMINAL_STATE && call->answer.code == 0) {
            key->state = call->state;
            snprintf(key->outcome.result, sizeof key->outcome.result, "%s", call->result);
        }
        break;
    case STATUS_SCRIPT_REPAIR: assert(false); break; /* no worker of this world repairs */
    case STATUS_SCRIPT_RENEW:
        call->answer.code = status_model_renew(key, caller, call->attempt);
        break;
    case STATUS_SCRIPT_RELEASE:
        call->answer.code = status_model_release(key, caller, call->attempt);
        break;
    }
}

void delivery_world_apply(struct delivery_world *world, uint32_t incarnation,
                          struct delivery_call *call) {
    static const char *const names[STATUS_SCRIPT_COUNT] = {"release", "advance", "seal", "finish",
                                                           "repair",  "renew",   "claim"};
    struct status_model *key = &world->keys[call->id], before = *key;
    const struct delivery_incarnation *self = &world->incarnations[incarnation];
    const struct status_model_caller caller = {.worker = self->worker,
                                               .owner = self->owner,
                                               .lease_ms = DELIVERY_LEASE_MS,
                                               .now_ms = world->now_ms};
    delivery_world_run(world, key, &caller, call);
    call->is_applied = true;
    delivery_world_tell(world, "%s %s of %d.%d, attempt %lld: %lld, attempt %lld, deaths %lld",
                        self->owner, names[call->script], call->id, call->content,
                        (long long)call->attempt, (long long)call->answer.code,
                        (long long)key->attempt, (long long)key->deaths);
    delivery_world_check_key(world, &before, key, call->id);
}

void delivery_world_empty_redis(struct delivery_world *world) {
    delivery_world_tell(world, "Redis is empty");
    world->has_lost_keys = true;
    for (int id = 0; id < DELIVERY_IDS; id++) {
        world->keys[id] = (struct status_model){0};
        world->is_open[id] = true;
    }
}
