/* The scripts on a real redis-server beside their model: the same calls in the same order, answers
 * and whole hashes compared. Also what the model cannot say: hashes that no worker wrote. */
#include "consumer/status_script.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_call.h"
#include "consumer/status_command.h"
#include "consumer/status_reply.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_model.h"
#include "tests/support/test.h"

enum {
    SEQUENCES = 10000,
    STEPS = 12,
    CALLERS = 4,
    LEASES = 2,
    KEY_BYTES = 64,
    CANCEL = STATUS_SCRIPT_COUNT, /* what else happens to a key */
    VANISH,
    SEND_AGAIN, /* as `solfleet replay` renews it */
    NOTHING,
    RESULT_BYTES_MAX = 12,
    SENT_AGAIN_AT = 2001 /* results come from 2000 to 2002 */
};

static const int64_t leases_ms[LEASES] = {1, 10000000};
static const struct status_model_caller callers[CALLERS] = {{.worker = "w1", .owner = "w1/a"},
                                                            {.worker = "w1", .owner = "w1/b"},
                                                            {.worker = "w2", .owner = "w2/a"},
                                                            {.worker = "w", .owner = "w/a"}};

static struct redis_server server;
static redisContext *redis, *listener;
static char sha1[STATUS_SCRIPT_COUNT][41];

/* One sequence: a key, what the model says of it, and the call that is under way. */
struct sequence {
    char id[16], key[KEY_BYTES];
    struct status_model model;
    int call; /* enum status_script or one of those above */
    uint32_t caller, lease;
    struct status_store_claim claim;
    struct status_store_advance advance;
    struct status_store_finish finish;
    uint32_t attempt;
    bool is_told; /* the reply has been compared */
};

static struct sequence sequences[SEQUENCES];

static redisReply *ask(const char *format, const char *word) {
    redisReply *reply = redisCommand(redis, format, word);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    return reply;
}

