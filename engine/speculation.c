#include "engine/speculation.h"

#include <string.h>

#define SPECULATION_MATCH_LONG 3u  /* tokens that must be the same: tried first */
#define SPECULATION_MATCH_SHORT 2u /* then these */
#define SPECULATION_LENGTH_FIRST 2u
#define SPECULATION_MISSES_MAX 2u    /* from then on it rests */
#define SPECULATION_REST_STEPS 8u    /* doubles with each miss … */
#define SPECULATION_REST_DOUBLINGS 4 /* … so often at most */

/* Where the last `match` tokens stood before, most recently: the index behind them; 0 = nowhere. */
static uint32_t speculation_look_up(const int32_t *tokens, uint32_t count, uint32_t match) {
    const int32_t *end = tokens + count - match;
    for (uint32_t at = count - 1; at >= match; at--) {
        if (tokens[at - 1] == end[match - 1] &&
            memcmp(tokens + at - match, end, match * sizeof *tokens) == 0) {
            return at;
        }
    }
    return 0;
}

uint32_t speculation_find(const int32_t *tokens, uint32_t count, uint32_t most, int32_t *draft) {
    uint32_t behind = 0;
    for (uint32_t match = SPECULATION_MATCH_LONG; match >= SPECULATION_MATCH_SHORT && behind == 0;
         match--) {
        behind = count > match ? speculation_look_up(tokens, count, match) : 0;
    }
    if (behind == 0) {
        return 0;
    }
    /* A turn that is shorter than the draft goes on with itself. */
    uint32_t period = count - behind;
    for (uint32_t i = 0; i < most; i++) {
        draft[i] = i < period ? tokens[behind + i] : draft[i - period];
    }
    return most;
}

uint32_t speculation_next_length(struct speculation *speculation, uint32_t most) {
    uint32_t length = speculation->length > 0 ? speculation->length : SPECULATION_LENGTH_FIRST;
    if (speculation->rest_steps > 0) {
        speculation->rest_steps--;
        return 0;
    }
    return length < most ? length : most;
}

void speculation_learn(struct speculation *speculation, uint32_t drafted, uint32_t kept) {
    if (kept > 0) {
        speculation->misses = 0;
        speculation->length = kept == drafted ? drafted + 1 : kept;
        if (speculation->length > SPECULATION_TOKENS_MAX) {
            speculation->length = SPECULATION_TOKENS_MAX;
        }
        return;
    }
    speculation->length = 1;
    speculation->misses++;
    if (speculation->misses >= SPECULATION_MISSES_MAX) {
        uint32_t doublings = speculation->misses - SPECULATION_MISSES_MAX;
        doublings = doublings < SPECULATION_REST_DOUBLINGS ? doublings : SPECULATION_REST_DOUBLINGS;
        speculation->rest_steps = SPECULATION_REST_STEPS << doublings;
    }
}
