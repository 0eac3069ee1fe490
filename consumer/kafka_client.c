#include "consumer/kafka_client.h"

#include <librdkafka/rdkafka.h>

enum kafka_client_status kafka_client_status_of(int error) {
    switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR: return KAFKA_CLIENT_OK;
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION: /* it has only just been made, or moved */
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION: return KAFKA_CLIENT_UNREACHABLE;
    default: return KAFKA_CLIENT_REFUSED;
    }
}
