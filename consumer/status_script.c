#include "consumer/status_script.h"

#include <stddef.h>

/* What all begin with. A key of a wrong type must not take its neighbours along, hence pcall: its
 * error is that key's; any other (a replica without its master) is everybody's. Whatever stands in
 * a hash may have been written by anybody: a number is one or counts as 0. */
#define PROLOGUE                                                              \
    "local ttl, prefix, worker, me = ARGV[1], ARGV[2], ARGV[3], ARGV[4]\n"    \
    "local call = redis.call\n"                                               \
    "local terminal = {done = 1, failed = 1, expired = 1, cancelled = 1}\n"   \
    "local out = {}\n"                                                        \
    "local function tell(key, state)\n"                                       \
    "  local id = string.sub(key, #prefix + 5)\n" /* behind "<prefix>job:" */ \
    "  call('PUBLISH', prefix .. 'events:' .. id, state)\n"                   \
    "end\n"                                                                   \
    "local function is_odd(got) return string.find(got.err, 'WRONGTYPE', 1, true) end\n"

#define PUT                                                                       \
    "local function put(list, name, value)\n"                                     \
    "  if value ~= '' then list[#list + 1] = name; list[#list + 1] = value end\n" \
    "end\n"

#define CLOCK                                                   \
    "local time = call('TIME')\n"                               \
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n" \
    "local lease_until = string.format('%.0f', now + tonumber(ARGV[5]))\n"

/* What stands sealed, {code, more…, fields…}; nil when nothing whole does. */
#define OUTCOME                                                                   \
    "local function outcome(key, sealed, ...)\n"                                  \
    "  if not sealed or not terminal[sealed] then return nil end\n"               \
    "  local o = call('HMGET', key, 'finished_at', 'prompt_tokens',\n"            \
    "    'completion_tokens', 'error_code', 'error_message', 'text', 'result')\n" \
    "  if not o[7] then return nil end\n"                                         \
    "  local said = {...}\n"                                                      \
    "  said[#said + 1] = sealed\n"                                                \
    "  local n = #said\n"                                                         \
    "  for j = 1, 7 do said[n + j] = o[j] end\n"                                  \
    "  return said\n"                                                             \
    "end\n"

static const char status_script_release[] =
    PROLOGUE "for i, key in ipairs(KEYS) do\n"
             "  local attempt = ARGV[5 + i]\n"
             "  local got = redis.pcall('HMGET', key, 'owner', 'attempt')\n"
             "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
             "  elseif got[1] == me and (attempt == '0' or got[2] == attempt) then\n"
             "    call('HDEL', key, 'owner', 'claim', 'lease_until')\n"
             "    out[i] = 1\n"
             "  else out[i] = 0 end\n"
             "end\n"
             "return out\n";

static const char status_script_advance[] = PROLOGUE PUT
    "for i, key in ipairs(KEYS) do\n"
    "  local at = 5 * i + 1\n"
    "  local attempt = ARGV[at]\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'attempt', 'owner', 'running_attempt',\n"
    "    'sealed')\n"
    "  local state, current, owner = got[1], got[2], got[3]\n"
    "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
    "  elseif terminal[state] or terminal[got[5]] or (owner and owner ~= me)\n"
    "    or (attempt ~= '0' and current and current ~= attempt) then out[i] = 0\n"
    "  else\n"
    "    local list = {'state', 'running'}\n"
    "    if attempt ~= '0' then\n" /* one that is not known is not renewed either */
    "      if attempt ~= got[4] then put(list, 'running_attempt', attempt) end\n"
    "      if not current then put(list, 'attempt', attempt) end\n"
    "    end\n"
    "    if not owner then put(list, 'worker', worker) end\n"
    "    put(list, 'started_at', ARGV[at + 1])\n"
    "    put(list, 'prompt_tokens', ARGV[at + 2])\n"
    "    put(list, 'completion_tokens', ARGV[at + 3])\n"
    "    put(list, 'text', ARGV[at + 4])\n"
    "    call('HSET', key, unpack(list))\n"
    "    if not state then call('EXPIRE', key, ttl) end\n"
    "    tell(key, 'running')\n"
    "    out[i] = 1\n"
    "  end\n"
    "end\n"
    "return out\n";