static int64_t server_now_ms(void) {
    redisReply *reply = ask("TIME", "");
    int64_t now_ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
                     strtoll(reply->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(reply);
    return now_ms;
}

/* ---- random calls ---- */

static const char *const texts[] = {NULL, "so far", "the end"};
static const char *const results[] = {"{}", "{\"a\":1}", "{\"long\":\"result\"}"};
static const char *const fingerprints[] = {"f", "f", "f", "f", "f", "f", "f", "other", NULL};

#define PICK(list, seed) (list)[test_random(seed) % (sizeof(list) / sizeof(list)[0])]

static void make_finish(struct sequence *sequence, uint64_t *seed) {
    const char *result = PICK(results, seed);
    bool failed = test_random(seed) % 3 == 0;
    sequence->finish = (struct status_store_finish){
        .request_id = sequence->id,
        .fingerprint = PICK(fingerprints, seed),
        .state = (enum status_state)(STATUS_DONE + test_random(seed) % 4),
        .attempt = sequence->attempt,
        .started_unix_ms = test_random(seed) % 2 == 0 ? -1 : 1000,
        .finished_unix_ms = 2000 + (int64_t)(test_random(seed) % 3),
        .prompt_tokens = (int64_t)(test_random(seed) % 3) - 1,
        .completion_tokens = (int64_t)(test_random(seed) % 3) - 1,
        .error_code = failed ? "numeric" : NULL,
        .error_message = failed ? "not a number" : NULL,
        .text = PICK(texts, seed),
        .result = result,
        .result_bytes = strlen(result),
        .is_sealed = test_random(seed) % 2 == 0,
        .result_topic = test_random(seed) % 4 == 0 ? NULL : "results",
        .result_partition = 0,
        .result_offset = (int64_t)(test_random(seed) % 2)};
}

static int make_call(uint64_t *seed) {
    static const int calls[] = {STATUS_SCRIPT_CLAIM,
                                STATUS_SCRIPT_CLAIM,
                                STATUS_SCRIPT_CLAIM,
                                STATUS_SCRIPT_CLAIM,
                                STATUS_SCRIPT_CLAIM,
                                STATUS_SCRIPT_ADVANCE,
                                STATUS_SCRIPT_ADVANCE,
                                STATUS_SCRIPT_RENEW,
                                STATUS_SCRIPT_RELEASE,
                                STATUS_SCRIPT_SEAL,
                                STATUS_SCRIPT_FINISH,
                                STATUS_SCRIPT_REPAIR,
                                CANCEL,
                                VANISH,
                                SEND_AGAIN,
                                NOTHING};
    int call = PICK(calls, seed);
    bool is_rare = call == STATUS_SCRIPT_FINISH || call == STATUS_SCRIPT_REPAIR ||
                   call == STATUS_SCRIPT_SEAL || call == VANISH || call == SEND_AGAIN;
    return is_rare && test_random(seed) % 3 != 0 ? STATUS_SCRIPT_CLAIM : call;
}

/* What kills its owners again and again: claimed, run, and the short lease runs out. */
static int make_deadly_call(const struct status_model *model) {
    bool runs = model->attempt > 0 && model->running_attempt == model->attempt;
    return runs || model->owner[0] == '\0' ? STATUS_SCRIPT_CLAIM : STATUS_SCRIPT_ADVANCE;
}

static void make_step(struct sequence *sequence, bool is_deadly, uint64_t *seed) {
    sequence->is_told = false;
    sequence->call = make_call(seed);
    sequence->caller = (uint32_t)(test_random(seed) % CALLERS);
    sequence->lease = (uint32_t)(test_random(seed) % LEASES);
    if (is_deadly && test_random(seed) % 4 != 0) {
        sequence->call = make_deadly_call(&sequence->model);
        sequence->lease = 0;
    }
    /* Mostly what the owner would say, so that sequences get somewhere. */
    for (uint32_t i = 0; test_random(seed) % 4 != 0 && i < CALLERS; i++) {
        if (strcmp(callers[i].owner, sequence->model.owner) == 0) {
            sequence->caller = i;
            break;
        }
    }
    sequence->attempt = test_random(seed) % 4 == 0 ? (uint32_t)(test_random(seed) % 4)
                                                   : (uint32_t)sequence->model.attempt;
    sequence->claim = (struct status_store_claim){
        .request_id = sequence->id,
        .source = {.partition = 1, .offset = (int64_t)(test_random(seed) % 3), .epoch = 7},
        .fingerprint = test_random(seed) % 16 == 0 ? "other" : "f",
        .queued_unix_ms = 500,
        .only_if_queued = test_random(seed) % 8 == 0};
    sequence->advance =
        (struct status_store_advance){.request_id = sequence->id,
                                      .attempt = sequence->attempt,
                                      .started_unix_ms = test_random(seed) % 2 == 0 ? -1 : 900,
                                      .prompt_tokens = 3,
                                      .completion_tokens = (uint32_t)(test_random(seed) % 5),
                                      .text = PICK(texts, seed)};
    make_finish(sequence, seed);
}

/* ---- the same call on the model ---- */

static struct status_model_finish model_finish_of(const struct status_store_finish *finish) {
    bool stays = finish->result_bytes <= RESULT_BYTES_MAX;
    return (struct status_model_finish){.state = finish->state,
                                        .fingerprint = finish->fingerprint,
                                        .attempt = finish->attempt,
                                        .started_at = finish->started_unix_ms,
                                        .finished_at = finish->finished_unix_ms,
                                        .prompt_tokens = finish->prompt_tokens,
                                        .completion_tokens = finish->completion_tokens,
                                        .error_code = finish->error_code,
                                        .error_message = finish->error_message,
                                        .text = finish->text,
                                        .result = finish->result,
                                        .keep = !stays              ? 0
                                                : finish->is_sealed ? 2
                                                                    : 1,
                                        .result_topic = finish->result_topic,
                                        .result_partition = finish->result_partition,
                                        .result_offset = finish->result_offset};
}

static struct status_model_answer model_call(struct sequence *sequence, int64_t now_ms) {
    struct status_model *model = &sequence->model;
    struct status_model_caller caller = callers[sequence->caller];
    struct status_model_answer answer = {0};
    const struct status_store_advance *advance = &sequence->advance;
    struct status_model_finish finish = model_finish_of(&sequence->finish);
    char claim[32];
    caller.lease_ms = leases_ms[sequence->lease];
    caller.now_ms = now_ms;
    snprintf(claim, sizeof claim, "1:%d:7", (int)sequence->claim.source.offset);
    switch (sequence->call) {
    case STATUS_SCRIPT_CLAIM:
        return status_model_claim(
            model, &caller,
            &(struct status_model_claim){.claim = claim,
                                         .fingerprint = sequence->claim.fingerprint,
                                         .only_if_queued = sequence->claim.only_if_queued,
                                         .queued_at = sequence->claim.queued_unix_ms});
    case STATUS_SCRIPT_ADVANCE:
        answer.code =
            status_model_advance(model, &caller, advance->attempt, advance->started_unix_ms,
                                 advance->prompt_tokens, advance->completion_tokens, advance->text);
        break;
    case STATUS_SCRIPT_RENEW:
        answer.code = status_model_renew(model, &caller, sequence->attempt);
        break;
    case STATUS_SCRIPT_RELEASE:
        answer.code = status_model_release(model, &caller, sequence->attempt);
        break;
    case STATUS_SCRIPT_SEAL: return status_model_seal(model, &caller, &finish);
    case STATUS_SCRIPT_FINISH:
        finish.result = finish.keep == 2 ? NULL : finish.result; /* spared */
        answer.code = status_model_finish(model, &caller, &finish);
        break;
    case STATUS_SCRIPT_REPAIR:
        finish.keep = finish.keep == 2 ? 1 : finish.keep;
        answer.code = status_model_repair(model, &finish);
        break;
    case SEND_AGAIN:
        status_model_init(model);
        model->state = STATUS_QUEUED;
        model->queued_at = SENT_AGAIN_AT;
        model->is_replayed = true;
        break;
    case CANCEL: model->cancel_requested = !model->is_unusable; break;
    case VANISH: status_model_init(model); break;
    default: break;
    }
    return answer;
}

/* ---- answers ---- */

static void assert_text(const char *got, const char *expected) {
    assert_string_equal(got != NULL ? got : "", expected);
}

static void compare_outcome(const struct status_store_outcome *got,
                            const struct status_model_outcome *expected) {
    assert_int_equal(got->state, expected->state);
    assert_int_equal(got->finished_unix_ms, expected->finished_at);
    assert_int_equal(got->prompt_tokens, expected->prompt_tokens);
    assert_int_equal(got->completion_tokens, expected->completion_tokens);
    assert_text(got->error_code, expected->error_code);
    assert_text(got->error_message, expected->error_message);
    assert_text(got->text, expected->text);
    assert_text(got->result, expected->result);
}

static enum status_store_claimed claimed_of(int64_t code) {
    switch (code) {
    case STATUS_SCRIPT_LOST: return STATUS_STORE_DONE;
    case STATUS_SCRIPT_CONFLICT: return STATUS_STORE_CONFLICT;
    case STATUS_SCRIPT_NONE: return STATUS_STORE_NONE;
    case STATUS_SCRIPT_SEALED: return STATUS_STORE_SEALED;
    case STATUS_SCRIPT_POISON: return STATUS_STORE_POISON;
    case STATUS_SCRIPT_HERE: return STATUS_STORE_RUNNING_HERE;
    case STATUS_SCRIPT_ELSEWHERE: return STATUS_STORE_RUNNING_ELSEWHERE;
    default: return STATUS_STORE_NEW;
    }
}

static void compare_claim(const struct status_store_answer *got,
                          const struct status_model_answer *expected, int64_t slack_ms) {
    assert_int_equal(got->claimed, claimed_of(expected->code));
    assert_int_equal(got->attempt, expected->attempt);
    assert_int_equal(got->deaths, expected->deaths);
    assert_int_equal(got->cancel_requested, expected->cancel_requested);
    assert_in_range(expected->lease_left_ms - got->lease_left_ms, 0, slack_ms);
    assert_int_equal(got->sealed != NULL, expected->code == STATUS_SCRIPT_SEALED);
}

static void compare_seal(const struct status_reply *said, int64_t code) {
    assert_int_equal(said->answer.reached, code != STATUS_SCRIPT_NONE);
    if (said->answer.reached) {
        assert_int_equal(said->answer.seal,
                         code == 1                      ? STATUS_STORE_SEALED_NOW
                         : code == STATUS_SCRIPT_SEALED ? STATUS_STORE_SEALED_BEFORE
                         : code == STATUS_SCRIPT_LOST   ? STATUS_STORE_SEAL_TERMINAL
                                                        : STATUS_STORE_SEAL_CONFLICT);
    }
}

static void compare_answer(struct sequence *sequence, const struct status_link_reply *reply,
                           size_t element, int64_t before_ms, int64_t slack_ms) {
    struct status_reply said;
    enum status_script script = (enum status_script)sequence->call;
    struct status_model_answer expected = model_call(sequence, before_ms);
    sequence->is_told = true;
    assert_true(status_reply_read(&said, script, reply, element));
    if (script == STATUS_SCRIPT_CLAIM) {
        compare_claim(&said.answer, &expected, slack_ms);
    } else if (script == STATUS_SCRIPT_SEAL) {
        compare_seal(&said, expected.code);
    } else {
        int64_t code = 0;
        assert_true(status_link_int(reply, element, 0, &code));
        assert_int_equal(code, expected.code);
    }
    if (expected.code == STATUS_SCRIPT_SEALED) {
        compare_outcome(said.answer.sealed, &expected.outcome);
    }
}

/* ---- hashes ---- */

static const redisReply *field_of(const redisReply *hash, const char *name) {
    for (size_t i = 0; i + 1 < hash->elements; i += 2) {
        if (strcmp(hash->element[i]->str, name) == 0) {
            return hash->element[i + 1];
        }
    }
    return NULL;
}

static size_t compare_text(const redisReply *hash, const char *name, const char *expected) {
    const redisReply *field = field_of(hash, name);
    assert_text(field != NULL ? field->str : NULL, expected);
    return field != NULL;
}

static size_t compare_number(const redisReply *hash, const char *name, int64_t expected,
                             int64_t none) {
    char text[24] = "";
    if (expected != none) {
        snprintf(text, sizeof text, "%lld", (long long)expected);
    }
    return compare_text(hash, name, text);
}

static const char *state_text(enum status_state state) {
    return state == STATUS_UNKNOWN ? "" : status_state_name(state);
}

/* The server's clock went on a little behind the model's: the model takes the server's value. */
static size_t compare_lease(const redisReply *hash, struct status_model *model, int64_t slack_ms) {
    const redisReply *field = field_of(hash, "lease_until");
    assert_int_equal(field != NULL, model->lease_until != 0);
    if (field != NULL) {
        int64_t lease_until = strtoll(field->str, NULL, 10);
        assert_in_range(lease_until - model->lease_until, 0, slack_ms);
        model->lease_until = lease_until;
    }
    return field != NULL;
}

static void compare_hash(struct sequence *sequence, const redisReply *hash, int64_t slack_ms) {
    struct status_model *model = &sequence->model;
    const struct status_model_outcome *outcome = &model->outcome;
    if (model->is_unusable) {
        assert_int_equal(hash->type, REDIS_REPLY_ERROR);
        return;
    }
    size_t count = compare_lease(hash, model, slack_ms);
    count += compare_text(hash, "state", state_text(model->state));
    count += compare_text(hash, "sealed", state_text(model->sealed));
    count += compare_text(hash, "fingerprint", model->fingerprint);
    count += compare_text(hash, "worker", model->worker);
    count += compare_text(hash, "owner", model->owner);
    count += compare_text(hash, "claim", model->claim);
    count += compare_number(hash, "attempt", model->attempt, 0);
    count += compare_number(hash, "deaths", model->deaths, 0);
    count += compare_number(hash, "running_attempt", model->running_attempt, 0);
    count += compare_number(hash, "queued_at", model->queued_at, -1);
    count += compare_number(hash, "started_at", model->started_at, -1);
    count += compare_text(hash, "cancel_requested", model->cancel_requested ? "1" : "");
    count += compare_text(hash, "replayed", model->is_replayed ? "0:1" : "");
    count += compare_text(hash, "repaired", model->is_repaired ? "1" : "");
    count += compare_number(hash, "finished_at", outcome->finished_at, -1);
    count += compare_number(hash, "prompt_tokens", outcome->prompt_tokens, -1);
    count += compare_number(hash, "completion_tokens", outcome->completion_tokens, -1);
    count += compare_text(hash, "error_code", outcome->error_code);
    count += compare_text(hash, "error_message", outcome->error_message);
    count += compare_text(hash, "text", outcome->text);
    count += compare_text(hash, "result", outcome->result);
    count += compare_text(hash, "result_topic", model->result_topic);
    count += compare_number(hash, "result_partition", model->result_partition, -1);
    count += compare_number(hash, "result_offset", model->result_offset, -1);
    assert_int_equal(hash->elements, 2 * count); /* and nothing else */
}

/* ---- the same step on the server ---- */

static redisReply *next_reply(redisContext *context) {
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
    return reply;
}

static void gather(struct status_command *command, const struct sequence *sequence, uint64_t at) {
    status_command_key(command, at, sequence->key);
    switch (sequence->call) {
    case STATUS_SCRIPT_CLAIM: status_call_claim(command, &sequence->claim); break;
    case STATUS_SCRIPT_ADVANCE: status_call_advance(command, &sequence->advance); break;
    case STATUS_SCRIPT_SEAL: status_call_seal(command, &sequence->finish); break;
    case STATUS_SCRIPT_FINISH:
        status_call_finish(command, &sequence->finish, RESULT_BYTES_MAX);
        break;
    case STATUS_SCRIPT_REPAIR: {
        struct status_store_finish finish = sequence->finish;
        finish.is_sealed = false;
        status_call_finish(command, &finish, RESULT_BYTES_MAX);
        break;
    }
    default: status_command_int(command, sequence->attempt); break;
    }
}

static void send_command(struct status_command *command, uint32_t caller, uint32_t lease) {
    char lease_text[24];
    snprintf(lease_text, sizeof lease_text, "%lld", (long long)leases_ms[lease]);
    const char *shared[STATUS_SCRIPT_SHARED_ARGS] = {"1000", "solfleet:", callers[caller].worker,
                                                     callers[caller].owner, lease_text};
    status_command_join(command, sha1[command->script], shared, false);
    redisAppendFormattedCommand(redis, command->joined.data, command->joined.size);
}

/* All calls of this step, those of the same script, caller and lease in as few commands as hold
 * them. */
static void send_calls(struct status_command_list *sent) {
    static struct status_command *open[STATUS_SCRIPT_COUNT][CALLERS][LEASES];
    for (uint64_t i = 0; i < SEQUENCES; i++) {
        const struct sequence *sequence = &sequences[i];
        if (sequence->call >= STATUS_SCRIPT_COUNT) {
            continue;
        }
        struct status_command **command = &open[sequence->call][sequence->caller][sequence->lease];
        if (*command == NULL) {
            *command = status_command_new((enum status_script)sequence->call);
        }
        gather(*command, sequence, i);
        if ((*command)->key_count == STATUS_COMMAND_KEYS_MAX) {
            send_command(*command, sequence->caller, sequence->lease);
            status_command_append(sent, *command);
            *command = NULL;
        }
    }
    for (uint32_t i = 0; i < STATUS_SCRIPT_COUNT * CALLERS * LEASES; i++) {
        struct status_command **command = &open[0][0][0] + i;
        if (*command != NULL) {
            send_command(*command, i / LEASES % CALLERS, i % LEASES);
            status_command_append(sent, *command);
            *command = NULL;
        }
    }
}

static void send_others(void) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (sequences[i].call == CANCEL) {
            redisAppendCommand(redis, "HSET %s cancel_requested 1", sequences[i].key);
        } else if (sequences[i].call == VANISH) {
            redisAppendCommand(redis, "DEL %s", sequences[i].key);
        } else if (sequences[i].call == SEND_AGAIN) {
            redisAppendCommand(redis, "DEL %s", sequences[i].key);
            redisAppendCommand(redis, "HSET %s state queued queued_at %d replayed 0:1",
                               sequences[i].key, SENT_AGAIN_AT);
        }
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (sequences[i].call == CANCEL || sequences[i].call == VANISH) {
            freeReplyObject(next_reply(redis));
        } else if (sequences[i].call == SEND_AGAIN) {
            freeReplyObject(next_reply(redis));
            freeReplyObject(next_reply(redis));
        }
    }
}

