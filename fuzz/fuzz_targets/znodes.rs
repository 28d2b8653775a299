//! Every schema of a znode: the first byte chooses one. What is read is written and must be read as the same.
#![no_main]

use std::fmt::Debug;

use bytes::Bytes;
use klamm::metastore::schema::{
    ClusterId, ConfigChange, ConfigEntity, Controller, ControllerEpoch, EntityConfig, Features, LogDirEvent, Malformed,
    PartitionList, PartitionState, ProducerIdBlock, ReassignPartitions, Registration, TopicAssignment, paths,
};
use klamm_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    match choice % 15 {
        0 => same(bytes, TopicAssignment::decode, TopicAssignment::encode),
        1 => same(bytes, PartitionState::decode, PartitionState::encode),
        2 => same(bytes, Registration::decode, Registration::encode),
        3 => same(bytes, ClusterId::decode, ClusterId::encode),
        4 => same(bytes, Controller::decode, Controller::encode),
        5 => same(bytes, ControllerEpoch::decode, |epoch| epoch.encode()),
        6 => same(bytes, ProducerIdBlock::decode, |block| block.map_or_else(Bytes::new, |block| block.encode())),
        7 => same(bytes, Features::decode, Features::encode),
        8 => same(bytes, EntityConfig::decode, EntityConfig::encode),
        9 => same(bytes, ConfigChange::decode, ConfigChange::encode),
        10 => same(bytes, LogDirEvent::decode, |event| event.encode()),
        11 => same(bytes, PartitionList::decode, PartitionList::encode),
        12 => same(bytes, ReassignPartitions::decode, ReassignPartitions::encode),
        13 => entity(bytes),
        _ => name(bytes),
    }
});

fn same<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&str, &[u8]) -> Result<T, Malformed>,
    encode: impl Fn(&T) -> Bytes,
) {
    let Ok(value) = bounded(bytes.len(), || decode("/node", bytes)) else { return };
    let written = encode(&value);
    assert_eq!(decode("/node", &written).expect("written by klamm"), value);
    assert_eq!(encode(&value), written);
}

/// A path below `/config` and the entity it names.
fn entity(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    let Some(entity) = ConfigEntity::parse(path) else { return };
    assert_eq!(ConfigEntity::parse(&entity.to_string()).as_ref(), Some(&entity));
    assert_eq!(entity.path().strip_prefix("/config/"), Some(&entity.to_string()[..]));
}

/// Any name can be an element of a path and be had back from it.
fn name(bytes: &[u8]) {
    let Ok(name) = std::str::from_utf8(bytes) else { return };
    let _ = (paths::desanitize(name), paths::sequence_number(name, "change_"));
    let element = paths::sanitize(name);
    assert!(!element.contains('/'));
    assert_eq!(paths::desanitize(&element).as_deref(), Some(name));
}
