#include "consumer/status_control.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_command.h"
#include "consumer/status_link.h"
#include "schemas/status.h"

#define CHANNEL_BYTES 160

struct status_control {
    struct status_link *link;
    char channel[CHANNEL_BYTES];
    uint64_t subscribed; /* the connection that has been told */
};

bool status_control_open(const struct status_control_options *options, struct status_control **out,
                         char *err, size_t err_bytes) {
    struct status_control *control = calloc(1, sizeof *control);
    const struct status_link_options link = {.address = options->address,
                                             .greeting_timeout_ms = options->greeting_timeout_ms,
                                             .clock = options->clock};
    assert(control != NULL);
    if (!status_control_channel(control->channel, sizeof control->channel, options->prefix)) {
        snprintf(err, err_bytes, "the key prefix is too long");
    } else if (status_link_open(&link, &control->link, err, err_bytes)) {
        *out = control;
        return true;
    }
    free(control);
    return false;
}

void status_control_close(struct status_control *control) {
    if (control != NULL) {
        status_link_close(control->link);
        free(control);
    }
}

struct pollfd status_control_pollfd(const struct status_control *control) {
    return status_link_pollfd(control->link);
}

int64_t status_control_deadline_ns(const struct status_control *control) {
    return status_link_deadline_ns(control->link);
}

void status_control_handle(struct status_control *control, short revents) {
    status_link_handle(control->link, revents);
    uint64_t count = status_link_count(control->link);
    if (!status_link_is_up(control->link) || control->subscribed == count) {
        return;
    }
    struct status_command_bytes bytes = {0};
    status_command_words(&bytes, (const char *[]){"SUBSCRIBE", control->channel}, 2);
    status_link_append(control->link, bytes.data, bytes.size);
    free(bytes.data);
    control->subscribed = count;
    status_link_write(control->link);
}

/* "cancel ID"; anything else is for somebody of a later version. */
static bool status_control_read_cancel(const struct status_link_reply *reply,
                                       char request_id[JOB_ID_BYTES_MAX + 1]) {
    static const char order[] = "cancel ";
    const size_t order_bytes = sizeof order - 1;
    size_t size = 0;
    const char *text = status_link_text(reply, 2, 0, &size);
    if (text == NULL || size <= order_bytes || memcmp(text, order, order_bytes) != 0 ||
        !job_request_id_is_valid(text + order_bytes, size - order_bytes)) {
        return false;
    }
    memcpy(request_id, text + order_bytes, size - order_bytes);
    request_id[size - order_bytes] = '\0';
    return true;
}

bool status_control_take_cancel(struct status_control *control,
                                char request_id[JOB_ID_BYTES_MAX + 1]) {
    struct status_link_reply reply;
    while (status_link_next(control->link, &reply)) {
        if (reply.kind == STATUS_LINK_ERROR) {
            status_link_fail(control->link, reply.error); /* may not subscribe: tries again */
        } else if (status_control_read_cancel(&reply, request_id)) {
            return true;
        }
    }
    return false;
}
