#include "consumer/status_script.h"

#include <stddef.h>

/* What all begin with. A key of a wrong type must not take its neighbours along, hence pcall. */
#define PROLOGUE                                                                  \
    "local ttl, prefix, worker = ARGV[1], ARGV[2], ARGV[3]\n"                     \
    "local terminal = {done = 1, failed = 1, expired = 1, cancelled = 1}\n"       \
    "local out = {}\n"                                                            \
    "local function changed(key, state)\n"                                        \
    "  redis.call('EXPIRE', key, ttl)\n"                                          \
    "  local id = string.sub(key, #prefix + 5)\n" /* behind "<prefix>job:" */     \
    "  redis.call('PUBLISH', prefix .. 'events:' .. id, state)\n"                 \
    "end\n"                                                                       \
    "local function put(list, name, value)\n"                                     \
    "  if value ~= '' then list[#list + 1] = name; list[#list + 1] = value end\n" \
    "end\n"

static const char status_script_claim[] = PROLOGUE
    "for i, key in ipairs(KEYS) do\n"
    "  local fingerprint, mode, queued_at = ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3]\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'fingerprint')\n"
    "  local state, known = got[1], got[2]\n"
    "  if got.err then out[i] = -2\n"
    "  elseif known and known ~= fingerprint then out[i] = -1\n"
    "  elseif state and terminal[state] then out[i] = 0\n"
    "  elseif mode == 'queued' and state ~= 'queued' then out[i] = -2\n"
    "  else\n"
    "    if state then redis.call('HSET', key, 'fingerprint', fingerprint, 'worker', worker)\n"
    "    else redis.call('HSET', key, 'state', 'queued', 'queued_at', queued_at,\n"
    "                    'fingerprint', fingerprint, 'worker', worker) end\n"
    "    out[i] = redis.call('HINCRBY', key, 'attempt', 1)\n"
    "    if state then redis.call('EXPIRE', key, ttl) else changed(key, 'queued') end\n"
    "  end\n"
    "end\n"
    "return out\n";

static const char status_script_advance[] =
    PROLOGUE "for i, key in ipairs(KEYS) do\n"
             "  local at = 5 * i - 1\n"
             "  local attempt = ARGV[at]\n"
             "  local got = redis.pcall('HMGET', key, 'state', 'attempt')\n"
             "  local state, current = got[1], got[2]\n"
             "  if got.err then out[i] = -2\n"
             "  elseif state and terminal[state] then out[i] = 0\n"
             "  elseif attempt ~= '0' and current and current ~= attempt then out[i] = 0\n"
             "  else\n"
             "    local list = {'state', 'running', 'worker', worker}\n"
             "    put(list, 'started_at', ARGV[at + 1])\n"
             "    put(list, 'prompt_tokens', ARGV[at + 2])\n"
             "    put(list, 'completion_tokens', ARGV[at + 3])\n"
             "    put(list, 'text', ARGV[at + 4])\n"
             "    redis.call('HSET', key, unpack(list))\n"
             "    changed(key, 'running')\n"
             "    out[i] = 1\n"
             "  end\n"
             "end\n"
             "return out\n";

static const char status_script_finish[] = PROLOGUE
    "local names = {'state', 'fingerprint', 'attempt', 'finished_at', 'prompt_tokens',\n"
    "  'completion_tokens', 'error_code', 'error_message', 'result_topic', 'result_partition',\n"
    "  'result_offset', 'text', 'result'}\n"
    "for i, key in ipairs(KEYS) do\n"
    "  local at = 3 + 13 * (i - 1)\n"
    "  local got = redis.pcall('HMGET', key, 'state')\n"
    "  if got.err then out[i] = -2\n"
    "  elseif got[1] and terminal[got[1]] then out[i] = 0\n"
    "  else\n"
    "    local list = {'worker', worker}\n"
    "    for n, name in ipairs(names) do put(list, name, ARGV[at + n]) end\n"
    "    redis.call('HSET', key, unpack(list))\n"
    "    changed(key, ARGV[at + 1])\n"
    "    out[i] = 1\n"
    "  end\n"
    "end\n"
    "return out\n";

const char *status_script_text(enum status_script script) {
    switch (script) {
    case STATUS_SCRIPT_CLAIM: return status_script_claim;
    case STATUS_SCRIPT_ADVANCE: return status_script_advance;
    case STATUS_SCRIPT_FINISH: return status_script_finish;
    }
    return NULL;
}

uint32_t status_script_args_per_key(enum status_script script) {
    switch (script) {
    case STATUS_SCRIPT_CLAIM: return 3;
    case STATUS_SCRIPT_ADVANCE: return 5;
    case STATUS_SCRIPT_FINISH: return 13;
    }
    return 0;
}