static void take_replies(struct status_command_list *sent, redisReply **replies, int64_t before_ms,
                         int64_t slack_ms) {
    size_t taken = 0;
    for (struct status_command *command; (command = status_command_shift(sent)) != NULL;) {
        redisReply *reply = replies[taken++];
        assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
        struct status_link_reply link = {
            .kind = STATUS_LINK_LIST, .list = reply, .count = reply->elements};
        assert_int_equal(reply->elements, command->key_count);
        for (uint32_t i = 0; i < command->key_count; i++) {
            compare_answer(&sequences[command->tickets[i]], &link, i, before_ms, slack_ms);
        }
        freeReplyObject(reply);
        status_command_free(command);
    }
}

static int64_t run_step(void) {
    struct status_command_list sent = {0};
    send_others();
    int64_t before_ms = server_now_ms();
    send_calls(&sent);
    static redisReply *replies[SEQUENCES];
    size_t count = 0;
    for (const struct status_command *at = sent.head; at != NULL; at = at->next) {
        replies[count++] = next_reply(redis);
    }
    int64_t slack_ms = server_now_ms() - before_ms;
    take_replies(&sent, replies, before_ms, slack_ms);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        if (!sequences[i].is_told) {
            model_call(&sequences[i], before_ms);
        }
    }
    return slack_ms;
}

