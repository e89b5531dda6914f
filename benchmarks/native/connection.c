#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT_ID "bench"
#define MAX_EVENTS 512
#define CORRELATION_AT 8

static int epoll_fd = -1;
static uint8_t chunk[1 << 18];

static void watch(struct connection *c, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(epoll_fd, operation, c->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
}

void connect_to(struct connection *c, const char *host, int port, void *owner) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die("no IPv4 address: %s", host);
    if (epoll_fd < 0)
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int one = 1;
    *c = (struct connection){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .owner = owner};
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to %s:%d: %s", host, port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->tls = tls_connect(c->fd);
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

void disconnect(struct connection *c) {
    close(c->fd);
    free(c->out.data);
    free(c->in.data);
}

void begin_request(struct connection *c, int16_t api_key, int16_t version, bool flexible) {
    c->out.length = 0;
    put_i32(&c->out, 0);
    put_i16(&c->out, api_key);
    put_i16(&c->out, version);
    put_i32(&c->out, ++c->correlation);
    put_string(&c->out, CLIENT_ID);
    if (flexible)
        put_varint(&c->out, 0);
}

static void send_rest(struct connection *c) {
    ssize_t count = tls_send(c->tls, c->fd, c->out.data + c->sent, c->out.length - c->sent);
    if (count < 0 && errno != EAGAIN)
        die("send: %s", strerror(errno));
    c->sent += count > 0 ? (size_t)count : 0;
    bool blocked = c->sent < c->out.length;
    if (blocked != c->blocked)
        watch(c, EPOLL_CTL_MOD, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
    c->blocked = blocked;
}

static void start_sending(struct connection *c, int requests) {
    if (c->waiting)
        die("a second request on a connection");
    c->waiting = requests;
    c->sent = 0;
    c->sent_at = now_ns();
    send_rest(c);
}

void send_request(struct connection *c) {
    patch_i32(&c->out, 0, (int32_t)(c->out.length - 4));
    start_sending(c, 1);
}

void send_again(struct connection *c, int times) {
    struct reader r = {c->out.data, c->out.data + c->out.length, true};
    size_t frame = 4 + (size_t)get_i32(&r);
    reserve(&c->out, frame * (size_t)times);
    for (int i = 0; i < times; i++) {
        if (i)
            memcpy(c->out.data + (size_t)i * frame, c->out.data, frame);
        patch_i32(&c->out, (size_t)i * frame + CORRELATION_AT, ++c->correlation);
    }
    c->out.length = frame * (size_t)times;
    start_sending(c, times);
}

/* Hands over the first answer if it is whole; its bytes, or 0. */
static size_t hand_over(struct connection *c, const uint8_t *data, size_t length, on_answer *answered) {
    struct reader r = {data, data + length, true};
    if (length < 4)
        return 0;
    size_t size = 4 + (size_t)(uint32_t)get_i32(&r);
    if (length < size)
        return 0;
    if (!c->waiting)
        die("an answer that was not asked for");
    r.end = data + size;
    int32_t correlation = get_i32(&r), expected = c->correlation - --c->waiting;
    if (!r.ok || correlation != expected)
        die("correlation id %d instead of %d", correlation, expected);
    answered(c, r);
    return size;
}

/* Whether there was something. */
static bool receive_once(struct connection *c, on_answer *answered) {
    ssize_t count = tls_receive(c->tls, c->fd, chunk, sizeof chunk);
    if (count <= 0) {
        if (count < 0 && errno == EAGAIN)
            return false;
        die("the server closed a connection: %s", count ? strerror(errno) : "end of stream");
    }
    bool is_part = c->in.length;
    if (is_part)
        put(&c->in, chunk, (size_t)count);
    const uint8_t *at = is_part ? c->in.data : chunk;
    size_t left = is_part ? c->in.length : (size_t)count;
    for (size_t size; (size = hand_over(c, at, left, answered)); left -= size)
        at += size;
    if (is_part)
        memmove(c->in.data, at, left);
    else if (left)
        put(&c->in, at, left);
    c->in.length = left;
    return true;
}

static void receive(struct connection *c, on_answer *answered) {
    while (receive_once(c, answered) && tls_has_more(c->tls))
        ;
}

void poll_answers(int timeout_ms, on_answer *answered) {
    struct epoll_event events[MAX_EVENTS];
    int count = epoll_wait(epoll_fd, events, MAX_EVENTS, timeout_ms);
    if (count < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        struct connection *c = events[i].data.ptr;
        if (c->blocked && events[i].events & EPOLLOUT)
            send_rest(c);
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            receive(c, answered);
    }
}
