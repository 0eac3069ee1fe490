/* Speculation: a guess at an answer's next tokens from what was said before, and whether guessing
 * pays. Solutions repeat the statement's code and names, and their own.
 *
 * A draft is what followed the last occurrence of the tokens that the sequence ends with now
 * (prompt lookup: Saxena 2023). It is computed in the same pass as the token before it and kept as
 * far as it equals what is drawn: the answer is the same with and without, only sooner.
 *
 * Pure; one thread. Refuses to know models, pages and how a draft is verified. */
#ifndef SOLFLEET_ENGINE_SPECULATION_H
#define SOLFLEET_ENGINE_SPECULATION_H

#include <stdint.h>

#define SPECULATION_TOKENS_MAX 16 /* of a draft */

/* What one sequence has learnt of its drafts. All zero to begin with. */
struct speculation {
    uint32_t length;     /* of the next draft, 0: the least */
    uint32_t misses;     /* drafts in a row of which nothing was kept */
    uint32_t rest_steps; /* to be left without a draft */
};

/* A draft of up to `most` tokens after tokens[count]; how many there are. */
uint32_t speculation_find(const int32_t *tokens, uint32_t count, uint32_t most, int32_t *draft);

/* How long the next draft may be, at most `most`; counts a step. */
uint32_t speculation_next_length(struct speculation *speculation, uint32_t most);
/* Of a draft of `drafted` > 0 tokens so many were kept: longer while all are, shorter and at last
 * seldom while none is. */
void speculation_learn(struct speculation *speculation, uint32_t drafted, uint32_t kept);

#endif
