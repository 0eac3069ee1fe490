#include "consumer/status_refusal.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *code;
    struct status_refusal refusal;
} refusals[] = {
    {"NOSCRIPT", {STATUS_REFUSAL_NO_SCRIPT, ""}},
    {"OOM", {STATUS_REFUSAL_PASSING, "raise maxmemory or lower status_ttl_s"}},
    {"READONLY", {STATUS_REFUSAL_PASSING, "this is a replica: give the master's address"}},
    {"LOADING", {STATUS_REFUSAL_PASSING, ""}},
    {"BUSY", {STATUS_REFUSAL_PASSING, "somebody's script holds the server"}},
    {"MISCONF", {STATUS_REFUSAL_PASSING, "the server cannot save to its disk"}},
    {"MASTERDOWN", {STATUS_REFUSAL_PASSING, "this is a replica without its master"}},
    {"NOREPLICAS", {STATUS_REFUSAL_PASSING, "the server waits for its replicas"}},
    {"TRYAGAIN", {STATUS_REFUSAL_PASSING, ""}},
    {"MOVED", {STATUS_REFUSAL_LASTING, "Redis Cluster is not supported: give a single server"}},
    {"ASK", {STATUS_REFUSAL_LASTING, "Redis Cluster is not supported: give a single server"}},
    {"CROSSSLOT", {STATUS_REFUSAL_LASTING, "Redis Cluster is not supported: give a single server"}},
    {"CLUSTERDOWN",
     {STATUS_REFUSAL_LASTING, "Redis Cluster is not supported: give a single server"}},
    {"NOAUTH", {STATUS_REFUSAL_LASTING, "give redis://user:password@host:port"}},
    {"WRONGPASS", {STATUS_REFUSAL_LASTING, "give redis://user:password@host:port"}},
    {"NOPERM",
     {STATUS_REFUSAL_LASTING, "its user needs the keys and channels of the prefix, "
                              "evalsha, script|load and what the scripts call"}}};

struct status_refusal status_refusal_of(const char *error) {
    size_t code_bytes = strcspn(error, " ");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (strlen(refusals[i].code) == code_bytes &&
            memcmp(refusals[i].code, error, code_bytes) == 0) {
            return refusals[i].refusal;
        }
    }
    return (struct status_refusal){.kind = STATUS_REFUSAL_LASTING, .advice = ""};
}
