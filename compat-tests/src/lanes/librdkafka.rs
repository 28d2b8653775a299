//! The `rdkafka` crate: a recent librdkafka, producer, assigned consumer, admin.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};

use super::load;
use crate::broker::{Broker, On};
use crate::lane::{Run, skip};

const LIMIT: Duration = Duration::from_secs(30);

fn config(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("broker.address.family", "v4");
    config
}

/// Counts deliveries and keeps the first error.
#[derive(Default)]
struct Deliveries(std::sync::Mutex<(usize, Option<String>)>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let mut state = self.0.lock().expect("no panic while held");
        match result {
            Ok(_) => state.0 += 1,
            Err((error, _)) => drop(state.1.get_or_insert_with(|| error.to_string())),
        }
    }
}

fn producer(address: &str, settings: &[(&str, &str)]) -> Result<BaseProducer<Deliveries>> {
    let mut config = config(address);
    config.set("linger.ms", "20");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    Ok(config.create_with_context(Deliveries::default())?)
}

fn send(producer: &BaseProducer<Deliveries>, topic: &str, numbers: Range<usize>) -> Result<()> {
    for i in numbers {
        let (key, value) = (format!("k{i}"), format!("value {i}"));
        let headers = OwnedHeaders::new().insert(Header { key: "i", value: Some(&i.to_string()) });
        let record = BaseRecord::to(topic).partition(i as i32 % 3).key(&key).payload(&value).headers(headers);
        producer.send(record).map_err(|(error, _)| error)?;
        producer.poll(Duration::ZERO);
    }
    Ok(())
}

fn delivered(producer: &BaseProducer<Deliveries>) -> Result<usize> {
    Ok(producer.context().0.lock().map_err(|_| anyhow!("a callback panicked"))?.0)
}

/// Waits until all of `count` are delivered.
fn finish(producer: &BaseProducer<Deliveries>, count: usize) -> Result<()> {
    producer.flush(LIMIT)?;
    let state = producer.context().0.lock().map_err(|_| anyhow!("a callback panicked"))?;
    ensure!(state.0 == count && state.1.is_none(), "{} of {count} delivered, {:?}", state.0, state.1);
    Ok(())
}

fn produce(address: &str, topic: &str, count: usize, settings: &[(&str, &str)]) -> Result<()> {
    let producer = producer(address, settings)?;
    send(&producer, topic, 0..count)?;
    finish(&producer, count)
}

/// The broker is killed under an idempotent producer, three times with batches in flight: each record is there once.
fn idempotent_through_kills(on: &On, count: usize) -> Result<()> {
    if let On::At(_) = on {
        return skip("a foreign broker cannot be killed");
    }
    let mut broker = Broker::start(on, &[])?;
    let (address, topic) = (broker.address(), "once");
    load::create_topic(&address, topic, 3)?;
    let small = [("enable.idempotence", "true"), ("linger.ms", "0"), ("batch.num.messages", "10")];
    let producer = producer(&address, &small)?;
    let part = count / 3;
    for kill in 0..3 {
        send(&producer, topic, kill * part..(kill + 1) * part)?;
        let until = Instant::now() + LIMIT;
        while delivered(&producer)? <= kill * part {
            ensure!(Instant::now() < until, "{} of {count} delivered before kill {kill}", delivered(&producer)?);
            producer.poll(Duration::from_millis(1));
        }
        broker.kill()?;
        broker.start_again()?;
    }
    finish(&producer, 3 * part)?;
    let consumer: BaseConsumer = config(&address).set("group.id", "unused").create()?;
    let mut stored = 0;
    for partition in 0..3 {
        stored += consumer.fetch_watermarks(topic, partition, LIMIT)?.1;
    }
    ensure!(stored == 3 * part as i64, "{stored} records are stored, {} were sent", 3 * part);
    consume(&address, topic, 3 * part)
}

/// The newest `count` records of three partitions.
fn consume(address: &str, topic: &str, count: usize) -> Result<()> {
    let mut config = config(address);
    // A group id must be set; it is never used: partitions are assigned, nothing is committed.
    config.set("group.id", "unused").set("enable.auto.commit", "false").set("enable.partition.eof", "false");
    let consumer: BaseConsumer = config.create()?;
    let mut assignment = TopicPartitionList::new();
    for partition in 0..3 {
        let (_, high) = consumer.fetch_watermarks(topic, partition, LIMIT)?;
        let mine = (count as i64 + 2 - i64::from(partition)) / 3;
        assignment.add_partition_offset(topic, partition, Offset::Offset(high - mine))?;
    }
    consumer.assign(&assignment)?;
    let mut seen = vec![false; count];
    let mut last = [None; 3];
    let until = Instant::now() + LIMIT;
    while seen.contains(&false) {
        ensure!(Instant::now() < until, "{} of {count} seen", seen.iter().filter(|seen| **seen).count());
        let Some(message) = consumer.poll(Duration::from_millis(200)) else { continue };
        let message = message?;
        let value = std::str::from_utf8(message.payload().context("no value")?)?;
        let i: usize = value.strip_prefix("value ").context("not ours")?.parse()?;
        ensure!(message.key() == Some(format!("k{i}").as_bytes()), "record {i} has another's key");
        let header = message.headers().context("no headers")?.get(0);
        ensure!(header.key == "i" && header.value == Some(i.to_string().as_bytes()), "record {i} has another's header");
        ensure!(message.partition() == i as i32 % 3, "record {i} in partition {}", message.partition());
        let before = last[i % 3].replace(i);
        ensure!(before < Some(i), "record {i} comes after {before:?}");
        ensure!(!std::mem::replace(&mut seen[i], true), "record {i} came twice");
    }
    Ok(())
}

