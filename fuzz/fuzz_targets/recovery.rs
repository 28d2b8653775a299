//! The files of one partition and of its log directory, any bytes in each, as a crash or a stop left them: the log comes
//! up with the sound batches at its beginning, or the directory is refused; never a panic, and a second start finds the
//! same. Parts as in `klamm_fuzz::parts`; kinds are indexes into [`names`].
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use klamm::clock::ManualClock;
use klamm::config::{BrokerConfig, TopicConfig};
use klamm::random::SeededRandom;
use klamm::sim::disk::{Keep, SimDisk};
use klamm::storage::log::{AppendParams, Log, LogOffsets, Origin, Verification};
use klamm::storage::manager::{LogManager, ManagerError};
use klamm::types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};
use klamm::wire::batch::{BatchBuilder, BatchOptions, Batches};
use klamm::wire::compression::DECOMPRESSED_MAX;
use klamm_fuzz::{files, parts};
use libfuzzer_sys::fuzz_target;

const TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(77));

/// The last stop was orderly.
const CLEAN: u8 = 1;
/// Checksums of batches are made to fit.
const FIT: u8 = 2;
const COMPACTED: u8 = 4;

/// Kinds from here on lie in the log directory itself.
const IN_LOG_DIR: u8 = 13;
const KINDS: u8 = 17;

/// Files by kind; `later` is the base of the second segment.
fn names(later: i64) -> [String; KINDS as usize] {
    let later = format!("{later:020}");
    let first = format!("{:020}", 0);
    [
        format!("{first}.log"),
        format!("{first}.index"),
        format!("{first}.timeindex"),
        format!("{first}.txnindex"),
        format!("{first}.snapshot"),
        format!("{later}.log"),
        format!("{later}.index"),
        format!("{later}.timeindex"),
        format!("{later}.txnindex"),
        format!("{later}.snapshot"),
        "leader-epoch-checkpoint".into(),
        format!("{first}.log.swap"),
        format!("{later}.log.cleaned"),
        "recovery-point-offset-checkpoint".into(),
        "log-start-offset-checkpoint".into(),
        "replication-offset-checkpoint".into(),
        "meta.properties".into(),
    ]
}

fuzz_target!(|input: &[u8]| {
    let (flags, parts) = parts::split(input, KINDS);
    let (disk, clock) = files::disk();
    let later = parts.iter().find(|(kind, _)| *kind == 5).and_then(|(_, bytes)| bytes.first_chunk());
    let names = names(later.map_or(1, |bytes| i64::from_be_bytes(*bytes)).clamp(1, i64::MAX - (1 << 33)));
    for (kind, bytes) in &parts {
        let dir = if *kind >= IN_LOG_DIR { "/logs" } else { "/logs/t-0" };
        let mut bytes = bytes.to_vec();
        if flags & FIT != 0 && names[usize::from(*kind)].contains(".log") {
            files::fit_batches(&mut bytes);
        }
        files::put(&disk, &Path::new(dir).join(&names[usize::from(*kind)]), &bytes);
    }
    if flags & CLEAN != 0 {
        files::put(&disk, Path::new("/logs/.kafka_cleanshutdown"), b"{\"version\":0,\"brokerEpoch\":-1}");
    }
    disk.crash(Keep::Everything);

    let world = World { disk, clock, compacted: flags & COMPACTED != 0 };
    let only = |allowed: &[u8]| parts.iter().all(|(kind, _)| allowed.contains(kind));
    // One segment, nothing that is believed instead of being checked: what must be left is known.
    let expected = (flags & CLEAN == 0 && only(&[0, 1, 2, 3, 4])).then(|| {
        let log = files::get(&world.disk, Path::new("/logs/t-0/00000000000000000000.log"));
        sound(&log.unwrap_or_default())
    });
    let manager = match world.start() {
        Ok(manager) => manager,
        Err(error) => {
            // Right where a file of the directory itself is damaged, or records that an orderly stop vouched for: nothing
            // of those is cut without being asked. What is checked anyway is never a reason.
            let own_files = only(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
            assert!(flags & CLEAN != 0 || !own_files, "{error}");
            return;
        }
    };
    let log = world.log(&manager);
    let checked = flags & CLEAN == 0 && parts.iter().all(|(kind, _)| *kind != IN_LOG_DIR);
    let found = State::of(&log, checked);
    if let Some(expected) = &expected {
        assert!(found.bytes == *expected, "{} bytes are left, {} are sound", found.bytes.len(), expected.len());
    }
    // Nothing more may be lost, nothing may come back, also when the process dies right away. A log that was believed
    // instead of being checked is believed again only after an orderly stop.
    if !checked {
        manager.close();
    }
    drop((log, manager));
    world.disk.crash(Keep::Everything);
    let manager = world.start().expect("a directory that was good a moment ago");
    let log = world.log(&manager);
    assert_eq!(State::of(&log, checked), found, "after a second start");
    append(&log, found.offsets.log_end);
    let grown = State::of(&log, checked);
    manager.close();
    drop((log, manager));

    let manager = world.start().expect("a directory after an orderly stop");
    assert_eq!(State::of(&world.log(&manager), checked), grown, "after an orderly stop");
});

struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    compacted: bool,
}

