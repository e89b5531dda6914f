// Package kafkago holds the producer and the balancers of both programs for segmentio/kafka-go.
package kafkago

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"kohort.example/interop/lines"
)

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// Balancers are the group balancers for the name of an assignor.
func Balancers(assignor string) []kafka.GroupBalancer {
	if assignor == "roundrobin" {
		return []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}}
	}
	return []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
}

// Produce writes each line of stdin once with each codec; nil if the server acknowledged every one.
func Produce(options lines.Options) error {
	var lock sync.Mutex
	var failures []error
	var writers []*kafka.Writer
	for codec, topic := range options.TopicOfCodec() {
		writers = append(writers, &kafka.Writer{
			Addr:         kafka.TCP(options["bootstrap"]),
			Topic:        topic,
			Balancer:     &kafka.Hash{},
			BatchTimeout: 5 * time.Millisecond,
			RequiredAcks: kafka.RequireAll,
			Compression:  codecs[codec],
			Async:        true,
			Completion: func(_ []kafka.Message, err error) {
				lock.Lock()
				defer lock.Unlock()
				failures = append(failures, err)
			},
		})
	}
	lines.Keyed(func(key, value []byte) {
		for _, writer := range writers {
			if err := writer.WriteMessages(context.Background(), kafka.Message{Key: key, Value: value}); err != nil {
				lines.Fatal("%v", err)
			}
		}
	})
	for _, writer := range writers {
		failures = append(failures, writer.Close())
	}
	return errors.Join(failures...)
}
