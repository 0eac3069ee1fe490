#include "consumer/kafka_controller.h"

bool kafka_controller_is_among(rd_kafka_t *handle, const struct rd_kafka_metadata *found,
                               int timeout_ms) {
    int controller = rd_kafka_controllerid(handle, timeout_ms);
    for (int i = 0; i < found->broker_cnt; i++) {
        if (found->brokers[i].id == controller) {
            return true;
        }
    }
    return false;
}
