#include "consumer/topic_list.h"

#include <stdio.h>
#include <string.h>

bool topic_list_read(struct topic_list *list, const char *text, char *err, size_t err_bytes) {
    list->count = 0;
    for (const char *at = text;; at++) {
        size_t bytes = strcspn(at, ",");
        char name[TOPIC_LIST_NAME_BYTES];
        if (bytes == 0 || bytes >= sizeof name || list->count == TOPIC_LIST_MAX) {
            snprintf(err, err_bytes,
                     "'%.200s' is no list of 1 to %d topics with commas between, "
                     "each of up to %d "
                     "characters",
                     text, TOPIC_LIST_MAX, TOPIC_LIST_NAME_BYTES - 1);
            return false;
        }
        memcpy(name, at, bytes);
        name[bytes] = '\0';
        if (topic_list_find(list, name) >= 0) {
            snprintf(err, err_bytes, "topic '%s' stands twice in '%.200s'", name, text);
            return false;
        }
        memcpy(list->names[list->count++], name, bytes + 1);
        at += bytes;
        if (*at == '\0') {
            return true;
        }
    }
}

int32_t topic_list_find(const struct topic_list *list, const char *name) {
    for (int32_t i = 0; i < list->count; i++) {
        if (strcmp(list->names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

int32_t topic_list_number(const struct topic_list *list, int32_t index, int32_t partition) {
    return partition * list->count + index;
}

int32_t topic_list_index(const struct topic_list *list, int32_t number) {
    return number % list->count;
}

int32_t topic_list_partition(const struct topic_list *list, int32_t number) {
    return number / list->count;
}

const char *topic_list_name(const struct topic_list *list, int32_t number) {
    return list->names[topic_list_index(list, number)];
}
