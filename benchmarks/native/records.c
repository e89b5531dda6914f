#include "records.h"

#define PRODUCE 0
#define FETCH 1
#define PRODUCE_VERSION 9
#define FETCH_VERSION 12
#define VALUE_SIZE 1024
#define CRC_AT 17
#define CRC32C_POLYNOMIAL 0x82f63b78u

static uint32_t crc32c(const uint8_t *data, size_t length) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
    }
    return ~crc;
}

static void put_record(struct bytes *out, int number) {
    struct bytes body = {0};
    put_i8(&body, 0);                           /* attributes */
    put_varint(&body, 0);                       /* timestamp */
    put_varint(&body, (uint32_t)number * 2);    /* offset; these and the sizes are zigzag */
    put_varint(&body, 1);                       /* no key */
    put_varint(&body, VALUE_SIZE * 2);
    for (int i = 0; i < VALUE_SIZE; i++)
        put_i8(&body, (int8_t)random());
    put_varint(&body, 0); /* headers */
    put_varint(out, (uint32_t)body.length * 2);
    put(out, body.data, body.length);
    free(body.data);
}

/* The one batch that is produced again and again. */
static const struct bytes *batch(void) {
    static struct bytes made;
    if (made.length)
        return &made;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t timestamp = (int64_t)now.tv_sec * 1000;
    put_i64(&made, 0);  /* base offset */
    put_i32(&made, 0);  /* size, below */
    put_i32(&made, -1); /* leader epoch */
    put_i8(&made, 2);   /* magic */
    put_i32(&made, 0);  /* CRC, below */
    put_i16(&made, 0);  /* attributes */
    put_i32(&made, RECORDS_OF_BATCH - 1);
    put_i64(&made, timestamp);
    put_i64(&made, timestamp);
    put_i64(&made, -1); /* producer id */
    put_i16(&made, -1); /* producer epoch */
    put_i32(&made, -1); /* sequence */
    put_i32(&made, RECORDS_OF_BATCH);
    for (int number = 0; number < RECORDS_OF_BATCH; number++)
        put_record(&made, number);
    patch_i32(&made, 8, (int32_t)made.length - 12);
    patch_i32(&made, CRC_AT, (int32_t)crc32c(made.data + CRC_AT + 4, made.length - CRC_AT - 4));
    return &made;
}

void send_produce(struct connection *c, const char *topic, int32_t partition) {
    struct bytes *out = &c->out;
    begin_request(c, PRODUCE, PRODUCE_VERSION, true);
    put_varint(out, 0);  /* no transactional id */
    put_i16(out, -1);    /* acks=all */
    put_i32(out, 30000); /* timeout */
    put_varint(out, 2);  /* one topic */
    put_compact_string(out, topic);
    put_varint(out, 2); /* one partition */
    put_i32(out, partition);
    put_varint(out, (uint32_t)batch()->length + 1);
    put(out, batch()->data, batch()->length);
    put_varint(out, 0); /* tags: of the partition, the topic and the request */
    put_varint(out, 0);
    put_varint(out, 0);
    send_request(c);
}

/* Skips what comes before the only partition's own fields. */
static void enter_partition(struct reader *r) {
    if (get_varint(r) != 2)
        die("an answer for another number of topics");
    skip(r, (int64_t)get_varint(r) - 1);
    if (get_varint(r) != 2)
        die("an answer for another number of partitions");
    get_i32(r); /* partition */
}

enum error read_produce(struct reader r) {
    get_varint(&r); /* tags of the header */
    enter_partition(&r);
    enum error error = get_i16(&r);
    if (!r.ok)
        die("a Produce response is shorter than its schema");
    return error;
}

void send_fetch(struct connection *c, const char *topic, int32_t partition, int64_t offset) {
    struct bytes *out = &c->out;
    int32_t size = (int32_t)batch()->length * BATCHES_OF_FETCH;
    begin_request(c, FETCH, FETCH_VERSION, true);
    put_i32(out, -1);  /* no replica */
    put_i32(out, 500); /* max wait, ms */
    put_i32(out, 1);   /* min bytes */
    put_i32(out, size);
    put_i8(out, 0);    /* read uncommitted */
    put_i32(out, 0);   /* no session */
    put_i32(out, -1);
    put_varint(out, 2); /* one topic */
    put_compact_string(out, topic);
    put_varint(out, 2); /* one partition */
    put_i32(out, partition);
    put_i32(out, -1); /* leader epoch */
    put_i64(out, offset);
    put_i32(out, -1); /* last fetched epoch */
    put_i64(out, -1); /* log start */
    put_i32(out, size);
    put_varint(out, 0); /* tags: of the partition and the topic */
    put_varint(out, 0);
    put_varint(out, 1); /* no forgotten topics */
    put_varint(out, 1); /* no rack */
    put_varint(out, 0); /* tags */
    send_request(c);
}

enum error read_fetch(struct reader r) {
    get_varint(&r); /* tags of the header */
    get_i32(&r);    /* throttle time */
    enum error error = get_i16(&r);
    get_i32(&r); /* session */
    if (error != NONE)
        return error;
    enter_partition(&r);
    error = get_i16(&r);
    skip(&r, 3 * 8); /* high watermark, last stable offset, log start */
    get_varint(&r);  /* no aborted transactions */
    get_i32(&r);     /* preferred replica */
    size_t size = get_varint(&r) - 1;
    if (error == NONE && size != batch()->length * BATCHES_OF_FETCH)
        die("a Fetch of %zu bytes instead of %zu", size, batch()->length * BATCHES_OF_FETCH);
    return error;
}
