//! A small blocking client for the subcommands: one connection per broker, one request at a time.

use std::collections::HashMap;
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

/// Who connects, and how patiently.
#[derive(Clone, Debug)]
pub struct Caller {
    pub client_id: StrBytes,
    /// Of connecting, and of each answer.
    pub timeout: Duration,
}

impl Default for Caller {
    fn default() -> Caller {
        Caller { client_id: StrBytes::from_static_str("klamm"), timeout: TIMEOUT }
    }
}

/// A connected broker and the versions it serves.
pub struct Connection {
    stream: TcpStream,
    client_id: StrBytes,
    /// Api key to lowest and highest version.
    versions: HashMap<i16, (i16, i16)>,
    correlation_id: i32,
}

impl Connection {
    /// `host:port`.
    pub fn open(address: &str) -> anyhow::Result<Connection> {
        Connection::open_as(&Caller::default(), address)
    }

    /// As [`Connection::open`], under a name and with patience of the caller's.
    pub fn open_as(caller: &Caller, address: &str) -> anyhow::Result<Connection> {
        let mut last = anyhow!("{address} has no address");
        for resolved in address.to_socket_addrs().with_context(|| format!("cannot resolve {address}"))? {
            match TcpStream::connect_timeout(&resolved, caller.timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(caller.timeout))?;
                    stream.set_write_timeout(Some(caller.timeout))?;
                    let client_id = caller.client_id.clone();
                    let mut connection = Connection { stream, client_id, versions: HashMap::new(), correlation_id: 0 };
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
            .with_client_id(Some(self.client_id.clone()));
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
    caller: Caller,
    entry: Connection,
    brokers: HashMap<BrokerId, Connection>,
}

impl Client {
    /// `bootstrap`: `host:port,host:port`; the first that answers.
    pub fn connect(bootstrap: &str) -> anyhow::Result<Client> {
        Client::connect_as(Caller::default(), bootstrap)
    }

    /// As [`Client::connect`], under a name and with patience of the caller's.
    pub fn connect_as(caller: Caller, bootstrap: &str) -> anyhow::Result<Client> {
        let mut last = anyhow!("no broker named");
        for address in bootstrap.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            match Connection::open_as(&caller, address) {
                Ok(entry) => return Ok(Client { caller, entry, brokers: HashMap::new() }),
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

    /// The cluster without its topics.
    pub fn cluster(&mut self) -> anyhow::Result<MetadataResponse> {
        self.send(&MetadataRequest::default().with_topics(Some(Vec::new())))
    }

    /// To the active controller.
    pub fn send_to_controller<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let cluster = self.cluster()?;
        if !cluster.brokers.iter().any(|broker| broker.node_id == cluster.controller_id) {
            bail!("the cluster has no active controller");
        }
        self.send_to(cluster.controller_id, request)
    }

    /// To one broker. A connection that breaks is given up: the next request opens another.
    pub fn send_to<R: Request>(&mut self, id: BrokerId, request: &R) -> anyhow::Result<R::Response> {
        let mut connection = match self.brokers.remove(&id) {
            Some(connection) => connection,
            None => {
                let address = self.address(id)?;
                Connection::open_as(&self.caller, &address)?
            }
        };
        let answer = connection.send(request)?;
        self.brokers.insert(id, connection);
        Ok(answer)
    }

    fn address(&mut self, id: BrokerId) -> anyhow::Result<String> {
        let cluster = self.cluster()?;
        let broker = cluster.brokers.iter().find(|broker| broker.node_id == id);
        let broker = broker.ok_or_else(|| anyhow!("broker {} is not there", id.0))?;
        Ok(format!("{}:{}", broker.host, broker.port))
    }
}
