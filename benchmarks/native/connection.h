/* Non-blocking connections on one epoll, each with one frame in flight, or with some copies of one. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "tls.h"
#include "wire.h"

struct connection {
    int fd;
    struct tls *tls;    /* NULL: not encrypted */
    int32_t correlation; /* of the last request that was sent */
    int waiting;        /* requests without an answer so far */
    uint64_t sent_at;   /* ns, just before its first byte went */
    struct bytes out;   /* the frames in flight, kept so that they can be sent again */
    size_t sent;
    bool blocked;       /* the socket took only a part of it */
    struct bytes in;    /* the part of an answer that came so far */
    void *owner;
};

/* Called with a whole answer, behind its correlation id. */
typedef void on_answer(struct connection *c, struct reader answer);

/* Connects, by TLS after `trust`, or ends the program. */
void connect_to(struct connection *c, const char *host, int port, void *owner);

/* Closes a connection without a request in flight. */
void disconnect(struct connection *c);

/* Starts a frame in c->out: size, API key, version, correlation id, client id, tags if flexible. */
void begin_request(struct connection *c, int16_t api_key, int16_t version, bool flexible);

/* Fills in the size, and sends. */
void send_request(struct connection *c);

/* Sends the last frame again, `times` at once, under the next correlation ids. All are answered so far. */
void send_again(struct connection *c, int times);

/* Waits for at most `timeout_ms`, and hands whole answers to `answered`. */
void poll_answers(int timeout_ms, on_answer *answered);

#endif
