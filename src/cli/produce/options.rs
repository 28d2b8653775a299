//! kafka-console-producer's flags, and the settings they and the producer properties amount to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Parser;

use crate::cli::properties::Properties;
use crate::wire::compression::Codec;

/// Writes each line of stdin as a record
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, alias = "broker-list", required = true)]
    pub bootstrap_server: String,
    #[arg(long)]
    pub topic: String,
    /// Sends each record by itself and awaits its answer
    #[arg(long)]
    sync: bool,
    /// none, gzip, snappy, lz4 or zstd; gzip without a value
    #[arg(long, num_args = 0..=1, default_missing_value = "gzip")]
    compression_codec: Option<String>,
    /// Bytes of records sent at once per partition [default: 524288]
    #[arg(long, alias = "max-partition-memory-bytes")]
    batch_size: Option<usize>,
    /// Bytes of records held back over all partitions
    #[arg(long, default_value_t = 32 << 20)]
    max_memory_bytes: usize,
    /// Milliseconds to wait for a batch to fill; by default one is sent when nothing else is on its way
    #[arg(long)]
    timeout: Option<u64>,
    /// 0, 1 or all
    #[arg(long)]
    request_required_acks: Option<String>,
    /// Milliseconds the broker may wait for its replicas
    #[arg(long, default_value_t = 30_000)]
    request_timeout_ms: i32,
    #[arg(long, default_value_t = 3)]
    message_send_max_retries: u32,
    #[arg(long, default_value_t = 100)]
    retry_backoff_ms: u64,
    /// Milliseconds to wait for the topic's leaders
    #[arg(long, default_value_t = 60_000)]
    max_block_ms: u64,
    #[arg(long, hide = true)]
    metadata_expiry_ms: Option<u64>,
    #[arg(long, hide = true)]
    socket_buffer_size: Option<u64>,
    #[arg(long, hide = true)]
    line_reader: Option<String>,
    /// Of the lines: parse.key, parse.headers, key.separator, headers.delimiter, headers.separator,
    /// headers.key.separator, null.marker, ignore.error
    #[arg(long)]
    pub property: Vec<String>,
    /// A file of such properties
    #[arg(long)]
    pub reader_config: Option<PathBuf>,
    /// acks, batch.size, client.id, compression.type and level, linger.ms, max.block.ms, request.timeout.ms, retries, ...
    #[arg(long)]
    producer_property: Vec<String>,
    /// A file of such properties
    #[arg(long = "producer.config")]
    producer_config: Option<PathBuf>,
}

/// How records are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// -1, 0 or 1.
    pub acks: i16,
    pub codec: Codec,
    pub level: Option<i32>,
    /// Uncompressed bytes of a batch.
    pub batch_size: usize,
    /// Bytes of all unsent batches.
    pub max_memory: usize,
    pub sync: bool,
    /// `None`: as long as something else is on its way.
    pub linger_ms: Option<i64>,
    pub request_timeout_ms: i32,
    pub retries: u32,
    pub retry_backoff: Duration,
    pub max_block: Duration,
    /// Unanswered requests per broker.
    pub in_flight: usize,
    pub client_id: String,
}

/// Large enough that neither side notices the single batch, and below a topic's default `max.message.bytes`.
const BATCH_SIZE: usize = 512 * 1024;

impl Settings {
    /// Flags win over properties, as in Kafka.
    pub fn new(args: &Args) -> anyhow::Result<Settings> {
        if let Some(class) = args.line_reader.as_deref().filter(|class| !class.ends_with("LineMessageReader")) {
            bail!("--line-reader {class} is a Java class, which this program cannot load: lines are read one by one");
        }
        let mut given = Properties::read(args.producer_config.as_deref(), &args.producer_property)?;
        let acks = given.take("acks");
        let acks = args.request_required_acks.clone().or(acks);
        let codec = given.take("compression.type");
        let codec = codec_named(args.compression_codec.as_deref().or(codec.as_deref()).unwrap_or("none"))?;
        let mut level = None;
        for leveled in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
            let value: Option<i32> = given.parse(&format!("compression.{leveled}.level"))?;
            level = level.or(value.filter(|_| leveled == codec));
        }
        let batch_size = given.parse("batch.size")?;
        let linger: Option<u64> = given.parse("linger.ms")?;
        let linger = args.timeout.or(linger);
        let settings = Settings {
            acks: acks_named(acks.as_deref().unwrap_or("all"))?,
            codec,
            level,
            batch_size: args.batch_size.or(batch_size).unwrap_or(BATCH_SIZE),
            max_memory: given.parse("buffer.memory")?.unwrap_or(args.max_memory_bytes),
            sync: args.sync,
            linger_ms: linger.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
            request_timeout_ms: given.parse("request.timeout.ms")?.unwrap_or(args.request_timeout_ms),
            retries: given.parse("retries")?.unwrap_or(args.message_send_max_retries),
            retry_backoff: Duration::from_millis(given.parse("retry.backoff.ms")?.unwrap_or(args.retry_backoff_ms)),
            max_block: Duration::from_millis(given.parse("max.block.ms")?.unwrap_or(args.max_block_ms)),
            in_flight: given.parse("max.in.flight.requests.per.connection")?.unwrap_or(5).max(1),
            client_id: given.take("client.id").unwrap_or_else(|| "console-producer".to_owned()),
        };
        given.warn_of_the_rest("--producer-property");
        Ok(settings)
    }
}

fn codec_named(name: &str) -> anyhow::Result<Codec> {
    let named = Codec::ALL.into_iter().find(|codec| codec.name() == name);
    named.ok_or_else(|| anyhow!("{name} is no codec: none, gzip, snappy, lz4 and zstd are"))
}

fn acks_named(name: &str) -> anyhow::Result<i16> {
    match name.trim() {
        "all" | "-1" => Ok(-1),
        "0" => Ok(0),
        "1" => Ok(1),
        other => bail!("{other} is no number of acks: 0, 1 and all are"),
    }
}