/* A job that began and ended at once is never told to be running: its end is near, and an event
 * less is to be sent. Only where nothing stands at all (Redis restarted empty) it is. */
static const char status_script_seal[] = PROLOGUE PUT OUTCOME
    "local names = {'sealed', 'fingerprint', 'attempt', 'started_at', 'finished_at',\n"
    "  'prompt_tokens', 'completion_tokens', 'error_code', 'error_message', 'text', 'result'}\n"
    "for i, key in ipairs(KEYS) do\n"
    "  local at = 11 * i - 6\n"
    "  local fingerprint = ARGV[at + 2]\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'fingerprint', 'sealed', 'attempt')\n"
    "  local state, known = got[1], got[2]\n"
    "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
    "  elseif known and fingerprint ~= '' and known ~= fingerprint then out[i] = -1\n"
    "  elseif terminal[state] then out[i] = 0\n"
    "  else\n"
    "    out[i] = outcome(key, got[3], -5)\n"
    "    if not out[i] then\n"
    "      local list = {}\n"
    "      for n, name in ipairs(names) do\n"
    "        if (n ~= 2 or not known) and (n ~= 3 or not got[4])\n"
    "          and (n ~= 4 or state ~= 'running') then\n"
    "          put(list, name, ARGV[at + n])\n"
    "        end\n"
    "      end\n"
    "      if not state then put(list, 'state', 'running'); put(list, 'worker', worker) end\n"
    "      call('HSET', key, unpack(list))\n"
    "      if not state then call('EXPIRE', key, ttl); tell(key, 'running') end\n"
    "      out[i] = 1\n"
    "    end\n"
    "  end\n"
    "end\n"
    "return out\n";

/* What another outcome left sealed goes first: a status never mixes two. The life of an owned key
 * began at its claim or its last renewal: that is near enough, and one command less. */
static const char status_script_finish[] = PROLOGUE PUT
    "local names = {'state', 'fingerprint', 'attempt', 'finished_at', 'prompt_tokens',\n"
    "  'completion_tokens', 'error_code', 'error_message', 'result_topic', 'result_partition',\n"
    "  'result_offset', 'text'}\n"
    "for i, key in ipairs(KEYS) do\n"
    "  local at = 14 * i - 9\n"
    "  local state, fingerprint, keep = ARGV[at + 1], ARGV[at + 2], ARGV[at + 13]\n"
    "  if keep == '2' and ARGV[at + 14] ~= '' then keep = '1' end\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'fingerprint', 'sealed', 'owner')\n"
    "  local known, sealed, owner = got[2], got[3], got[4]\n"
    "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
    "  elseif known and fingerprint ~= '' and known ~= fingerprint then out[i] = -1\n"
    "  elseif terminal[got[1]] then out[i] = 0\n"
    "  elseif keep == '2' and not sealed then out[i] = -3\n"
    "  else\n"
    "    if keep == '2' then\n"
    "      local topic = ARGV[at + 9]\n"
    "      if topic == '' then call('HSET', key, 'state', state)\n"
    "      else call('HSET', key, 'state', state, 'result_topic', topic,\n"
    "        'result_partition', ARGV[at + 10], 'result_offset', ARGV[at + 11]) end\n"
    "    else\n"
    "      if sealed then call('HDEL', key, 'error_code', 'error_message', 'text', 'result') end\n"
    "      local list = {}\n"
    "      for n, name in ipairs(names) do put(list, name, ARGV[at + n]) end\n"
    "      if keep == '1' then put(list, 'result', ARGV[at + 14]) end\n"
    "      if not owner then put(list, 'worker', worker) end\n"
    "      call('HSET', key, unpack(list))\n"
    "    end\n"
    "    if owner or sealed then\n"
    "      call('HDEL', key, 'owner', 'claim', 'lease_until', 'sealed', 'running_attempt')\n"
    "    end\n"
    "    if not owner then call('EXPIRE', key, ttl) end\n"
    "    tell(key, state)\n"
    "    out[i] = 1\n"
    "  end\n"
    "end\n"
    "return out\n";

