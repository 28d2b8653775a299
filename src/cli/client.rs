//! A small blocking client for the subcommands: one connection per broker, one request at a time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, BrokerId, MetadataRequest, MetadataResponse, RequestHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};

use crate::wire::guard;

/// How long connecting, and each answer, may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// An answer announced as larger than this many bytes is not read.
const MAX_ANSWER: u32 = 256 << 20;

/// A connected broker and the versions it serves.
pub struct Connection {
    stream: TcpStream,
    /// Api key to lowest and highest version.
    versions: HashMap<i16, (i16, i16)>,
    correlation_id: i32,
}

impl Connection {
    /// `host:port`.
    pub fn open(address: &str) -> anyhow::Result<Connection> {
        let mut last = anyhow!("{address} has no address");
        for resolved in address.to_socket_addrs().with_context(|| format!("cannot resolve {address}"))? {
            match TcpStream::connect_timeout(&resolved, TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    let mut connection = Connection { stream, versions: HashMap::new(), correlation_id: 0 };
                    let answer = connection.exchange(&ApiVersionsRequest::default(), 0)?;
                    let range = |api: &kafka_protocol::messages::api_versions_response::ApiVersion| {
                        (api.api_key, (api.min_version, api.max_version))
                    };
                    connection.versions = answer.api_keys.iter().map(range).collect();
                    return Ok(connection);
                }
                Err(error) => last = anyhow!("cannot connect to {address}: {error}"),
            }
        }
        Err(last)
    }

    /// In the highest version that both sides know.
    pub fn send<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let Some(&(lowest, highest)) = self.versions.get(&R::KEY) else {
            bail!("the broker does not serve API {}", R::KEY)
        };
        let version = highest.min(R::VERSIONS.max);
        if version < lowest.max(R::VERSIONS.min) {
            bail!("the broker serves API {} from version {lowest} to {highest} only", R::KEY);
        }
        self.exchange(request, version)
    }

    fn exchange<R: Request>(&mut self, request: &R, version: i16) -> anyhow::Result<R::Response> {
        self.correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("klamm")));
        let mut frame = BytesMut::from(&[0; 4][..]);
        header.encode(&mut frame, R::header_version(version))?;
        request.encode(&mut frame, version)?;
        let len = u32::try_from(frame.len() - 4)?;
        frame[..4].copy_from_slice(&len.to_be_bytes());
        self.stream.write_all(&frame)?;

        let mut body = read_answer(&mut self.stream, self.correlation_id)?;
        // The one header that is longer ends in tagged fields, which no broker sends.
        if R::Response::header_version(version) >= 1 && (body.is_empty() || body.split_to(1)[0] != 0) {
            bail!("the broker's answer begins with tagged fields");
        }
        Ok(guard::decode(body, version)?)
    }

    /// The highest version within these that the broker serves.
    pub fn version(&self, api_key: i16, lowest: i16, highest: i16) -> anyhow::Result<i16> {
        let served = self.versions.get(&api_key);
        let version = served.map(|served| served.1.min(highest)).filter(|version| *version >= lowest);
        match (served, version) {
            (Some(served), Some(version)) if version >= served.0 => Ok(version),
            (None, _) => bail!("the broker does not serve API {api_key}"),
            (Some(served), _) => {
                bail!("the broker serves API {api_key} from version {} to {} only", served.0, served.1)
            }
        }
    }

    /// For requests that are written and answers that are read by the caller.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// Reads one answer and takes its correlation id off, which must be the one given.
pub fn read_answer(stream: &mut TcpStream, correlation_id: i32) -> anyhow::Result<Bytes> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).context("the broker closed the connection")?;
    let len = u32::from_be_bytes(len);
    if len > MAX_ANSWER {
        bail!("the broker announces an answer of {len} bytes");
    }
    let mut answer = Vec::new();
    stream.take(len.into()).read_to_end(&mut answer)?;
    if answer.len() < len as usize {
        bail!("the broker closed the connection within an answer");
    }
    let mut body = Bytes::from(answer);
    if body.len() < 4 || body.split_to(4)[..] != correlation_id.to_be_bytes() {
        bail!("the broker answered another request than the last");
    }
    Ok(body)
}

/// A cluster, entered through any of its brokers.
pub struct Client {
    entry: Connection,
    brokers: HashMap<BrokerId, Connection>,
}

impl Client {
    /// `bootstrap`: `host:port,host:port`; the first that answers.
    pub fn connect(bootstrap: &str) -> anyhow::Result<Client> {
        let mut last = anyhow!("no broker named");
        for address in bootstrap.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            match Connection::open(address) {
                Ok(entry) => return Ok(Client { entry, brokers: HashMap::new() }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// To the broker the client entered through.
    pub fn send<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        self.entry.send(request)
    }

    /// All topics.
    pub fn metadata(&mut self) -> anyhow::Result<MetadataResponse> {
        self.send(&MetadataRequest::default().with_topics(None))
    }

    /// To the active controller.
    pub fn send_to_controller<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let metadata = self.send(&MetadataRequest::default().with_topics(Some(Vec::new())))?;
        let id = metadata.controller_id;
        let connection = match self.brokers.entry(id) {
            Entry::Occupied(connected) => connected.into_mut(),
            Entry::Vacant(unconnected) => {
                let broker = metadata.brokers.iter().find(|broker| broker.node_id == id);
                let broker = broker.ok_or_else(|| anyhow!("the cluster has no active controller"))?;
                unconnected.insert(Connection::open(&format!("{}:{}", broker.host, broker.port))?)
            }
        };
        connection.send(request)
    }
}
