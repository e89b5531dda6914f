// franz-go as a transactional producer: its arguments are those of TransactionProgram.java.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"kohort.example/interop/lines"
)

var scope = context.Background()

// commitOffset puts an offset into the transaction. kgo itself does so only for what a member of the
// group has polled.
func commitOffset(client *kgo.Client, id, group, topic string, partition int32, offset int64) error {
	producer, epoch, err := client.ProducerID(scope)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, producer, epoch, group
	added, err := add.RequestWith(scope, client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = id, producer, epoch, group
	of := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	of.Partition, of.Offset = partition, offset
	topicID, err := idOf(client, topic)
	if err != nil {
		return err
	}
	ofTopic := kmsg.NewTxnOffsetCommitRequestTopic()
	ofTopic.Topic, ofTopic.TopicID = topic, topicID
	ofTopic.Partitions = []kmsg.TxnOffsetCommitRequestTopicPartition{of}
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{ofTopic}
	committed, err := commit.RequestWith(scope, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
}

// idOf is the topic's id, by which TxnOffsetCommit names it since Kafka 4.4.
func idOf(client *kgo.Client, topic string) ([16]byte, error) {
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = kmsg.StringPtr(topic)
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{of}
	response, err := request.RequestWith(scope, client)
	if err != nil {
		return [16]byte{}, err
	}
	return response.Topics[0].TopicID, kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

func end(client *kgo.Client, commit kgo.TransactionEndTry) error {
	if err := client.Flush(scope); err != nil {
		return err
	}
	return client.EndTransaction(scope, commit)
}

func main() {
	id := os.Args[2]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(time.Duration(lines.Number(os.Args[3]))*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
	if err != nil {
		lines.Fatal("%v", err)
	}
	lines.Steps(func(step []string) error {
		switch step[0] {
		case "init":
			_, _, err := client.ProducerID(scope)
			return err
		case "begin":
			return client.BeginTransaction()
		case "send":
			return client.ProduceSync(scope, &kgo.Record{
				Topic: step[1], Partition: int32(lines.Number(step[2])),
				Key: []byte("k"), Value: []byte(step[3]),
			}).FirstErr()
		case "offsets":
			partition, offset := int32(lines.Number(step[3])), lines.Number(step[4])
			return commitOffset(client, id, step[1], step[2], partition, offset)
		case "commit":
			return end(client, kgo.TryCommit)
		case "abort":
			return end(client, kgo.TryAbort)
		}
		return fmt.Errorf("unknown step %s", step[0])
	})
}
