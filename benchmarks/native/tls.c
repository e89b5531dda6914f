#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#include "base.h"

static SSL_CTX *context;

__attribute__((noreturn)) static void die_of_tls(const char *what) {
    die("%s: %s", what, ERR_reason_error_string(ERR_get_error()));
}

void trust(const char *authority) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    if (!SSL_CTX_load_verify_locations(context, authority, NULL))
        die_of_tls(authority);
}

struct tls *tls_connect(int fd) {
    if (!context)
        return NULL;
    SSL *ssl = SSL_new(context);
    if (!ssl || !SSL_set_fd(ssl, fd) || SSL_connect(ssl) != 1)
        die_of_tls("TLS handshake");
    return (struct tls *)ssl;
}

static ssize_t counted(SSL *ssl, int count) {
    if (count > 0)
        return count;
    int error = SSL_get_error(ssl, count);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (error != SSL_ERROR_SYSCALL)
        die_of_tls("TLS");
    return -1;
}

ssize_t tls_send(struct tls *tls, int fd, const void *data, size_t length) {
    if (!tls)
        return send(fd, data, length, MSG_NOSIGNAL);
    size_t sent = 0;
    while (sent < length) { /* a record of 16 KiB at a time */
        ssize_t count = counted((SSL *)tls, SSL_write((SSL *)tls, (const char *)data + sent, (int)(length - sent)));
        if (count <= 0)
            return sent ? (ssize_t)sent : count;
        sent += (size_t)count;
    }
    return (ssize_t)sent;
}

ssize_t tls_receive(struct tls *tls, int fd, void *data, size_t size) {
    return tls ? counted((SSL *)tls, SSL_read((SSL *)tls, data, (int)size)) : recv(fd, data, size, 0);
}

bool tls_has_more(struct tls *tls) { return tls && SSL_has_pending((SSL *)tls); }

void tls_close(struct tls *tls) {
    if (tls) {
        SSL_shutdown((SSL *)tls);
        SSL_free((SSL *)tls);
    }
}

void hmac_sha512(const uint8_t key[SHA512_SIZE], const char *text, uint8_t out[SHA512_SIZE]) {
    HMAC(EVP_sha512(), key, SHA512_SIZE, (const uint8_t *)text, strlen(text), out, NULL);
}

void sha512(const uint8_t data[SHA512_SIZE], uint8_t out[SHA512_SIZE]) {
    EVP_Digest(data, SHA512_SIZE, out, NULL, EVP_sha512(), NULL);
}

void pbkdf2_sha512(const char *password, const uint8_t *salt, size_t salt_size, int iterations,
                   uint8_t out[SHA512_SIZE]) {
    PKCS5_PBKDF2_HMAC(password, (int)strlen(password), salt, (int)salt_size, iterations, EVP_sha512(), SHA512_SIZE,
                      out);
}

void to_base64(const uint8_t *data, size_t size, char *out) { EVP_EncodeBlock((uint8_t *)out, data, (int)size); }

size_t from_base64(const char *text, size_t length, uint8_t *out) {
    int size = EVP_DecodeBlock(out, (const uint8_t *)text, (int)length);
    if (size < 0)
        die("the server's base64 is not");
    for (size_t at = length; at && text[at - 1] == '='; at--)
        size--;
    return (size_t)size;
}
