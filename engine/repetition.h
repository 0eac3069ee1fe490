/* A watch for repetition: whether an answer has come to say the same over and over.
 *
 * An answer repeats when its last tokens are one cycle of at most cycle_tokens_max tokens, at least
 * `cycles` times in a row and exactly, and are tokens_min or more in all: a long cycle needs few
 * turns to be no accident, a short one many, for a row of zeros or a drawn line is honest. Work per
 * token is one comparison a cycle length, whatever the answer's length. Plain memory, no
 * allocation; one thread. Refuses to know text, prompts and what follows from a repetition. */
#ifndef SOLFLEET_ENGINE_REPETITION_H
#define SOLFLEET_ENGINE_REPETITION_H

#include <stdbool.h>
#include <stdint.h>

#define REPETITION_CYCLE_TOKENS_MAX 256

struct repetition_rule {
    uint32_t cycles;           /* 0: never look; else at least 2 */
    uint32_t cycle_tokens_max; /* 1 .. REPETITION_CYCLE_TOKENS_MAX */
    uint32_t tokens_min;       /* of all turns together */
};

struct repetition {
    struct repetition_rule rule;
    uint32_t count; /* tokens seen */
    /* For cycle length i + 1: how many of the last tokens equal the one that stood so far
     * before. */
    uint32_t equal[REPETITION_CYCLE_TOKENS_MAX];
};

bool repetition_rule_is_valid(const struct repetition_rule *rule);

/* The rule must be valid. Zeroed memory is a watch that never looks. */
void repetition_init(struct repetition *repetition, const struct repetition_rule *rule);

/* Takes in the newest of `count` tokens; they are those of earlier calls and one more. True when
 * they end in a repetition. */
bool repetition_add(struct repetition *repetition, const int32_t *tokens, uint32_t count);

#endif
