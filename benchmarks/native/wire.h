/* Bytes of Kafka's protocol: a growing writer and a bounds-checked reader, big-endian. */
#ifndef WIRE_H
#define WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

struct bytes {
    uint8_t *data;
    size_t length, capacity;
};

static inline void reserve(struct bytes *b, size_t more) {
    if (b->length + more <= b->capacity)
        return;
    while (b->length + more > b->capacity)
        b->capacity = b->capacity ? b->capacity * 2 : 256;
    b->data = realloc(b->data, b->capacity);
    if (!b->data)
        die("out of memory");
}

static inline void put(struct bytes *b, const void *data, size_t length) {
    reserve(b, length);
    memcpy(b->data + b->length, data, length);
    b->length += length;
}

static inline void put_i8(struct bytes *b, int8_t value) { put(b, &value, 1); }

static inline void put_i16(struct bytes *b, int16_t value) {
    uint16_t wire = htobe16((uint16_t)value);
    put(b, &wire, 2);
}

static inline void put_i32(struct bytes *b, int32_t value) {
    uint32_t wire = htobe32((uint32_t)value);
    put(b, &wire, 4);
}

static inline void put_i64(struct bytes *b, int64_t value) {
    uint64_t wire = htobe64((uint64_t)value);
    put(b, &wire, 8);
}

static inline void put_varint(struct bytes *b, uint32_t value) {
    for (; value >= 0x80; value >>= 7)
        put_i8(b, (int8_t)(value | 0x80));
    put_i8(b, (int8_t)value);
}

static inline void put_string(struct bytes *b, const char *text) {
    put_i16(b, (int16_t)strlen(text));
    put(b, text, strlen(text));
}

static inline void put_compact_string(struct bytes *b, const char *text) {
    put_varint(b, (uint32_t)strlen(text) + 1);
    put(b, text, strlen(text));
}

static inline void patch_i32(struct bytes *b, size_t at, int32_t value) {
    uint32_t wire = htobe32((uint32_t)value);
    memcpy(b->data + at, &wire, 4);
}

/* Reading past the end gives zeros and clears `ok`, which is looked at once, after the last field. */
struct reader {
    const uint8_t *at, *end;
    bool ok;
};

static inline const uint8_t *take(struct reader *r, size_t length) {
    static const uint8_t zeros[8];
    if (!r->ok || (size_t)(r->end - r->at) < length) {
        r->ok = false;
        return length <= sizeof zeros ? zeros : NULL;
    }
    r->at += length;
    return r->at - length;
}

static inline int8_t get_i8(struct reader *r) { return (int8_t)*take(r, 1); }

static inline int16_t get_i16(struct reader *r) {
    uint16_t wire;
    memcpy(&wire, take(r, 2), 2);
    return (int16_t)be16toh(wire);
}

static inline int32_t get_i32(struct reader *r) {
    uint32_t wire;
    memcpy(&wire, take(r, 4), 4);
    return (int32_t)be32toh(wire);
}

static inline uint32_t get_varint(struct reader *r) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)get_i8(r);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return value;
}

static inline void skip(struct reader *r, int64_t length) {
    if (length > 0)
        take(r, (size_t)length);
}

/* Copies a nullable string into `text`, cut to its size; null becomes "". */
static inline void get_text(struct reader *r, int64_t length, char *text, size_t size) {
    text[0] = 0;
    const uint8_t *data = length > 0 ? take(r, (size_t)length) : NULL;
    if (data && r->ok)
        snprintf(text, size, "%.*s", (int)length, (const char *)data);
}

#endif
