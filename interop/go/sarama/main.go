// sarama as a group member (with its newest versions) or a producer (with its default version).
package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"kohort.example/interop/lines"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// member gets its claims. Session.Commit has no result (errors go to a channel of the group), so an
// observer checks the acknowledged commits.
type member struct{}

func (member) Setup(session sarama.ConsumerGroupSession) error {
	owned := []lines.Partition{}
	for topic, numbers := range session.Claims() {
		for _, number := range numbers {
			owned = append(owned, lines.Partition{Topic: topic, Number: number})
		}
	}
	lines.Owns(owned)
	return nil
}

// Cleanup is called when all claims have ended, before the last commit.
func (member) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	lines.Owns(nil)
	return nil
}

func (member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := lines.Partition{Topic: claim.Topic(), Number: claim.Partition()}
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			lines.Records(partition, []int64{message.Offset}, []string{string(message.Value)})
			session.MarkMessage(message, "")
		}
	}
}

// outlastRestarts makes it retry the server for 20 s; its default is below one second.
func outlastRestarts(config *sarama.Config) {
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	config.Metadata.Retry.Max = 200
}

func consume(wish context.Context, options lines.Options) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = options["client"]
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[options["assignor"]]}
	config.Consumer.Group.Session.Timeout = options.Milliseconds("session")
	config.Consumer.Group.Heartbeat.Interval = options.Milliseconds("heartbeat")
	config.Consumer.Group.Rebalance.Retry.Backoff = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Retry.Backoff = 200 * time.Millisecond
	config.Consumer.Return.Errors = true
	outlastRestarts(config)
	group, err := sarama.NewConsumerGroup(strings.Split(options["bootstrap"], ","), options["group"], config)
	if err != nil {
		lines.Fatal("%v", err)
	}
	go func() {
		for err := range group.Errors() {
			lines.Failed("group", err)
		}
	}()
	for wish.Err() == nil {
		if err := group.Consume(wish, options.Topics(), member{}); err != nil && wish.Err() == nil {
			lines.Failed("consume", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		lines.Failed("close", err)
	}
}

func producer(bootstrap, codec string) (sarama.AsyncProducer, error) {
	config := sarama.NewConfig()
	config.Producer.Compression = codecs[codec]
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Retry.Max = 100
	config.Producer.Retry.Backoff = 100 * time.Millisecond
	outlastRestarts(config)
	return sarama.NewAsyncProducer(strings.Split(bootstrap, ","), config)
}

func produce(options lines.Options) error {
	var failures []error
	var over sync.WaitGroup
	var lock sync.Mutex
	topics := map[string]sarama.AsyncProducer{}
	for codec, topic := range options.TopicOfCodec() {
		made, err := producer(options["bootstrap"], codec)
		if err != nil {
			return err
		}
		topics[topic] = made
		over.Go(func() {
			for failed := range made.Errors() {
				lock.Lock()
				failures = append(failures, failed)
				lock.Unlock()
			}
		})
	}
	lines.Keyed(func(key, value []byte) {
		for topic, made := range topics {
			made.Input() <- &sarama.ProducerMessage{
				Topic: topic, Key: sarama.ByteEncoder(key), Value: sarama.ByteEncoder(value),
			}
		}
	})
	for _, made := range topics {
		made.AsyncClose()
	}
	over.Wait()
	return errors.Join(failures...)
}

func main() { lines.Run(consume, produce) }
