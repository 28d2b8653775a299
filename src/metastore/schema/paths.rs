//! Where things lie.

use crate::types::BrokerId;

pub const CLUSTER: &str = "/cluster";
pub const CLUSTER_ID: &str = "/cluster/id";
pub const CONTROLLER: &str = "/controller";
pub const CONTROLLER_EPOCH: &str = "/controller_epoch";
pub const BROKER_IDS: &str = "/brokers/ids";
pub const BROKER_SEQUENCE_ID: &str = "/brokers/seqid";
pub const TOPICS: &str = "/brokers/topics";
pub const DELETE_TOPICS: &str = "/admin/delete_topics";
pub const REASSIGN_PARTITIONS: &str = "/admin/reassign_partitions";
pub const PREFERRED_REPLICA_ELECTION: &str = "/admin/preferred_replica_election";
pub const ISR_CHANGES: &str = "/isr_change_notification";
pub const LOG_DIR_EVENTS: &str = "/log_dir_event_notification";
pub const PRODUCER_ID_BLOCK: &str = "/latest_producer_id_block";
pub const FEATURE: &str = "/feature";
pub const CONFIG_CHANGES: &str = "/config/changes";
pub const CONFIG_USERS: &str = "/config/users";

/// Before the sequence number of a node below [`CONFIG_CHANGES`].
pub const CONFIG_CHANGE_PREFIX: &str = "config_change_";
/// Before the sequence number of a node below [`ISR_CHANGES`].
pub const ISR_CHANGE_PREFIX: &str = "isr_change_";
/// Before the sequence number of a node below [`LOG_DIR_EVENTS`].
pub const LOG_DIR_EVENT_PREFIX: &str = "log_dir_event_";

/// The entity that stands for all others of its type.
pub const DEFAULT_ENTITY: &str = "<default>";

/// What every broker makes at every start, with null data, parents when missing; in this order.
pub const STARTUP: [&str; 14] = [
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    CONFIG_USERS,
    "/config/brokers",
    "/config/ips",
];

pub fn broker(id: BrokerId) -> String {
    format!("{BROKER_IDS}/{id}")
}

pub fn topic(topic: &str) -> String {
    format!("{TOPICS}/{topic}")
}

pub fn partitions(topic: &str) -> String {
    format!("{TOPICS}/{topic}/partitions")
}

pub fn partition(topic: &str, partition: i32) -> String {
    format!("{TOPICS}/{topic}/partitions/{partition}")
}

pub fn partition_state(topic: &str, partition: i32) -> String {
    format!("{TOPICS}/{topic}/partitions/{partition}/state")
}

pub fn delete_topic(topic: &str) -> String {
    format!("{DELETE_TOPICS}/{topic}")
}

/// What a sequential create of a config change names; the store adds the number.
pub fn new_config_change() -> String {
    format!("{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}")
}

pub fn new_isr_change() -> String {
    format!("{ISR_CHANGES}/{ISR_CHANGE_PREFIX}")
}

pub fn new_log_dir_event() -> String {
    format!("{LOG_DIR_EVENTS}/{LOG_DIR_EVENT_PREFIX}")
}

/// The number of a sequential node's name; `None` for a foreign name.
pub fn sequence_number(name: &str, prefix: &str) -> Option<i64> {
    let digits = name.strip_prefix(prefix)?;
    (digits.len() >= 10 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// A user's or client's name as a path element: form encoding of its UTF-8, with `%20` for a space and `%2A` for `*`.
pub fn sanitize(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The name behind [`sanitize`]. `None` for a broken escape or bytes that are no UTF-8.
pub fn desanitize(sanitized: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(sanitized.len());
    let mut rest = sanitized.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = rest.get(2..)?;
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}
