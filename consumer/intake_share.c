#include "consumer/intake_share.h"

#include <assert.h>

/* What each partition of a topic has for itself. */
static void intake_share_own(const struct intake_share_partition *partitions, size_t count,
                             uint32_t of_topic, uint32_t own[INTAKE_SHARE_TOPICS_MAX]) {
    uint32_t shares[INTAKE_SHARE_TOPICS_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        shares[partitions[i].topic]++;
    }
    for (uint32_t topic = 0; topic < INTAKE_SHARE_TOPICS_MAX; topic++) {
        own[topic] = shares[topic] > 0 ? of_topic / shares[topic] : 0;
        own[topic] = own[topic] > 0 ? own[topic] : 1;
    }
}

void intake_share_decide(struct intake_share_partition *partitions, size_t count,
                         uint32_t topic_count, uint32_t slots) {
    assert(topic_count > 0 && topic_count <= INTAKE_SHARE_TOPICS_MAX);
    uint32_t own[INTAKE_SHARE_TOPICS_MAX];
    uint32_t of_topic = slots / 2 / topic_count;
    uint64_t common = slots - of_topic * topic_count, used = 0;
    intake_share_own(partitions, count, of_topic, own);
    for (size_t i = 0; i < count; i++) {
        uint32_t its = own[partitions[i].topic];
        used += partitions[i].held > its ? partitions[i].held - its : 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct intake_share_partition *partition = &partitions[i];
        uint64_t limit = common * (topic_count - partition->topic) / topic_count;
        limit -= partition->is_shut ? limit / 8 : 0;
        partition->is_shut = partition->held >= own[partition->topic] && used >= limit;
    }
}
