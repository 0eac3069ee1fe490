#include "consumer/redis_address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char redis_address_forms[] =
    "write redis://[user:password@]host[:port][/db] or the path of a unix socket";

static int redis_address_hex(char digit) {
    return isdigit((unsigned char)digit)    ? digit - '0'
           : isxdigit((unsigned char)digit) ? tolower((unsigned char)digit) - 'a' + 10
                                            : -1;
}

/* Copies a part, turning %XX into bytes; false when it is too long or an escape is malformed. */
static bool redis_address_copy(const char *from, size_t bytes, char *out, size_t out_bytes) {
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        char byte = from[i];
        if (byte == '%') {
            int high = i + 2 < bytes ? redis_address_hex(from[i + 1]) : -1;
            int low = i + 2 < bytes ? redis_address_hex(from[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            byte = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= out_bytes || byte == '\0') {
            return false;
        }
        out[used++] = byte;
    }
    out[used] = '\0';
    return true;
}

/* A number without sign or blanks that takes up the whole part. */
static bool redis_address_number(const char *from, size_t bytes, int max, int *out) {
    int value = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (!isdigit((unsigned char)from[i]) || value > max) {
            return false;
        }
        value = value * 10 + (from[i] - '0');
    }
    *out = value;
    return bytes > 0 && value <= max;
}

static bool redis_address_take_login(const char *login, size_t bytes, struct redis_address *out) {
    const char *colon = memchr(login, ':', bytes);
    size_t user_bytes = colon ? (size_t)(colon - login) : bytes;
    if (!redis_address_copy(login, user_bytes, out->user, sizeof out->user)) {
        return false;
    }
    return !colon || redis_address_copy(colon + 1, bytes - user_bytes - 1, out->password,
                                        sizeof out->password);
}

static bool redis_address_take_host(const char *place, size_t bytes, struct redis_address *out) {
    const char *host = place;
    const char *end = place + bytes;
    const char *host_end;
    if (bytes && place[0] == '[') {
        host = place + 1;
        host_end = memchr(place, ']', bytes);
        place = host_end ? host_end + 1 : end;
    } else {
        host_end = memchr(place, ':', bytes);
        host_end = host_end ? host_end : end;
        place = host_end;
    }
    if (!host_end || host_end == host || (size_t)(host_end - host) >= sizeof out->host) {
        return false;
    }
    memcpy(out->host, host, (size_t)(host_end - host));
    out->host[host_end - host] = '\0';
    if (place == end) {
        return true;
    }
    return place[0] == ':' &&
           redis_address_number(place + 1, (size_t)(end - place - 1), 65535, &out->port) &&
           out->port > 0;
}

bool redis_address_parse(const char *text, struct redis_address *out, char *err, size_t err_bytes) {
    *out = (struct redis_address){.port = REDIS_ADDRESS_PORT_DEFAULT};
    if (text[0] == '/') {
        snprintf(out->socket_path, sizeof out->socket_path, "%s", text);
        if (strlen(text) < sizeof out->socket_path) {
            return true;
        }
        snprintf(err, err_bytes, "the path of the Redis socket is longer than %zu bytes",
                 sizeof out->socket_path - 1);
        return false;
    }
    const char *scheme_end = strstr(text, "://");
    const char *rest = scheme_end ? scheme_end + 3 : text;
    if (scheme_end && strncmp(text, "redis://", 8) != 0) {
        snprintf(err, err_bytes, "Redis address: the scheme %.*s is not supported (no TLS); %s",
                 (int)(scheme_end - text), text, redis_address_forms);
        return false;
    }
    const char *slash = strchr(rest, '/');
    size_t place_bytes = slash ? (size_t)(slash - rest) : strlen(rest);
    const char *at = memrchr(rest, '@', place_bytes);
    const char *place = at ? at + 1 : rest;
    bool ok = !at || redis_address_take_login(rest, (size_t)(at - rest), out);
    ok = ok && redis_address_take_host(place, place_bytes - (size_t)(place - rest), out);
    if (ok && slash && slash[1]) {
        ok = redis_address_number(slash + 1, strlen(slash + 1), REDIS_ADDRESS_DATABASE_MAX,
                                  &out->database);
    }
    if (!ok) {
        /* The text may hold a password: it is not repeated. */
        snprintf(err, err_bytes, "malformed Redis address; %s", redis_address_forms);
    }
    return ok;
}

void redis_address_print(const struct redis_address *address, char *out, size_t out_bytes) {
    if (address->socket_path[0]) {
        snprintf(out, out_bytes, "%s", address->socket_path);
        return;
    }
    bool v6 = strchr(address->host, ':') != NULL;
    int used = snprintf(out, out_bytes, "redis://%s%s%s:%d", v6 ? "[" : "", address->host,
                        v6 ? "]" : "", address->port);
    if (address->database && used > 0 && (size_t)used < out_bytes) {
        snprintf(out + used, out_bytes - (size_t)used, "/%d", address->database);
    }
}