pub fn lane(run: &mut Run) -> Result<()> {
    let address = run.address()?;
    let stamp = std::process::id();
    let name = |what: &str| format!("rd-{stamp}-{what}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let admin: AdminClient<DefaultClientContext> = config(&address).create()?;
    let options = AdminOptions::new().request_timeout(Some(LIMIT)).operation_timeout(Some(LIMIT));
    let create = |topic: &str, partitions: i32, configs: &[(&str, &str)]| -> Result<()> {
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for (key, value) in configs {
            new = new.set(key, value);
        }
        for result in runtime.block_on(admin.create_topics(&[new], &options))? {
            result.map_err(|(topic, error)| anyhow!("{topic}: {error}"))?;
        }
        Ok(())
    };
    let count = if run.full() { 100_000 } else { 3_000 };

    let topic = name("t");
    run.settled("create a topic", create(&topic, 3, &[("retention.ms", "3600000")]));
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        run.unit(format!("{codec} out and in"), || {
            produce(&address, &topic, count, &[("compression.type", codec)])?;
            consume(&address, &topic, count)
        });
    }
    for acks in ["0", "1", "all"] {
        run.unit(format!("acks {acks}"), || {
            produce(&address, &topic, count, &[("acks", acks)])?;
            consume(&address, &topic, count)
        });
    }
    run.unit("idempotent", || {
        produce(&address, &topic, count, &[("enable.idempotence", "true")])?;
        consume(&address, &topic, count)
    });
    let on = run.on.clone();
    run.unit("idempotent through kill -9", || idempotent_through_kills(&on, 3 * count));
    run.unit("offsets by time", || {
        let consumer: BaseConsumer = config(&address).set("group.id", "unused").create()?;
        let mut times = TopicPartitionList::new();
        times.add_partition_offset(&topic, 0, Offset::Offset(1))?;
        let found = consumer.offsets_for_times(times, LIMIT)?;
        let first = found.find_partition(&topic, 0).context("no answer")?;
        ensure!(first.offset() == Offset::Offset(0), "{:?}", first.offset());
        Ok(())
    });
    run.unit("create what exists, and what cannot be", || {
        for (topic, partitions, configs) in
            [(topic.as_str(), 3, &[][..]), ("a/b", 1, &[]), ("bad", 1, &[("segment.ms", "x")])]
        {
            ensure!(create(topic, partitions, configs).is_err(), "{topic} was created");
        }
        Ok(())
    });
    run.unit("describe and alter configs", || {
        let resource = ResourceSpecifier::Topic(&topic);
        for result in runtime
            .block_on(admin.alter_configs(&[AlterConfig::new(resource).set("retention.ms", "7200000")], &options))?
        {
            result.map_err(|(_, error)| anyhow!("{error}"))?;
        }
        let until = Instant::now() + LIMIT;
        loop {
            let described = runtime.block_on(admin.describe_configs([&resource], &options))?;
            let config = described.into_iter().next().context("no answer")??;
            let value = config.get("retention.ms").and_then(|entry| entry.value.clone());
            if value.as_deref() == Some("7200000") {
                break;
            }
            ensure!(Instant::now() < until, "retention.ms is {value:?}");
        }
        let broker = runtime.block_on(admin.describe_configs([&ResourceSpecifier::Broker(1)], &options))?;
        let broker = broker.into_iter().next().context("no answer")??;
        ensure!(broker.get("num.partitions").is_some(), "no num.partitions");
        Ok(())
    });
    let growing = name("growing");
    run.settled("create one to grow", create(&growing, 1, &[]));
    run.settled("create partitions", {
        let results = runtime.block_on(admin.create_partitions(&[NewPartitions::new(&growing, 4)], &options));
        results.map_err(anyhow::Error::from).and_then(|results| {
            results
                .into_iter()
                .try_for_each(|result| result.map(|_| ()).map_err(|(topic, error)| anyhow!("{topic}: {error}")))
        })
    });
    run.unit("delete records", || {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&topic, 0, Offset::Offset(5))?;
        runtime.block_on(admin.delete_records(&offsets, &options))?;
        let consumer: BaseConsumer = config(&address).set("group.id", "unused").create()?;
        let (low, _) = consumer.fetch_watermarks(&topic, 0, LIMIT)?;
        ensure!(low == 5, "the log starts at {low}");
        Ok(())
    });
    run.settled("delete topics", {
        let results = runtime.block_on(admin.delete_topics(&[&topic, &growing], &options));
        results.map_err(anyhow::Error::from).and_then(|results| {
            results
                .into_iter()
                .try_for_each(|result| result.map(|_| ()).map_err(|(topic, error)| anyhow!("{topic}: {error}")))
        })
    });
    Ok(())
}
