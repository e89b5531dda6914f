/* TLS 1.3 of the load's connections, and SCRAM's hashes, by OpenSSL. */
#ifndef TLS_H
#define TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls;

/* From now on connections are encrypted, to servers whose certificate the PEM file `authority` vouches for. */
void trust(const char *authority);

/* Makes the handshake on a blocking socket, or ends the program; NULL if connections are not encrypted.
 *
 * A handshake is always a whole one: no session is resumed. */
struct tls *tls_connect(int fd);

/* As send and recv of a socket, whose errno they set. NULL sends and receives without encryption. */
ssize_t tls_send(struct tls *tls, int fd, const void *data, size_t length);
ssize_t tls_receive(struct tls *tls, int fd, void *data, size_t size);

/* Whether there are decrypted bytes that no event will tell of. */
bool tls_has_more(struct tls *tls);

/* Tells the server, and frees it. */
void tls_close(struct tls *tls);

#define SHA512_SIZE 64

void hmac_sha512(const uint8_t key[SHA512_SIZE], const char *text, uint8_t out[SHA512_SIZE]);
void sha512(const uint8_t data[SHA512_SIZE], uint8_t out[SHA512_SIZE]);
void pbkdf2_sha512(const char *password, const uint8_t *salt, size_t salt_size, int iterations,
                   uint8_t out[SHA512_SIZE]);
void to_base64(const uint8_t *data, size_t size, char *out);
size_t from_base64(const char *text, size_t length, uint8_t *out);

#endif
