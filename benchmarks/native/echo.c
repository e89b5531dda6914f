/* The bound of what a server on one core could do: frames in, one fixed Heartbeat v4 answer out, on one epoll.
 *
 *     echo PORT
 *
 * It parses nothing but sizes and correlation ids, and keeps no state but the part of a frame that came so far.
 */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define MAX_EVENTS 512
#define ANSWER_SIZE 16 /* size, correlation id, tags, throttle time, error, tags */

struct peer {
    int fd;
    struct bytes in;
};

static uint8_t chunk[1 << 16], answers[1 << 16];

static void watch(int epoll_fd, int fd, void *owner) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl: %s", strerror(errno));
}

static int listen_on(int port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096))
        die("cannot listen on port %d: %s", port, strerror(errno));
    return fd;
}

static void accept_one(int epoll_fd, int listening) {
    int one = 1;
    struct peer *peer = calloc(1, sizeof *peer);
    peer->fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (peer->fd < 0)
        die("accept: %s", strerror(errno));
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(epoll_fd, peer->fd, peer);
}

/* Takes whole frames off the front; gives how many bytes those were. */
static size_t answer(const uint8_t *data, size_t length, int fd) {
    size_t taken = 0, out = 0;
    while (length - taken >= 12 && out + ANSWER_SIZE <= sizeof answers) {
        uint32_t size;
        memcpy(&size, data + taken, 4);
        size = be32toh(size);
        if (length - taken < 4 + (size_t)size)
            break;
        memset(answers + out, 0, ANSWER_SIZE);
        answers[out + 3] = ANSWER_SIZE - 4;
        memcpy(answers + out + 4, data + taken + 8, 4);
        out += ANSWER_SIZE;
        taken += 4 + (size_t)size;
    }
    if (out && send(fd, answers, out, MSG_NOSIGNAL) != (ssize_t)out)
        die("send: %s", strerror(errno)); /* no peer of ours leaves its answers unread */
    return taken;
}

static void serve(struct peer *peer) {
    ssize_t count = recv(peer->fd, chunk, sizeof chunk, 0);
    if (count <= 0) {
        if (count < 0 && errno == EAGAIN)
            return;
        close(peer->fd);
        free(peer->in.data);
        free(peer);
        return;
    }
    size_t taken = peer->in.length ? 0 : answer(chunk, (size_t)count, peer->fd);
    if (taken == (size_t)count)
        return;
    put(&peer->in, chunk + taken, (size_t)count - taken);
    taken = answer(peer->in.data, peer->in.length, peer->fd);
    peer->in.length -= taken;
    memmove(peer->in.data, peer->in.data + taken, peer->in.length);
}

int main(int argc, char **argv) {
    struct epoll_event events[MAX_EVENTS];
    int listening = listen_on(argc > 1 ? atoi(argv[1]) : 0), epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll_fd, listening, NULL);
    for (;;) {
        int count = epoll_wait(epoll_fd, events, MAX_EVENTS, -1);
        for (int i = 0; i < count; i++)
            if (events[i].data.ptr)
                serve(events[i].data.ptr);
            else
                accept_one(epoll_fd, listening);
    }
}
