//! Bytes of the store's two files, little-endian.
//!
//! ```text
//! string       length u32, UTF-8
//! data         length i32 (-1 = null), bytes
//! transaction  kind u8, zxid i64, time i64, session i64, then for kind 1 (multi): count u32, operations
//!              kind 2 = session closed, kind 3 = the store was opened
//! operation    0 check: path, version i32      1 create: path, data, mode u8
//!              2 set: path, data, version i32  3 delete: path, version i32
//! node         path, data, czxid, mzxid, ctime, mtime (i64 each), version i32, creates i32, owner i64
//! ```

use bytes::Bytes;

use crate::metastore::{CreateMode, Op};

use super::tree::Node;

/// What happened to the tree, as the journal keeps it. Applying the same transactions in order gives the same tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub zxid: i64,
    /// Milliseconds since the Unix epoch.
    pub time_ms: i64,
    pub session: i64,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Multi(Vec<Op>),
    SessionClosed,
    /// A new life of the store: earlier sessions are gone.
    Opened,
}

/// Bytes that do not follow the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed at byte {0}")]
pub struct Malformed(pub usize);

pub fn put_transaction(out: &mut Vec<u8>, zxid: i64, time_ms: i64, session: i64, change: ChangeRef<'_>) {
    out.push(match change {
        ChangeRef::Multi(_) => 1,
        ChangeRef::SessionClosed => 2,
        ChangeRef::Opened => 3,
    });
    for number in [zxid, time_ms, session] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    if let ChangeRef::Multi(ops) = change {
        out.extend_from_slice(&(ops.len() as u32).to_le_bytes());
        for op in ops {
            put_op(out, op);
        }
    }
}

/// [`Change`], borrowed.
#[derive(Clone, Copy, Debug)]
pub enum ChangeRef<'a> {
    Multi(&'a [Op]),
    SessionClosed,
    Opened,
}

fn put_op(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Check { path, version } => {
            out.push(0);
            put_string(out, path);
            out.extend_from_slice(&version.to_le_bytes());
        }
        Op::Create { path, data, mode } => {
            out.push(1);
            put_string(out, path);
            put_data(out, data.as_deref());
            out.push(match mode {
                CreateMode::Persistent => 0,
                CreateMode::Ephemeral => 1,
                CreateMode::PersistentSequential => 2,
            });
        }
        Op::Set { path, data, version } => {
            out.push(2);
            put_string(out, path);
            put_data(out, Some(data));
            out.extend_from_slice(&version.to_le_bytes());
        }
        Op::Delete { path, version } => {
            out.push(3);
            put_string(out, path);
            out.extend_from_slice(&version.to_le_bytes());
        }
    }
}

pub fn put_node(out: &mut Vec<u8>, path: &str, node: &Node) {
    put_string(out, path);
    put_data(out, node.data.as_deref());
    for number in [node.czxid, node.mzxid, node.ctime_ms, node.mtime_ms] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&node.version.to_le_bytes());
    out.extend_from_slice(&node.creates.to_le_bytes());
    out.extend_from_slice(&node.owner.to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_data(out: &mut Vec<u8>, data: Option<&[u8]>) {
    out.extend_from_slice(&data.map_or(-1, |data| data.len() as i32).to_le_bytes());
    out.extend_from_slice(data.unwrap_or_default());
}

/// Reads what the `put_` functions wrote. Nothing is allocated for bytes that are not there.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, position: 0 }
    }

    pub fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    pub fn transaction(&mut self) -> Result<Transaction, Malformed> {
        let kind = self.u8()?;
        let (zxid, time_ms, session) = (self.i64()?, self.i64()?, self.i64()?);
        let change = match kind {
            1 => {
                let count = self.u32()?;
                Change::Multi((0..count).map(|_| self.op()).collect::<Result<_, _>>()?)
            }
            2 => Change::SessionClosed,
            3 => Change::Opened,
            _ => return Err(Malformed(self.position)),
        };
        Ok(Transaction { zxid, time_ms, session, change })
    }

    fn op(&mut self) -> Result<Op, Malformed> {
        let kind = self.u8()?;
        let path = self.string()?;
        Ok(match kind {
            0 => Op::Check { path, version: self.i32()? },
            1 => Op::Create {
                path,
                data: self.data()?,
                mode: match self.u8()? {
                    0 => CreateMode::Persistent,
                    1 => CreateMode::Ephemeral,
                    2 => CreateMode::PersistentSequential,
                    _ => return Err(Malformed(self.position)),
                },
            },
            2 => Op::Set { path, data: self.data()?.ok_or(Malformed(self.position))?, version: self.i32()? },
            3 => Op::Delete { path, version: self.i32()? },
            _ => return Err(Malformed(self.position)),
        })
    }

    pub fn node(&mut self) -> Result<(String, Node), Malformed> {
        let path = self.string()?;
        let data = self.data()?;
        let (czxid, mzxid, ctime_ms, mtime_ms) = (self.i64()?, self.i64()?, self.i64()?, self.i64()?);
        let (version, creates, owner) = (self.i32()?, self.i32()?, self.i64()?);
        let children = Default::default();
        Ok((path, Node { data, czxid, mzxid, ctime_ms, mtime_ms, version, creates, owner, children }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.bytes.get(self.position..).and_then(|rest| rest.get(..len)).ok_or(Malformed(self.position))?;
        self.position += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let at = self.position;
        self.take(N)?.try_into().map_err(|_| Malformed(at))
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    fn string(&mut self) -> Result<String, Malformed> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed(self.position))
    }

    fn data(&mut self) -> Result<Option<Bytes>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            len => {
                let len = usize::try_from(len).map_err(|_| Malformed(self.position))?;
                self.take(len).map(|data| Some(Bytes::copy_from_slice(data)))
            }
        }
    }
}
