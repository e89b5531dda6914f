// Package kafkatests has tests of consumers of franz-go.
package kafkatests

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// startConsumer starts a consumer of the group billing, which is closed after the test.
func startConsumer(kafka *Kafka, more ...kgo.Opt) *kgo.Client {
	kafka.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(kafka.Bootstrap),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(50 * time.Millisecond),
	}, more...)...)
	if err != nil {
		kafka.t.Fatal(err)
	}
	kafka.t.Cleanup(client.Close)
	return client
}

func TestAnotherMemberTakesOverAfterACrash(t *testing.T) {
	kafka := startKafka(t)
	kafka.Topic("orders", 4)
	a := startConsumer(kafka)
	startConsumer(kafka)
	kafka.Wait("billing", "Stable", 2)
	memberID, _ := a.GroupMetadata()
	kafka.Kill(memberID)            // its connection is gone, without a LeaveGroup
	kafka.Advance(45 * time.Second) // its session expires now
	stable := kafka.Wait("billing", "Stable", 1)
	if len(stable.Members[0].Assignment) != 4 {
		t.Errorf("the other member has %v", stable.Members[0].Assignment)
	}
	if cause := stable.Rebalances[len(stable.Rebalances)-1].Cause; cause != "session expired" {
		t.Errorf("the cause is %q", cause)
	}
	kafka.LetKilledLeave()
}

func TestAnOffsetThatDoesNotExistIsResetToTheEarliest(t *testing.T) {
	kafka := startKafka(t)
	kafka.Topic("orders", 1)
	kafka.Produce("orders", []byte("first"), []byte("second"))
	kafka.Commit("billing", map[string]int{"orders-0": 99}) // beyond the end
	consumer := startConsumer(kafka)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var read []string
	for len(read) < 2 && ctx.Err() == nil {
		consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			read = append(read, string(record.Value))
		})
	}
	if !slices.Equal(read, []string{"first", "second"}) {
		t.Errorf("read %q", read)
	}
}

func TestAStaticMemberRestartsWithoutARebalance(t *testing.T) {
	kafka := startKafka(t)
	kafka.Topic("orders", 4)
	first := startConsumer(kafka, kgo.InstanceID("billing-1"))
	before := kafka.Wait("billing", "Stable", 1)
	first.Close()                   // a static member does not leave
	kafka.Advance(30 * time.Second) // the deployment takes less than its session timeout
	assigned := make(chan map[string][]int32, 1)
	startConsumer(kafka, kgo.InstanceID("billing-1"), kgo.OnPartitionsAssigned(
		func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			assigned <- partitions
		}))
	select {
	case partitions := <-assigned:
		if len(partitions["orders"]) != 4 {
			t.Errorf("the member has %v", partitions)
		}
	case <-time.After(time.Minute):
		t.Fatal("the member got no partitions")
	}
	after := kafka.Group("billing")
	if after.Members[0].MemberID == before.Members[0].MemberID {
		t.Error("the member did not restart")
	}
	if after.Generation != before.Generation || len(after.Rebalances) != len(before.Rebalances) {
		t.Errorf("a rebalance: %+v", after)
	}
}
