//! The crate's values as the trait's.

use bytes::Bytes;
use zookeeper_client as zk;

use crate::metastore::{CreateMode, Error, Op, OpResult, Stat};

/// Whether the request may or may not have been carried out, or will never be answered by this client.
pub(super) fn is_lost(error: &zk::Error) -> bool {
    match error {
        zk::Error::NoNode
        | zk::Error::NoAuth
        | zk::Error::BadVersion
        | zk::Error::NoChildrenForEphemerals
        | zk::Error::NodeExists
        | zk::Error::NotEmpty
        | zk::Error::InvalidAcl
        | zk::Error::NotReadOnly
        | zk::Error::NoWatcher
        | zk::Error::QuotaExceeded
        | zk::Error::Throttled
        | zk::Error::MarshallingError
        | zk::Error::Unimplemented
        | zk::Error::ReconfigDisabled
        | zk::Error::BadArguments(_)
        | zk::Error::RuntimeInconsistent
        | zk::Error::UnexpectedErrorCode(_) => false,
        // Connection loss; I/O errors and missing pings, which are `Custom`; the client's end.
        _ => true,
    }
}

pub(super) fn error(error: zk::Error, path: &str) -> Error {
    let path = path.to_owned();
    match error {
        zk::Error::NoNode => Error::NoNode(path),
        zk::Error::NodeExists => Error::NodeExists(path),
        zk::Error::BadVersion => Error::BadVersion(path),
        zk::Error::NotEmpty => Error::NotEmpty(path),
        zk::Error::NoChildrenForEphemerals => Error::NoChildrenForEphemerals(path),
        lost if is_lost(&lost) => Error::Unknown,
        other => Error::Other(format!("{path}: {other}")),
    }
}

pub(super) fn stat(stat: zk::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        version: stat.version,
        cversion: stat.cversion,
        num_children: stat.num_children,
        ephemeral_owner: stat.ephemeral_owner,
        ctime_ms: stat.ctime,
        mtime_ms: stat.mtime,
    }
}

pub(super) fn mode(mode: CreateMode) -> zk::CreateOptions<'static> {
    match mode {
        CreateMode::Persistent => zk::CreateMode::Persistent,
        CreateMode::PersistentSequential => zk::CreateMode::PersistentSequential,
        CreateMode::Ephemeral => zk::CreateMode::Ephemeral,
    }
    .with_acls(zk::Acls::anyone_all())
}

pub(super) fn version(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

/// The stat of a create inside a transaction is dropped: before 3.7.2, 3.8.2 and 3.9.0 servers send a wrong one
/// (ZOOKEEPER-4026).
pub(super) fn result(result: zk::MultiWriteResult) -> OpResult {
    match result {
        zk::MultiWriteResult::Create { path, .. } => OpResult::Created(path),
        zk::MultiWriteResult::SetData { stat: set } => OpResult::Set(stat(set)),
        zk::MultiWriteResult::Delete => OpResult::Deleted,
        _ => OpResult::Checked,
    }
}

pub(super) fn path(op: &Op) -> &str {
    match op {
        Op::Check { path, .. } | Op::Create { path, .. } | Op::Set { path, .. } | Op::Delete { path, .. } => path,
    }
}

pub(super) fn data(op: &Op) -> Option<&Bytes> {
    match op {
        Op::Create { data, .. } => data.as_ref(),
        Op::Set { data, .. } => Some(data),
        Op::Check { .. } | Op::Delete { .. } => None,
    }
}