static void compare_hashes(int64_t slack_ms) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const char *words[] = {"HGETALL", sequences[i].key};
        redisAppendCommandArgv(redis, 2, words, NULL);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        redisReply *hash = next_reply(redis);
        compare_hash(&sequences[i], hash, slack_ms);
        freeReplyObject(hash);
    }
}

/* So many events have come since the last look; the sentinel ends it. */
static uint32_t count_events(void) {
    freeReplyObject(ask("PUBLISH solfleet:events:sentinel %s", "."));
    for (uint32_t count = 0;; count++) {
        redisReply *reply = next_reply(listener);
        bool is_last = strcmp(reply->element[2]->str, "solfleet:events:sentinel") == 0;
        freeReplyObject(reply);
        if (is_last) {
            return count;
        }
    }
}

static void compare_events(void) {
    uint32_t expected = 0;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        expected += sequences[i].model.published_count;
        sequences[i].model.published_count = 0;
    }
    assert_int_equal(count_events(), expected);
}

/* Some ids are queued by a client, some are cancelled before all, some keys are no hashes. */
static void begin_sequences(uint64_t *seed) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct sequence *sequence = &sequences[i];
        snprintf(sequence->id, sizeof sequence->id, "r-%u", i);
        status_key(sequence->key, sizeof sequence->key, "solfleet:", sequence->id);
        status_model_init(&sequence->model);
        sequence->call = NOTHING;
        switch (test_random(seed) % 16) {
        case 0: sequence->call = CANCEL; break;
        case 1:
            sequence->model.is_unusable = true;
            freeReplyObject(ask("SET %s text", sequence->key));
            break;
        case 2:
            sequence->model.state = STATUS_QUEUED;
            sequence->model.queued_at = 400;
            freeReplyObject(ask("HSET %s state queued queued_at 400", sequence->key));
            break;
        default: break;
        }
    }
    run_step();
}

