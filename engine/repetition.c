#include "engine/repetition.h"

#include <assert.h>
#include <string.h>

bool repetition_rule_is_valid(const struct repetition_rule *rule) {
    return rule->cycles == 0 || (rule->cycles >= 2 && rule->cycle_tokens_max >= 1 &&
                                 rule->cycle_tokens_max <= REPETITION_CYCLE_TOKENS_MAX);
}

void repetition_init(struct repetition *repetition, const struct repetition_rule *rule) {
    assert(repetition_rule_is_valid(rule));
    memset(repetition, 0, sizeof *repetition);
    repetition->rule = *rule;
}

/* `equal` tokens that equal the one a cycle before, and the first cycle itself. */
static bool repetition_is_one(const struct repetition_rule *rule, uint32_t cycle, uint32_t equal) {
    uint64_t tokens = (uint64_t)equal + cycle;
    return tokens >= (uint64_t)rule->cycles * cycle && tokens >= rule->tokens_min;
}

bool repetition_add(struct repetition *repetition, const int32_t *tokens, uint32_t count) {
    const struct repetition_rule *rule = &repetition->rule;
    bool found = false;
    if (rule->cycles == 0) {
        return false;
    }
    assert(count == repetition->count + 1);
    repetition->count = count;
    for (uint32_t cycle = 1; cycle <= rule->cycle_tokens_max && cycle < count; cycle++) {
        uint32_t *equal = &repetition->equal[cycle - 1];
        *equal = tokens[count - 1] == tokens[count - 1 - cycle] ? *equal + 1 : 0;
        found = found || repetition_is_one(rule, cycle, *equal);
    }
    return found;
}
