// Package lines is the interface between the Go programs and the test that runs them. Arguments are
// `name=value`, output is JSON lines, and stdin has the values to produce.
// tests/interop/clients/lines.py describes the lines.
package lines

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Partition names one partition of one topic.
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Number) }

// Options are the named values of the command line.
type Options map[string]string

// Milliseconds is an option that holds a number of them.
func (o Options) Milliseconds(name string) time.Duration {
	number, err := strconv.Atoi(o[name])
	if err != nil {
		Fatal("option %s: %v", name, err)
	}
	return time.Duration(number) * time.Millisecond
}

// Bootstrap are the addresses of brokers.
func (o Options) Bootstrap() []string { return strings.Split(o["bootstrap"], ",") }

// Topics are the topics to consume.
func (o Options) Topics() []string { return strings.Split(o["topics"], ",") }

// TopicOfCodec maps each codec to the topic of its records.
func (o Options) TopicOfCodec() map[string]string {
	topics := map[string]string{}
	for _, codec := range strings.Split(o["codec"], ",") {
		topics[codec] = strings.ReplaceAll(o["topic"], "{}", codec)
	}
	return topics
}

// Run calls `consume` or `produce`, by the command line. SIGTERM ends the context.
func Run(consume func(context.Context, Options), produce func(Options) error) {
	options := Options{}
	for _, argument := range os.Args[2:] {
		name, value, _ := strings.Cut(argument, "=")
		options[name] = value
	}
	if os.Args[1] == "produce" {
		if err := produce(options); err != nil {
			Fatal("%v", err)
		}
		return
	}
	wish, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	consume(wish, options)
	say("left", nil)
}

// Fatal ends the program with a message on stderr.
func Fatal(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

var stdout sync.Mutex

func say(event string, fields map[string]any) {
	stdout.Lock()
	defer stdout.Unlock()
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		Fatal("no monotonic clock: %v", err)
	}
	line := map[string]any{"event": event, "at": clock.Nano()}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		Fatal("%v", err)
	}
	os.Stdout.Write(append(text, '\n'))
}

// Owns prints the partitions that this member owns.
func Owns(partitions []Partition) { OwnsAs(partitions, nil) }

// OwnsAs prints them with the id of the member and its generation.
func OwnsAs(partitions []Partition, member map[string]any) {
	names := make([]string, 0, len(partitions))
	for _, partition := range partitions {
		names = append(names, partition.String())
	}
	sort.Strings(names)
	fields := map[string]any{"partitions": names}
	for name, value := range member {
		fields[name] = value
	}
	say("owns", fields)
}

// Records prints the processed records.
func Records(partition Partition, offsets []int64, values []string) {
	say("records", map[string]any{"partition": partition.String(), "offsets": offsets, "values": values})
}

// Committed prints the acknowledged commits: the next offset of each partition.
func Committed(offsets map[Partition]int64) {
	named := map[string]int64{}
	for partition, offset := range offsets {
		named[partition.String()] = offset
	}
	say("committed", map[string]any{"offsets": named})
}

// Failed prints an error that is retried.
func Failed(what string, err error) {
	say("failed", map[string]any{"what": fmt.Sprintf("%s: %v", what, err)})
}

// Keyed calls `take` with the key and the value of each line of stdin.
func Keyed(take func(key, value []byte)) {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		key, value, _ := strings.Cut(input.Text(), "\t")
		take([]byte(key), []byte(value))
	}
}