static void agrees_with_its_model_in_10000_random_sequences(void **state) {
    uint64_t seed = test_seed();
    uint32_t terminal = 0, dead = 0, poison = 0, sealed = 0, repaired = 0;
    begin_sequences(&seed);
    for (int step = 0; step < STEPS; step++) {
        for (int64_t end_ms = server_now_ms() + 3; server_now_ms() < end_ms;) {
        } /* short leases end between steps, whatever the machine's speed */
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            make_step(&sequences[i], i % 8 == 0, &seed);
            if (sequences[i].call == VANISH && sequences[i].model.is_unusable) {
                sequences[i].call = NOTHING;
            }
        }
        compare_hashes(run_step());
        compare_events();
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        terminal += status_state_is_terminal(sequences[i].model.state);
        dead += sequences[i].model.deaths > 0;
        poison += sequences[i].model.deaths >= STATUS_SCRIPT_POISON_DEATHS;
        sealed += sequences[i].model.sealed != STATUS_UNKNOWN;
        repaired += sequences[i].model.is_repaired;
    }
    assert_in_range(terminal, SEQUENCES / 50, SEQUENCES / 2); /* they got somewhere */
    assert_in_range(dead, SEQUENCES / 50, SEQUENCES / 2);
    assert_in_range(poison, SEQUENCES / 1000, SEQUENCES / 50);
    assert_in_range(sealed, SEQUENCES / 50, SEQUENCES / 2);
    assert_in_range(repaired, SEQUENCES / 100, SEQUENCES / 2);
}

/* ---- set up ---- */

static int start(void **state) {
    redis_server_open(&server);
    redis = redisConnect("127.0.0.1", server.port);
    listener = redisConnect("127.0.0.1", server.port);
    freeReplyObject(redisCommand(listener, "PSUBSCRIBE solfleet:events:*"));
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        redisReply *reply = ask("SCRIPT LOAD %s", status_script_text((enum status_script)script));
        snprintf(sha1[script], sizeof sha1[script], "%s", reply->str);
        freeReplyObject(reply);
    }
    return 0;
}

static int stop(void **state) {
    redisFree(redis);
    redisFree(listener);
    redis_server_close(&server);
    return 0;
}

TEST_MAIN_WITH(start, stop, cmocka_unit_test(agrees_with_its_model_in_10000_random_sequences))
