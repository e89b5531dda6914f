/* Produce and Fetch of one batch after the other, of records of 1 KiB.
 *
 * Versions are the last ones that name topics; later ones have their ids. */
#ifndef RECORDS_H
#define RECORDS_H

#include "requests.h"

#define RECORDS_OF_BATCH 16  /* a batch of the default size of Kafka's producer */
#define BATCHES_OF_FETCH 64  /* the default max.partition.fetch.bytes of Kafka's consumer */

void send_produce(struct connection *c, const char *topic, int32_t partition);
enum error read_produce(struct reader answer);

/* Asks for BATCHES_OF_FETCH batches; the program ends if it gets others. */
void send_fetch(struct connection *c, const char *topic, int32_t partition, int64_t offset);
enum error read_fetch(struct reader answer);

#endif
