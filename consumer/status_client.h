/* A status client: how a client writes `queued` (also anew, where a job is sent again), reads
 * statuses and hears of their changes in Redis.
 *
 * Two connections: one for commands, one (opened by status_client_subscribe) for events. Blocking,
 * each wait bounded by the time-out given at opening. One thread. Owns its connections; a
 * connection that broke is opened anew by the next call, subscriptions included. Refuses to know
 * Kafka, and every write but `queued` and `cancel_requested`: all else is the workers' affair. */
#ifndef SOLFLEET_CONSUMER_STATUS_CLIENT_H
#define SOLFLEET_CONSUMER_STATUS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/status.h"

struct status_client;

enum status_client_status {
    STATUS_CLIENT_OK = 0,
    STATUS_CLIENT_NONE,        /* no event now */
    STATUS_CLIENT_UNREACHABLE, /* refused, reset, or silent beyond the time-out: try again */
    STATUS_CLIENT_BAD_SETTING, /* the address is malformed */
    STATUS_CLIENT_REFUSED /* Redis answered with an error: wrong password, cluster, read-only */
};

/* Neither `address` nor `prefix` is kept. Connects at once. */
enum status_client_status status_client_open(const char *address, const char *prefix,
                                             int64_t timeout_ms, struct status_client **out,
                                             char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
void status_client_close(struct status_client *client); /* accepts NULL */

/* Writes `queued` for ids that have no status yet, with a life of ttl_s. created[i] says whether
 * ids[i] had none. */
enum status_client_status status_client_queue(struct status_client *client, const char *const *ids,
                                              size_t count, int64_t now_unix_ms, int64_t ttl_s,
                                              bool *created, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* A record that failed is to be worked on once more. */
struct status_client_renewal {
    const char *id;
    const char *error_code;  /* the status failed by this, */
    const char *fingerprint; /* and this record's value did: hex sha256 */
    const char *mark;        /* who renews: the same one may do so again while it is queued */
};

enum status_client_renewed {
    STATUS_CLIENT_RENEWED, /* `queued`, as a client would have written it */
    STATUS_CLIENT_ABSENT,  /* there is no status, which is as good */
    STATUS_CLIENT_HELD     /* left as it is: another record's, or not failed, or by another code */
};

/* On OK *renewed says what became of the status, and *state (HELD) what it is. */
enum status_client_status
status_client_renew(struct status_client *client, const struct status_client_renewal *renewal,
                    int64_t now_unix_ms, int64_t ttl_s, enum status_client_renewed *renewed,
                    enum status_state *state, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Reads the status of each id; on OK the caller deinits out[0..count-1]. An absent key gives
 * STATUS_UNKNOWN; a hash that is no status is REFUSED. */
enum status_client_status status_client_read(struct status_client *client, const char *const *ids,
                                             size_t count, struct status *out, char *err,
                                             size_t err_bytes) __attribute__((warn_unused_result));

/* Asks for each id to be cancelled: in its status, which then lives for ttl_s at least, and on the
 * control channel. states[i] is the state that it met: what has ended stays as it is; one that is
 * unknown is cancelled if it comes. */
enum status_client_status
status_client_cancel(struct status_client *client, const char *const *ids, size_t count,
                     int64_t ttl_s, enum status_state *states, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* From now on, changes of these ids come as events; OK when Redis has confirmed every one. */
enum status_client_status status_client_subscribe(struct status_client *client,
                                                  const char *const *ids, size_t count, char *err,
                                                  size_t err_bytes)
    __attribute__((warn_unused_result));

/* Readable when an event may be waiting; -1 when not subscribed. */
int status_client_event_fd(const struct status_client *client);

/* Takes the id of one event, without waiting. UNREACHABLE: subscribe again. */
enum status_client_status status_client_take_event(struct status_client *client,
                                                   char id[JOB_ID_BYTES_MAX + 1], char *err,
                                                   size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