impl World {
    fn topic(&self) -> Arc<TopicConfig> {
        Arc::new(TopicConfig {
            cleanup_compact: self.compacted,
            index_interval_bytes: 64,
            segment_index_bytes: 1 << 12,
            ..TopicConfig::default()
        })
    }

    fn start(&self) -> Result<LogManager, ManagerError> {
        let config = BrokerConfig { log_dirs: vec![PathBuf::from("/logs")], ..BrokerConfig::default() };
        let random = Arc::new(SeededRandom::new(1));
        let manager = LogManager::open(Arc::new(self.disk.clone()), self.clock.clone(), random, Arc::new(config))?;
        manager.claim(BrokerId(1), "fuzz")?;
        manager.load(&|name| (name == "t").then(|| (TOPIC_ID, self.topic())))?;
        Ok(manager)
    }

    fn log(&self, manager: &LogManager) -> Arc<Log> {
        manager.get_or_create(&TopicPartition::new("t", 0), TOPIC_ID, self.topic()).expect("a log")
    }
}

/// What a reader can tell of a log.
#[derive(Debug, PartialEq)]
struct State {
    offsets: LogOffsets,
    /// From log start to log end, or to where damage that nobody looked for begins.
    bytes: Vec<u8>,
    epoch: Option<LeaderEpoch>,
    producers: Vec<(i64, i16, i32)>,
}

impl State {
    /// Reads everything. Where the log was `checked`, every batch must be sound and found by offset, and by time as far as
    /// the records in front can be read: a checksum that fits says nothing of what stands behind it.
    fn of(log: &Log, checked: bool) -> State {
        let offsets = log.offsets();
        assert!(Offset::ZERO <= offsets.log_start && offsets.log_start <= offsets.last_stable);
        assert!(offsets.last_stable <= offsets.high_watermark && offsets.high_watermark <= offsets.log_end);
        let mut bytes = Vec::new();
        let mut at = offsets.log_start;
        let mut readable = true;
        while at < offsets.log_end {
            let read = match log.read(at, offsets.log_end, 1 << 16, true) {
                Ok(read) => read,
                Err(error) if checked => panic!("at {at} of {offsets:?}: {error}"),
                Err(_) => break,
            };
            let _ = log.aborted_transactions(at, &read).map_err(|error| assert!(!checked, "{error}"));
            let Some(slice) = read.slice.filter(|slice| slice.len > 0) else {
                // Offsets that compaction took, or that a checkpoint promised, at the end of the log.
                break;
            };
            let mut piece = vec![0; slice.len];
            slice.file.read_exact_at(&mut piece, slice.position).expect("bytes of the log");
            let before = at;
            for raw in Batches::new(&piece).map_while(Result::ok) {
                at = last_offset(&raw) + 1;
                if checked {
                    assert!(raw.crc_matches(), "an unsound batch below {at}");
                    readable = readable && by_time(log, &raw, offsets);
                }
                bytes.extend_from_slice(raw.bytes);
            }
            if at <= before {
                assert!(!checked, "nothing to read at {before} of {offsets:?}");
                break;
            }
        }
        let epoch = log.latest_epoch();
        let end = epoch.and_then(|epoch| log.end_offset_for_epoch(epoch));
        assert_eq!(end, epoch.map(|epoch| (epoch, offsets.log_end)));
        let mut producers: Vec<_> =
            log.producers().iter().map(|(id, state)| (*id, state.epoch, state.last_sequence())).collect();
        producers.sort_unstable();
        State { offsets, bytes, epoch, producers }
    }
}

