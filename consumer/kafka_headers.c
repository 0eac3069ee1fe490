#include "consumer/kafka_headers.h"

size_t kafka_headers_read(const rd_kafka_message_t *message, struct record_header *headers,
                          size_t max) {
    rd_kafka_headers_t *list = NULL;
    size_t count = 0;
    if (rd_kafka_message_headers(message, &list) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return 0;
    }
    while (count < max &&
           rd_kafka_header_get_all(list, count, &headers[count].name, &headers[count].value,
                                   &headers[count].value_bytes) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        count++;
    }
    return count;
}
