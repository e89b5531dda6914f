//! rdkafka, the Rust wrapper of librdkafka, as a group member or a producer.

mod lines;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use lines::{Offsets, Options};

/// Hears of rebalances; holds what was processed and is not yet committed.
#[derive(Default)]
struct Member {
    pending: Mutex<Offsets>,
}

impl ClientContext for Member {}

impl ConsumerContext for Member {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(revoked) = rebalance {
            if !consumer.assignment_lost() {
                self.commit(consumer);
            }
            let mut pending = self.pending.lock().unwrap();
            for gone in revoked.elements() {
                pending.remove(&(gone.topic().to_owned(), gone.partition()));
            }
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, _rebalance: &Rebalance<'_>) {
        match consumer.assignment() {
            Ok(owned) => lines::owns(
                owned
                    .elements()
                    .iter()
                    .map(|one| (one.topic(), one.partition())),
            ),
            Err(error) => lines::failed("assignment", error),
        }
    }
}

impl Member {
    /// Tells what was acknowledged; what was not stays pending.
    fn commit(&self, consumer: &BaseConsumer<Self>) {
        let mut pending = self.pending.lock().unwrap();
        if pending.is_empty() {
            return;
        }
        match commit(consumer, &pending) {
            Ok(()) => {
                lines::committed(&pending);
                pending.clear();
            }
            Err(error) => lines::failed("commit", error),
        }
    }

    fn process(&self, message: &BorrowedMessage<'_>) {
        let value = String::from_utf8_lossy(message.payload().unwrap_or_default());
        let (topic, partition) = (message.topic(), message.partition());
        lines::record(topic, partition, message.offset(), &value);
        let mut pending = self.pending.lock().unwrap();
        pending.insert((topic.to_owned(), partition), message.offset() + 1);
    }
}

fn commit(consumer: &BaseConsumer<Member>, offsets: &Offsets) -> KafkaResult<()> {
    let mut wanted = TopicPartitionList::new();
    for ((topic, partition), offset) in offsets {
        wanted.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    consumer.commit(&wanted, CommitMode::Sync)
}

fn settings(options: &Options) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", options.get("bootstrap"))
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500")
        .set("log_level", "3");
    config
}

fn consume(options: &Options) -> KafkaResult<()> {
    lines::hear_wish();
    let consumer: BaseConsumer<Member> = settings(options)
        .set("group.id", options.get("group"))
        .set("client.id", options.get("client"))
        .set("partition.assignment.strategy", options.get("assignor"))
        .set("session.timeout.ms", options.get("session"))
        .set("heartbeat.interval.ms", options.get("heartbeat"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "200")
        .create_with_context(Member::default())?;
    consumer.subscribe(&options.get("topics").split(',').collect::<Vec<_>>())?;
    while !lines::asked_to_leave() {
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => consumer.context().process(&message),
            Some(Err(error)) => lines::failed("poll", error),
        }
        consumer.context().commit(&consumer);
    }
    drop(consumer); // leaves the group
    lines::left();
    Ok(())
}

/// Counts the records that the server did not acknowledge.
#[derive(Clone, Default)]
struct Failures(Arc<AtomicUsize>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _message)) = result {
            eprintln!("{error}");
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn produce(options: &Options) -> KafkaResult<usize> {
    let failures = Failures::default();
    let mut producers: Vec<(String, ThreadedProducer<Failures>)> = Vec::new();
    for (codec, topic) in options.topic_of_codec() {
        let producer = settings(options)
            .set("compression.type", &codec)
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .create_with_context(failures.clone())?;
        producers.push((topic, producer));
    }
    lines::keyed(|key, value| {
        for (topic, producer) in &producers {
            let record = BaseRecord::to(topic).key(key).payload(value);
            producer.send(record).expect("room in the queue");
        }
    });
    for (_topic, producer) in &producers {
        producer.flush(Duration::from_secs(60))?;
    }
    Ok(failures.0.load(Ordering::Relaxed))
}

fn main() -> Result<(), KafkaError> {
    let (mode, options) = Options::from_arguments();
    if mode == "consume" {
        return consume(&options);
    }
    let failed = produce(&options)?;
    std::process::exit(i32::from(failed > 0));
}
