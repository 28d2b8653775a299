//! A partition of `__consumer_offsets` in any state: records are read and written as the same, the groups they make are
//! described, fetched, joined and grow old, and whatever they append can be loaded again. The same for one of
//! `__transaction_state`, as far as its records go.
//!
//! Parts: 0 a key, 1 a value for it, 2 the same in a transaction, 3 a tombstone, 4 the end of a transaction.
#![no_main]

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use klamm::coordinator::cores::Core;
use klamm::coordinator::group::{Effect, Groups, Join, Loading, Now, RequestId, Settings, State};
use klamm::coordinator::loader::Replay;
use klamm::coordinator::records::{GroupValue, Key, OffsetValue};
use klamm::coordinator::subscription;
use klamm::coordinator::transaction::{self, records as of_transactions};
use klamm::types::Offset;
use klamm::wire::error_code::ErrorCode;
use klamm_fuzz::{bounded, parts};
use libfuzzer_sys::fuzz_target;

const PRODUCER_ID: i64 = 7;
const SETTINGS: Settings = Settings {
    min_session_timeout_ms: 6_000,
    max_session_timeout_ms: 1_800_000,
    initial_rebalance_delay_ms: 0,
    max_size: 3,
    offset_metadata_max: 4096,
    offsets_retention_ms: 600_000,
};

fuzz_target!(|bytes: &[u8]| {
    let (flags, parts) = parts::split(bytes, 5);
    for (kind, bytes) in &parts {
        match kind {
            0 => {
                same(bytes, Key::decode, Key::encode);
                same(bytes, of_transactions::Key::decode, of_transactions::Key::encode);
            }
            _ => {
                same(bytes, OffsetValue::decode, OffsetValue::encode);
                same(bytes, GroupValue::decode, GroupValue::encode);
                same(bytes, of_transactions::Value::decode, of_transactions::Value::encode);
                let _ = bounded(bytes.len(), || subscription::topics(bytes).is_ok());
            }
        }
    }
    let _ = bounded(bytes.len(), || load_transactions(&parts));
    let mut groups = bounded(bytes.len(), || load(&parts));
    let mut now = Now { monotonic_ms: 1, wall_ms: 1_700_000_000_000 };
    let ids: Vec<Arc<str>> = groups.list().map(|listed| listed.group).collect();
    for (number, id) in ids.iter().enumerate() {
        let described = groups.describe(id);
        assert_ne!(described.state, State::Dead);
        let _ = groups.fetch_all(id, flags & 1 != 0);
        if flags & 2 != 0 {
            groups.join(now, newcomer(number as u64, id));
        }
    }
    let mut joins = if flags & 2 != 0 { ids.len() } else { 0 };
    // From timer to timer: what waits is answered, what is old goes. Static members of a long session and a short rebalance
    // time-out that do not come back are waited for in rounds: who is not at rest after so many timers is not judged.
    let mut at_rest = false;
    for _ in 0..1000 {
        joins -= settle(&mut groups, now, flags & 4 != 0);
        let Some(due) = groups.next_due_ms() else {
            at_rest = true;
            break;
        };
        now.wall_ms += (due - now.monotonic_ms).max(0);
        now.monotonic_ms = now.monotonic_ms.max(due);
        groups.tick(now);
        groups.expire(now);
    }
    joins -= settle(&mut groups, now, true);
    assert!(joins == 0 || !at_rest, "{joins} joins were never answered");
});

/// The same records as those of `__transaction_state`: transactions that are taken over, run out of time and expire.
fn load_transactions(parts: &[(u8, &[u8])]) -> usize {
    let mut loading = transaction::Loading::default();
    let mut key: &[u8] = &[];
    for (kind, bytes) in parts {
        let _ = match kind {
            0 => {
                key = bytes;
                Ok(())
            }
            3 => loading.replay(Offset(0), None, key, None),
            _ => loading.replay(Offset(0), None, key, Some(bytes)),
        };
    }
    let now = Now { monotonic_ms: 1, wall_ms: 1_700_000_000_000 };
    let mut transactions = loading.finish(now, transaction::Settings { id_expiration_ms: 1_000 }, 0);
    transactions.abort_timed_out(now);
    transactions.expire(now);
    transactions.take_effects().len()
}

/// What the loader does with the records of a log.
fn load(parts: &[(u8, &[u8])]) -> Groups {
    let mut loading = Loading::default();
    let mut key: &[u8] = &[];
    for (offset, (kind, bytes)) in parts.iter().enumerate() {
        let at = Offset(offset as i64);
        let _ = match kind {
            0 => {
                key = bytes;
                Ok(())
            }
            1 => loading.replay(at, None, key, Some(bytes)),
            2 => loading.replay(at, Some(PRODUCER_ID), key, Some(bytes)),
            3 => loading.replay(at, None, key, None),
            _ => {
                loading.end_transaction(PRODUCER_ID, bytes.len() % 2 == 0);
                Ok(())
            }
        };
    }
    loading.finish(Now { monotonic_ms: 1, wall_ms: 1_700_000_000_000 }, SETTINGS)
}

fn newcomer(number: u64, group: &Arc<str>) -> Join {
    Join {
        request: RequestId(number),
        group: group.clone(),
        member_id: "".into(),
        fresh_member_id: format!("fresh-{number}").into(),
        group_instance_id: None,
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 6_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: subscription::CONSUMER.into(),
        protocols: vec![("range".into(), Bytes::from_static(b"\0\0\0\0\0\0"))],
        require_known_member_id: false,
        may_skip_assignment: false,
    }
}

/// Does what the groups ask for; answers how many joins were told something.
fn settle(groups: &mut Groups, now: Now, takes: bool) -> usize {
    let mut told = 0;
    loop {
        let effects = groups.take_effects();
        if effects.is_empty() {
            return told;
        }
        for effect in effects {
            match effect {
                Effect::Joined(..) => told += 1,
                Effect::Synced(..) | Effect::Committed(..) => {}
                Effect::Append(append) => {
                    let mut again = Loading::default();
                    for (key, value) in &append.records {
                        again.replay(Offset(0), None, key, value.as_deref()).expect("written by klamm");
                    }
                    let outcome = if takes { Ok(Offset(0)) } else { Err(ErrorCode::NotLeaderOrFollower) };
                    groups.appended(now, append.id, outcome);
                }
            }
        }
    }
}

/// Whatever can be read is written so that it reads as the same.
fn same<T: PartialEq + Debug, E: Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T) -> Bytes,
) {
    let Ok(value) = bounded(bytes.len(), || decode(bytes)) else { return };
    assert_eq!(decode(&encode(&value)).expect("written by klamm"), value);
}
