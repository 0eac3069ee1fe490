/* A moment in the past as people write it: unix milliseconds, ISO 8601, or how long ago. Pure, any
 * thread. */
#ifndef SOLFLEET_CONSUMER_SINCE_H
#define SOLFLEET_CONSUMER_SINCE_H

#include <stdbool.h>
#include <stdint.h>

/* "1764450000000"; "2026-11-29", "2026-11-29T20:15", "2026-11-29T20:15:30.5+01:00" (UTC where no
 * zone is given); "90s", "15m", "2h", "7d". False when it is none of these, or lies after now. */
bool since_parse(const char *text, int64_t now_unix_ms, int64_t *unix_ms);

#endif
