#include "connects.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "report.h"
#include "tls.h"
#include "wire.h"

#define SASL_HANDSHAKE 17
#define API_VERSIONS 18
#define SASL_AUTHENTICATE 36
#define MECHANISM "SCRAM-SHA-512"
#define TEXT_SIZE 1024
#define ANSWER_SIZE 65536

static const struct connects *plan;
static atomic_bool ended;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct histogram latencies; /* from connecting to the answer, in the measured time */

/* One connection at a time, and what its client keeps of its password from one to the next. */
struct client {
    int fd;
    struct tls *tls;
    struct bytes out;
    uint8_t answer[ANSWER_SIZE];
    char salt_and_iterations[TEXT_SIZE];
    uint8_t client_key[SHA512_SIZE], server_key[SHA512_SIZE];
};

static void open_connection(struct client *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)plan->port)};
    int one = 1;
    inet_pton(AF_INET, plan->host, &address.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to %s:%d: %s", plan->host, plan->port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->tls = tls_connect(c->fd);
}

static void begin(struct client *c, int16_t api_key, int16_t version) {
    c->out.length = 0;
    put_i32(&c->out, 0);
    put_i16(&c->out, api_key);
    put_i16(&c->out, version);
    put_i32(&c->out, 1); /* correlation id */
    put_string(&c->out, "bench");
}

static void receive_all(struct client *c, size_t size) {
    for (size_t have = 0; have < size;) {
        ssize_t count = tls_receive(c->tls, c->fd, c->answer + have, size - have);
        if (count <= 0)
            die("the server closed a new connection");
        have += (size_t)count;
    }
}

/* The answer behind its correlation id, which begins with an error. */
static struct reader ask(struct client *c) {
    patch_i32(&c->out, 0, (int32_t)(c->out.length - 4));
    if (tls_send(c->tls, c->fd, c->out.data, c->out.length) != (ssize_t)c->out.length)
        die("send: %s", strerror(errno));
    receive_all(c, 4);
    struct reader r = {c->answer, c->answer + 4, true};
    size_t size = (uint32_t)get_i32(&r);
    if (size > sizeof c->answer)
        die("an answer of %zu bytes", size);
    receive_all(c, size);
    r = (struct reader){c->answer, c->answer + size, true};
    get_i32(&r); /* correlation id */
    int error = get_i16(&r);
    if (error || !r.ok)
        die("a request of a new connection failed with error %d", error);
    return r;
}

/* Sends a message of SCRAM, and puts the server's into `text`. */
static void authenticate(struct client *c, const char *message, char text[TEXT_SIZE]) {
    begin(c, SASL_AUTHENTICATE, 1);
    put_i32(&c->out, (int32_t)strlen(message));
    put(&c->out, message, strlen(message));
    struct reader r = ask(c);
    skip(&r, get_i16(&r)); /* error message */
    get_text(&r, get_i32(&r), text, TEXT_SIZE);
}

static void derive_keys(struct client *c, const char *salt_and_iterations) {
    uint8_t salt[TEXT_SIZE], salted[SHA512_SIZE];
    if (strcmp(c->salt_and_iterations, salt_and_iterations) == 0)
        return;
    const char *comma = strstr(salt_and_iterations, ",i=");
    if (!comma)
        die("the server sent no iterations: %s", salt_and_iterations);
    size_t size = from_base64(salt_and_iterations, (size_t)(comma - salt_and_iterations), salt);
    pbkdf2_sha512(plan->password, salt, size, atoi(comma + 3), salted);
    hmac_sha512(salted, "Client Key", c->client_key);
    hmac_sha512(salted, "Server Key", c->server_key);
    snprintf(c->salt_and_iterations, TEXT_SIZE, "%s", salt_and_iterations);
}

/* RFC 5802 */
static void log_in(struct client *c) {
    char first[TEXT_SIZE], answer[TEXT_SIZE], final[TEXT_SIZE * 2], everything[TEXT_SIZE * 4], text[TEXT_SIZE];
    uint8_t proof[SHA512_SIZE], signature[SHA512_SIZE];
    begin(c, SASL_HANDSHAKE, 1);
    put_string(&c->out, MECHANISM);
    ask(c);
    snprintf(first, sizeof first, "n,,n=%s,r=%llx%p", plan->user, (unsigned long long)now_ns(), (void *)c);
    authenticate(c, first, answer);
    const char *salt = strstr(answer, ",s=");
    if (!salt)
        die("the server sent no salt: %s", answer);
    derive_keys(c, salt + 3);
    snprintf(final, sizeof final, "c=biws,%.*s", (int)(salt - answer), answer);
    snprintf(everything, sizeof everything, "%s,%s,%s", first + 3, answer, final);
    sha512(c->client_key, proof);
    hmac_sha512(proof, everything, signature);
    for (int i = 0; i < SHA512_SIZE; i++)
        proof[i] = c->client_key[i] ^ signature[i];
    to_base64(proof, SHA512_SIZE, text);
    strcat(strcat(final, ",p="), text);
    authenticate(c, final, answer);
    hmac_sha512(c->server_key, everything, signature);
    to_base64(signature, SHA512_SIZE, text);
    if (strncmp(answer, "v=", 2) || strcmp(answer + 2, text))
        die("the server does not know the password: %s", answer);
}

static void *work(void *unused) {
    struct client *c = calloc(1, sizeof *c);
    while (!atomic_load(&ended)) {
        uint64_t began = now_ns();
        open_connection(c);
        if (plan->user)
            log_in(c);
        begin(c, API_VERSIONS, 0);
        ask(c);
        pthread_mutex_lock(&lock);
        record(&latencies, now_ns() - began);
        pthread_mutex_unlock(&lock);
        tls_close(c->tls);
        close(c->fd);
    }
    return unused;
}

static void pass(double seconds) { usleep((useconds_t)(seconds * 1e6)); }

void run_connects(const struct connects *connects) {
    plan = connects;
    pthread_t *threads = calloc((size_t)plan->at_a_time, sizeof *threads);
    for (int i = 0; i < plan->at_a_time; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            die("no thread");
    pass(plan->warmup_s);
    pthread_mutex_lock(&lock);
    memset(&latencies, 0, sizeof latencies);
    pthread_mutex_unlock(&lock);
    say("measuring");
    uint64_t started = now_ns(), cpu = cpu_ns();
    pass(plan->measured_s);
    pthread_mutex_lock(&lock);
    print_measured(&latencies, started, cpu);
    pthread_mutex_unlock(&lock);
    atomic_store(&ended, true);
    for (int i = 0; i < plan->at_a_time; i++)
        pthread_join(threads[i], NULL);
}
