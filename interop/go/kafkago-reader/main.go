// kafka-go's Reader as a group member. It fetches one message at a time and hides its generations,
// so its log gives the owned partitions.
package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"kohort.example/interop/kafkago"
	"kohort.example/interop/lines"
)

var subscribed = regexp.MustCompile(`\{topic:(\S+) partition:(\d+)\}:(-?\d+)`)

type member struct {
	reader *kafka.Reader
	lock   sync.Mutex
	next   map[lines.Partition]int64 // the offset to process next of each partition owned now
}

// Printf gets the Reader's log lines. It subscribes at the start of a generation, and stops
// commits at its end.
func (m *member) Printf(format string, values ...any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	switch {
	case strings.HasPrefix(format, "subscribed to"):
		for _, found := range subscribed.FindAllStringSubmatch(fmt.Sprintf(format, values...), -1) {
			number, _ := strconv.Atoi(found[2])
			offset, _ := strconv.ParseInt(found[3], 10, 64)
			m.next[lines.Partition{Topic: found[1], Number: int32(number)}] = max(offset, 0) // -2: from the first on
		}
	case strings.HasPrefix(format, "stopped commit"):
		clear(m.next)
	default:
		return
	}
	lines.Owns(slices.Collect(maps.Keys(m.next)))
}

// process prints the message if it is the next one of an owned partition.
func (m *member) process(message kafka.Message) (owned, next bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	at := lines.Partition{Topic: message.Topic, Number: int32(message.Partition)}
	offset, owned := m.next[at]
	if !owned || message.Offset != offset {
		return owned, false
	}
	m.next[at]++
	lines.Records(at, []int64{message.Offset}, []string{string(message.Value)})
	return true, true
}

// take is true for a message to commit. The log reports a generation shortly after its first
// message, so take waits. A message of an earlier generation may arrive in the next one. That
// generation starts at the committed offset and fetches the message again. If the partition has
// another owner, a commit would rewind that owner.
func (m *member) take(message kafka.Message) bool {
	for range 20 {
		if owned, next := m.process(message); owned {
			return next
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func (m *member) commit(message kafka.Message) {
	patience, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := m.reader.CommitMessages(patience, message); err != nil {
		lines.Failed("commit", err)
		return
	}
	at := lines.Partition{Topic: message.Topic, Number: int32(message.Partition)}
	lines.Committed(map[lines.Partition]int64{at: message.Offset + 1})
}

func consume(wish context.Context, options lines.Options) {
	m := &member{next: map[lines.Partition]int64{}}
	m.reader = kafka.NewReader(kafka.ReaderConfig{
		Brokers:           strings.Split(options["bootstrap"], ","),
		GroupID:           options["group"],
		GroupTopics:       options.Topics(),
		Dialer:            &kafka.Dialer{ClientID: options["client"], Timeout: 5 * time.Second},
		GroupBalancers:    kafkago.Balancers(options["assignor"]),
		SessionTimeout:    options.Milliseconds("session"),
		HeartbeatInterval: options.Milliseconds("heartbeat"),
		JoinGroupBackoff:  200 * time.Millisecond,
		ReadBackoffMax:    200 * time.Millisecond,
		MaxWait:           200 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
		Logger:            m,
		ErrorLogger:       kafka.LoggerFunc(func(format string, values ...any) { lines.Failed("log", fmt.Errorf(format, values...)) }),
	})
	for wish.Err() == nil {
		message, err := m.reader.FetchMessage(wish)
		if err == nil && m.take(message) {
			m.commit(message)
		} else if err != nil && wish.Err() == nil {
			lines.Failed("fetch", err)
		}
	}
	if err := m.reader.Close(); err != nil {
		lines.Failed("close", err)
	}
}

func main() { lines.Run(consume, kafkago.Produce) }