/* Of several results of one id, the first counts. But where a replay came between, `failed` stands
 * before the answer: written by a repair, nobody has relied on it yet. */
static const char status_script_repair[] = PROLOGUE PUT
    "local names = {'state', 'fingerprint', 'attempt', 'finished_at', 'prompt_tokens',\n"
    "  'completion_tokens', 'error_code', 'error_message', 'result_topic', 'result_partition',\n"
    "  'result_offset', 'text'}\n"
    "local function number(text) return tonumber(text or '') or 0 end\n"
    "for i, key in ipairs(KEYS) do\n"
    "  local at = 14 * i - 9\n"
    "  local state, fingerprint = ARGV[at + 1], ARGV[at + 2]\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'fingerprint', 'sealed', 'replayed',\n"
    "    'queued_at', 'repaired', 'result_topic', 'result_partition', 'result_offset')\n"
    "  local was, known, sealed = got[1], got[2], got[3]\n"
    "  local redone = was == 'failed' and state ~= 'failed' and got[6]\n"
    "    and got[7] == ARGV[at + 9] and got[8] == ARGV[at + 10]\n"
    "    and number(got[9]) < number(ARGV[at + 11])\n"
    "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
    "  elseif known and fingerprint ~= '' and known ~= fingerprint then out[i] = -1\n"
    "  elseif terminal[was] and not redone then out[i] = 0\n"
    "  elseif not redone and got[4] and number(got[5]) > number(ARGV[at + 4]) then out[i] = 0\n"
    "  else\n"
    "    call('HDEL', key, 'owner', 'claim', 'lease_until', 'sealed', 'running_attempt')\n"
    "    if sealed or redone then\n"
    "      call('HDEL', key, 'error_code', 'error_message', 'text', 'result')\n"
    "    end\n"
    "    local list = {'repaired', '1'}\n"
    "    for n, name in ipairs(names) do put(list, name, ARGV[at + n]) end\n"
    "    if ARGV[at + 13] == '1' then put(list, 'result', ARGV[at + 14]) end\n"
    "    call('HSET', key, unpack(list))\n"
    "    call('EXPIRE', key, ttl)\n"
    "    tell(key, state)\n"
    "    out[i] = 1\n"
    "  end\n"
    "end\n"
    "return out\n";

/* A lease that is gone with its key (Redis restarted empty) is made again. */
static const char status_script_renew[] = PROLOGUE CLOCK
    "for i, key in ipairs(KEYS) do\n"
    "  local attempt = ARGV[5 + i]\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'attempt', 'owner', 'cancel_requested')\n"
    "  local state, current, owner = got[1], got[2], got[3]\n"
    "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
    "  elseif terminal[state] or (owner and owner ~= me)\n"
    "    or (attempt ~= '0' and current and current ~= attempt) then out[i] = 0\n"
    "  else\n"
    "    if owner then call('HSET', key, 'lease_until', lease_until)\n"
    "    else call('HSET', key, 'owner', me, 'worker', worker, 'lease_until', lease_until) end\n"
    "    if not current and attempt ~= '0' then call('HSET', key, 'attempt', attempt) end\n"
    "    if not state then\n"
    "      call('HSET', key, 'state', 'queued')\n"
    "      tell(key, 'queued')\n"
    "    end\n"
    "    call('EXPIRE', key, ttl)\n"
    "    out[i] = got[4] and 2 or 1\n"
    "  end\n"
    "end\n"
    "return out\n";

/* Another incarnation of our own name is dead: one name, one process. Whoever takes over from an
 * owner that neither gave back nor is alive counts a death if that attempt had begun to run. */