fn last_offset(raw: &klamm::wire::batch::RawBatch<'_>) -> Offset {
    match raw.v2() {
        Ok(batch) => batch.header.last_offset(),
        Err(_) => raw.offset(),
    }
}

/// Looking for a batch's largest timestamp finds a record at or before that batch. False where the batch cannot be read
/// here (compressed, of an old format, records that are none): a search may stop at it.
fn by_time(log: &Log, raw: &klamm::wire::batch::RawBatch<'_>, offsets: LogOffsets) -> bool {
    let Some(batch) = raw.v2().ok().filter(|batch| batch.header.codec_bits() == 0 && batch.check_records().is_ok())
    else {
        return false;
    };
    if batch.header.is_control() {
        return true;
    }
    let latest = batch.records().flatten().map(|record| record.timestamp(&batch.header)).max();
    let latest = latest.filter(|latest| *latest >= 0 && *latest == batch.header.max_timestamp);
    if let Some(latest) = latest
        && let Some(found) = log.offset_for_timestamp(latest, offsets.log_end).expect("a search")
    {
        assert!(found.timestamp_ms >= latest);
        assert!(found.offset >= offsets.log_start && found.offset < offsets.log_end, "{found:?} in {offsets:?}");
    }
    true
}

/// A log that came up takes records; they stand where it ended.
fn append(log: &Log, end: Offset) {
    let mut builder = BatchBuilder::new(BatchOptions::default()).expect("a builder");
    builder.append(1, Some(b"k"), Some(b"v"), &[]).expect("a record");
    let mut batch = builder.finish().expect("a batch");
    let epoch = LeaderEpoch(log.latest_epoch().map_or(0, |epoch| epoch.0));
    let params = AppendParams {
        origin: Origin::Client { produce_version: 9 },
        verification: Verification::NotAsked,
        leader_epoch: epoch,
        now_ms: 1,
        decompressed_max: DECOMPRESSED_MAX,
    };
    match log.append_as_leader(&mut batch, params) {
        Ok(info) => assert_eq!(info.first_offset, end),
        Err(error) => panic!("{error}"),
    }
}

/// The batches at the front of one segment that belong together: whole, sound, offsets that rise.
fn sound(bytes: &[u8]) -> Vec<u8> {
    let mut kept = 0;
    let mut next = 0;
    for raw in Batches::new(bytes).map_while(Result::ok) {
        let last = match (raw.magic, raw.v2()) {
            (2, Ok(batch)) if batch.header.last_offset_delta >= 0 => batch.header.last_offset().0,
            (2, _) => break,
            (1, _) if raw.bytes.len() < 34 => break,
            _ => raw.offset().0,
        };
        let begins = raw.offset().0;
        if begins < next || last > i64::from(i32::MAX) || !raw.crc_matches() {
            break;
        }
        next = last + 1;
        kept += raw.bytes.len();
    }
    bytes[..kept].to_vec()
}
