//! `klamm dump-log`: what lies in segment, index and snapshot files, with DumpLogSegments' flags and output (3.9.1).
//!
//! Reads with the broker's own readers and never opens a file for writing. What Kafka's tool ends on with a stack trace (bytes
//! that are no batch, an unreadable payload) is one line on stderr here, and the next file is dumped; the exit code is 1.

mod contents;
mod index;
mod log;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Parser;

use crate::storage::producer_snapshot;
use crate::storage::txn_index;
use crate::types::Offset;
use contents::optional_long;
use index::{Check, Findings};

/// Prints what lies in segment, index and snapshot files
#[derive(Debug, Parser)]
pub struct Args {
    /// Comma separated .log, .index, .timeindex, .txnindex and .snapshot files
    #[arg(long, required = true, value_delimiter = ',')]
    files: Vec<PathBuf>,
    /// Prints keys and values; implies --deep-iteration
    #[arg(long)]
    print_data_log: bool,
    /// Prints every record, not only the batches
    #[arg(long)]
    deep_iteration: bool,
    /// Only checks indexes as the broker does on start
    #[arg(long)]
    index_sanity_check: bool,
    /// Checks indexes against their log without printing their entries
    #[arg(long)]
    verify_index_only: bool,
    /// Bytes of log read behind an index entry
    #[arg(long, default_value_t = 5 << 20)]
    max_message_size: u32,
    /// Reads only batches that end within so many bytes of each .log
    #[arg(long, default_value_t = i32::MAX as u32)]
    max_bytes: u32,
    /// Prints records without offset, timestamp, sizes and the like
    #[arg(long)]
    skip_record_metadata: bool,
    #[arg(long, hide = true)]
    offsets_decoder: bool,
    #[arg(long, hide = true)]
    transaction_log_decoder: bool,
    #[arg(long, hide = true)]
    cluster_metadata_decoder: bool,
    #[arg(long, hide = true)]
    remote_log_metadata_decoder: bool,
    #[arg(long, hide = true)]
    key_decoder_class: Option<String>,
    #[arg(long, hide = true)]
    value_decoder_class: Option<String>,
}

/// 1 after anything that could not be read.
pub fn main(args: Args) -> ExitCode {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let sound = dump(&args, &mut out, &mut io::stderr()).and_then(|sound| {
        out.flush()?;
        Ok(sound)
    });
    match sound {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => super::failed(&error),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(broken)
}

/// Whether all files could be read to their end. An error is one of `out`.
fn dump(args: &Args, out: &mut impl Write, err: &mut impl Write) -> anyhow::Result<bool> {
    refuse_decoders(args)?;
    let mut findings = Findings::default();
    let mut sound = true;
    for path in &args.files {
        writeln!(out, "Dumping {}", path.display())?;
        match dump_file(args, path, &mut findings, out, err) {
            Err(error) if !is_broken_pipe(&error) => {
                sound = false;
                out.flush()?;
                writeln!(err, "{}: {error:#}", path.display())?;
            }
            other => other?,
        }
    }
    out.flush()?;
    findings.report(err)?;
    Ok(sound)
}

fn refuse_decoders(args: &Args) -> anyhow::Result<()> {
    let topics = [
        (args.offsets_decoder, "--offsets-decoder"),
        (args.transaction_log_decoder, "--transaction-log-decoder"),
        (args.cluster_metadata_decoder, "--cluster-metadata-decoder"),
        (args.remote_log_metadata_decoder, "--remote-log-metadata-decoder"),
    ];
    if let Some((_, flag)) = topics.iter().find(|(given, _)| *given) {
        bail!("{flag} is not there yet: --print-data-log prints keys and values as text");
    }
    for class in [&args.key_decoder_class, &args.value_decoder_class].into_iter().flatten() {
        if !class.ends_with(".StringDecoder") {
            bail!("{class} is a Java class, which this program cannot load: keys and values are printed as text");
        }
    }
    Ok(())
}

fn dump_file(
    args: &Args,
    path: &Path,
    findings: &mut Findings,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<()> {
    let check = match (args.index_sanity_check, args.verify_index_only) {
        (true, _) => Check::Sanity,
        (_, true) => Check::Verify,
        _ => Check::Print,
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("log") => {
            let depth = log::Depth {
                records: args.deep_iteration || args.print_data_log,
                metadata: !args.skip_record_metadata,
                contents: args.print_data_log,
            };
            log::dump(path, depth, args.max_bytes, findings, out)
        }
        Some("index") => index::dump_offsets(path, check, args.max_message_size, findings, out),
        Some("timeindex") => index::dump_times(path, check, findings, out),
        Some("txnindex") => dump_txn_index(path, out),
        Some("snapshot") => dump_snapshot(path, out),
        _ => Ok(writeln!(err, "Ignoring unknown file {}", path.display())?),
    }
}

/// The offset in the name: of `00000000000000000042.log` 42.
fn base_offset(path: &Path) -> anyhow::Result<Offset> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.split('.').next().unwrap_or_default();
    number.parse().map(Offset).map_err(|_| anyhow!("the file's name does not begin with an offset"))
}

fn dump_txn_index(path: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let bytes = fs::read(path)?;
    let entries = txn_index::decode(&bytes, base_offset(path)?).context("damaged")?;
    for txn in entries {
        writeln!(
            out,
            "version: 0 producerId: {} firstOffset: {} lastOffset: {} lastStableOffset: {}",
            txn.producer_id, txn.first_offset.0, txn.last_offset.0, txn.last_stable_offset.0
        )?;
    }
    Ok(())
}

fn dump_snapshot(path: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    for (id, state) in producer_snapshot::decode_entries(&fs::read(path)?)? {
        let open = optional_long(state.txn_first_offset.map(|first| first.0));
        write!(
            out,
            "producerId: {id} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {open} lastTimestamp: {} ",
            state.epoch, state.coordinator_epoch, state.last_timestamp_ms
        )?;
        if let Some(batch) = state.last_batch() {
            write!(
                out,
                "firstSequence: {} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
                batch.first_sequence(),
                batch.last_sequence,
                batch.last_offset.0,
                batch.offset_delta,
                batch.timestamp_ms
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