static const char status_script_claim[] = PROLOGUE CLOCK OUTCOME
    "local mine = worker .. '/'\n"
    "local function count(text)\n"
    "  local n = tonumber(text)\n"
    "  return n and n > 0 and n < 2147483000 and math.floor(n) or 0\n"
    "end\n"
    "local function left(owner, lease)\n"
    "  if not owner or owner == me or string.sub(owner, 1, #mine) == mine then return 0 end\n"
    "  return math.min(math.ceil((tonumber(lease or 0) or 0) - now), 2147483647)\n"
    "end\n"
    "for i, key in ipairs(KEYS) do\n"
    "  local at = 4 * i + 1\n"
    "  local claim, fingerprint = ARGV[at + 1], ARGV[at + 2]\n"
    "  local got = redis.pcall('HMGET', key, 'state', 'fingerprint', 'owner', 'claim',\n"
    "    'lease_until', 'attempt', 'deaths', 'running_attempt', 'sealed', 'cancel_requested')\n"
    "  local state, known, owner, attempt = got[1], got[2], got[3], got[6]\n"
    "  if got.err then if not is_odd(got) then return got end; out[i] = -2\n"
    "  elseif known and known ~= fingerprint then out[i] = -1\n"
    "  elseif terminal[state] then out[i] = 0\n"
    "  elseif ARGV[at + 3] == 'queued' and state ~= 'queued' then out[i] = -2\n"
    "  elseif owner == me and got[4] ~= claim then out[i] = {-7, count(attempt)}\n"
    "  else\n"
    "    local lease_left = left(owner, got[5])\n"
    "    if lease_left > 0 then out[i] = {-8, lease_left}\n"
    "    else\n"
    "      local n, deaths, cancel = count(attempt), count(got[7]), got[10] and 1 or 0\n"
    "      local sealed = outcome(key, got[9], -5, n, deaths, cancel)\n"
    "      if sealed then\n"
    "        n = math.max(n, 1)\n"
    "        sealed[2] = n\n"
    "      elseif owner ~= me then\n"
    "        n = n + 1\n"
    "        if owner and attempt and attempt == got[8] then\n"
    "          deaths = deaths + 1\n"
    "          call('HSET', key, 'deaths', deaths)\n"
    "        end\n"
    "      end\n"
    "      if state then\n"
    "        call('HSET', key, 'fingerprint', fingerprint, 'worker', worker, 'owner', me,\n"
    "          'claim', claim, 'lease_until', lease_until, 'attempt', n)\n"
    "      else\n"
    "        call('HSET', key, 'state', 'queued', 'queued_at', ARGV[at + 4],\n"
    "          'fingerprint', fingerprint, 'worker', worker, 'owner', me,\n"
    "          'claim', claim, 'lease_until', lease_until, 'attempt', n)\n"
    "        tell(key, 'queued')\n"
    "      end\n"
    "      call('EXPIRE', key, ttl)\n"
    "      if sealed then out[i] = sealed\n"
    "      elseif deaths >= 3 then out[i] = {-6, n, deaths, cancel}\n"
    "      elseif deaths > 0 or cancel == 1 then out[i] = {-4, n, deaths, cancel}\n"
    "      else out[i] = n end\n"
    "    end\n"
    "  end\n"
    "end\n"
    "return out\n";

const char *status_script_text(enum status_script script) {
    switch (script) {
    case STATUS_SCRIPT_RELEASE: return status_script_release;
    case STATUS_SCRIPT_ADVANCE: return status_script_advance;
    case STATUS_SCRIPT_SEAL: return status_script_seal;
    case STATUS_SCRIPT_FINISH: return status_script_finish;
    case STATUS_SCRIPT_REPAIR: return status_script_repair;
    case STATUS_SCRIPT_RENEW: return status_script_renew;
    case STATUS_SCRIPT_CLAIM: return status_script_claim;
    }
    return NULL;
}

uint32_t status_script_args_per_key(enum status_script script) {
    switch (script) {
    case STATUS_SCRIPT_RELEASE: return 1;
    case STATUS_SCRIPT_ADVANCE: return 5;
    case STATUS_SCRIPT_SEAL: return 11;
    case STATUS_SCRIPT_FINISH:
    case STATUS_SCRIPT_REPAIR: return 14;
    case STATUS_SCRIPT_RENEW: return 1;
    case STATUS_SCRIPT_CLAIM: return 4;
    }
    return 0;
}
