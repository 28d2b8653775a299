//! Offsets as clients before 0.8.2 keep them: one node of the metastore for each partition, as text. Version 0 of
//! OffsetCommit and OffsetFetch reads and writes them; nothing ever takes them away.

use bytes::Bytes;

use super::{ensure_path, until_known};
use crate::metastore::{Error, Metastore};
use crate::types::Offset;

/// A name that would be another path.
fn segment(name: &str) -> Result<&str, Error> {
    if name.is_empty() || name.contains('/') { Err(Error::BadPath(name.to_owned())) } else { Ok(name) }
}

fn path(group: &str, topic: &str, partition: i32) -> Result<String, Error> {
    Ok(format!("/consumers/{}/offsets/{}/{partition}", segment(group)?, segment(topic)?))
}

/// Writes an offset, whatever was there.
pub async fn commit(
    store: &dyn Metastore,
    group: &str,
    topic: &str,
    partition: i32,
    offset: Offset,
) -> Result<(), Error> {
    let path = path(group, topic, partition)?;
    let data = Bytes::from(offset.to_string());
    match until_known(store, || store.set(&path, data.clone(), -1)).await {
        Err(Error::NoNode(_)) => {
            ensure_path(store, &path).await?;
            until_known(store, || store.set(&path, data.clone(), -1)).await.map(drop)
        }
        other => other.map(drop),
    }
}

/// The offset that was written; `None` when there is none, or what is there is no number.
pub async fn fetch(store: &dyn Metastore, group: &str, topic: &str, partition: i32) -> Result<Option<Offset>, Error> {
    let path = path(group, topic, partition)?;
    match until_known(store, || store.get(&path)).await {
        Ok((data, _)) => Ok(std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok()).map(Offset)),
        Err(Error::NoNode(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
