// franz-go as a group member or a producer.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"kohort.example/interop/lines"
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

type member struct {
	client  *kgo.Client
	owned   map[lines.Partition]bool
	pending map[lines.Partition]*kgo.Record
}

func each(partitions map[string][]int32, do func(lines.Partition)) {
	for topic, numbers := range partitions {
		for _, number := range numbers {
			do(lines.Partition{Topic: topic, Number: number})
		}
	}
}

func (m *member) sayOwned(client *kgo.Client) {
	owned := make([]lines.Partition, 0, len(m.owned))
	for partition := range m.owned {
		owned = append(owned, partition)
	}
	member, generation := client.GroupMetadata()
	lines.OwnsAs(owned, map[string]any{"member": member, "generation": generation})
}

func (m *member) assigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	each(added, func(p lines.Partition) { m.owned[p] = true })
	m.sayOwned(client)
}

func (m *member) revoked(scope context.Context, client *kgo.Client, gone map[string][]int32) {
	m.commit(scope)
	m.lost(scope, client, gone)
}

func (m *member) lost(_ context.Context, client *kgo.Client, gone map[string][]int32) {
	each(gone, func(p lines.Partition) {
		delete(m.owned, p)
		delete(m.pending, p)
	})
	m.sayOwned(client)
}

// commit prints the acknowledged offsets; the other ones stay pending.
func (m *member) commit(scope context.Context) {
	if len(m.pending) == 0 {
		return
	}
	var records []*kgo.Record
	offsets := map[lines.Partition]int64{}
	for partition, record := range m.pending {
		records = append(records, record)
		offsets[partition] = record.Offset + 1
	}
	patience, stop := context.WithTimeout(scope, 10*time.Second)
	defer stop()
	if err := m.client.CommitRecords(patience, records...); err != nil {
		lines.Failed("commit", err)
		return
	}
	lines.Committed(offsets)
	clear(m.pending)
}

func (m *member) process(fetched kgo.FetchTopicPartition) {
	records := fetched.Records
	if len(records) == 0 {
		return
	}
	offsets := make([]int64, len(records))
	values := make([]string, len(records))
	for at, record := range records {
		offsets[at], values[at] = record.Offset, string(record.Value)
	}
	partition := lines.Partition{Topic: fetched.Topic, Number: fetched.Partition}
	lines.Records(partition, offsets, values)
	m.pending[partition] = records[len(records)-1]
}

// security is the login over TLS, or the client certificate, if there is one.
func security(options lines.Options) []kgo.Opt {
	if options["cafile"] == "" {
		return nil
	}
	authority, err := os.ReadFile(options["cafile"])
	if err != nil {
		lines.Fatal("%v", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if file := options["certificate"]; file != "" {
		certificate, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			lines.Fatal("%v", err)
		}
		config.Certificates = []tls.Certificate{certificate}
		return []kgo.Opt{kgo.DialTLSConfig(config)}
	}
	user, secret := options["username"], options["secret"]
	logins := map[string]func() sasl.Mechanism{
		"PLAIN":         plain.Auth{User: user, Pass: secret}.AsMechanism,
		"SCRAM-SHA-256": scram.Auth{User: user, Pass: secret}.AsSha256Mechanism,
		"SCRAM-SHA-512": scram.Auth{User: user, Pass: secret}.AsSha512Mechanism,
		"OAUTHBEARER":   oauth.Auth{Token: secret}.AsMechanism,
	}
	return []kgo.Opt{kgo.DialTLSConfig(config), kgo.SASL(logins[options["mechanism"]]())}
}

// settings of the group and the client, without its callbacks.
func settings(options lines.Options) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(options.Bootstrap()...),
		kgo.ClientID(options["client"]),
		kgo.ConsumerGroup(options["group"]),
		kgo.ConsumeTopics(options.Topics()...),
		kgo.Balancers(balancers[options["assignor"]]()),
		kgo.SessionTimeout(options.Milliseconds("session")),
		kgo.HeartbeatInterval(options.Milliseconds("heartbeat")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	}
	if options["protocol"] == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if instance, static := options["instance"]; static {
		opts = append(opts, kgo.InstanceID(instance))
	}
	return append(opts, security(options)...)
}

func consume(wish context.Context, options lines.Options) {
	m := &member{owned: map[lines.Partition]bool{}, pending: map[lines.Partition]*kgo.Record{}}
	client, err := kgo.NewClient(append(settings(options),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost))...)
	if err != nil {
		lines.Fatal("%v", err)
	}
	m.client = client
	for wish.Err() == nil {
		fetches := client.PollFetches(wish)
		fetches.EachError(func(topic string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				lines.Failed("fetch of "+topic, err)
			}
		})
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) { m.process(fetched) })
		m.commit(context.Background())
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

func produce(options lines.Options) error {
	var lock sync.Mutex
	var failures []error
	topics := map[string]*kgo.Client{}
	for codec, topic := range options.TopicOfCodec() {
		client, err := kgo.NewClient(append(security(options),
			kgo.SeedBrokers(options.Bootstrap()...),
			kgo.ProducerBatchCompression(codecs[codec]),
			kgo.ProducerLinger(5*time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		)...)
		if err != nil {
			return err
		}
		topics[topic] = client
	}
	lines.Keyed(func(key, value []byte) {
		for topic, client := range topics {
			client.Produce(context.Background(), &kgo.Record{Topic: topic, Key: key, Value: value},
				func(_ *kgo.Record, err error) {
					lock.Lock()
					defer lock.Unlock()
					failures = append(failures, err)
				})
		}
	})
	for _, client := range topics {
		failures = append(failures, client.Flush(context.Background()))
		client.Close()
	}
	return errors.Join(failures...)
}

func main() { lines.Run(consume, produce) }
