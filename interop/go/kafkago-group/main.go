// kafka-go's ConsumerGroup as a group member, with a Reader for each partition of a generation.
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"kohort.example/interop/kafkago"
	"kohort.example/interop/lines"
)

type work struct {
	generation *kafka.Generation
	options    lines.Options
	partition  lines.Partition
}

func (w work) commit(next int64) bool {
	offsets := map[string]map[int]int64{w.partition.Topic: {int(w.partition.Number): next}}
	if err := w.generation.CommitOffsets(offsets); err != nil {
		lines.Failed("commit", err)
		return false
	}
	lines.Committed(map[lines.Partition]int64{w.partition: next})
	return true
}

// run reads the partition from an offset until the generation ends.
func (w work) run(scope context.Context, offset int64) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:        strings.Split(w.options["bootstrap"], ","),
		Topic:          w.partition.Topic,
		Partition:      int(w.partition.Number),
		Dialer:         &kafka.Dialer{ClientID: w.options["client"], Timeout: 5 * time.Second},
		MaxWait:        200 * time.Millisecond,
		ReadBackoffMax: 200 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		lines.Failed("seek", err)
		return
	}
	for {
		message, err := reader.ReadMessage(scope)
		if errors.Is(err, kafka.ErrGenerationEnded) || scope.Err() != nil {
			return
		}
		if err != nil {
			lines.Failed("read", err)
			continue
		}
		lines.Records(w.partition, []int64{message.Offset}, []string{string(message.Value)})
		if !w.commit(message.Offset + 1) {
			return
		}
	}
}

// start runs the assigned partitions; told is called once all of them have ended.
func start(generation *kafka.Generation, options lines.Options) {
	owned := []lines.Partition{}
	for topic, assignments := range generation.Assignments {
		for _, assigned := range assignments {
			owned = append(owned, lines.Partition{Topic: topic, Number: int32(assigned.ID)})
		}
	}
	lines.Owns(owned)
	for topic, assignments := range generation.Assignments {
		for _, assigned := range assignments {
			w := work{generation, options, lines.Partition{Topic: topic, Number: int32(assigned.ID)}}
			generation.Start(func(scope context.Context) { w.run(scope, assigned.Offset) })
		}
	}
	generation.Start(func(scope context.Context) {
		<-scope.Done()
		lines.Owns(nil)
	})
}

func consume(wish context.Context, options lines.Options) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                options["group"],
		Brokers:           strings.Split(options["bootstrap"], ","),
		Topics:            options.Topics(),
		Dialer:            &kafka.Dialer{ClientID: options["client"], Timeout: 5 * time.Second},
		GroupBalancers:    kafkago.Balancers(options["assignor"]),
		SessionTimeout:    options.Milliseconds("session"),
		HeartbeatInterval: options.Milliseconds("heartbeat"),
		JoinGroupBackoff:  200 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		lines.Fatal("%v", err)
	}
	for wish.Err() == nil {
		generation, err := group.Next(wish)
		switch {
		case err == nil:
			start(generation, options)
		case wish.Err() == nil:
			lines.Failed("next generation", err)
		}
	}
	group.Close()
}

func main() { lines.Run(consume, kafkago.Produce) }
