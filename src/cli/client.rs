//! A small blocking client for the subcommands: one connection per broker, one request at a time.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, BrokerId, MetadataRequest, MetadataResponse, RequestHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};

use crate::wire::guard;

/// `request.timeout.ms` of Kafka's tools: how long connecting, and each answer, may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// `default.api.timeout.ms` of Kafka's tools: how long what has no answer is tried anew.
const PATIENCE: Duration = Duration::from_secs(60);
/// An answer announced as larger than this many bytes is not read.
const MAX_ANSWER: u32 = 256 << 20;

/// Who connects, and how patiently.
#[derive(Clone, Debug)]
pub struct Caller {
    pub client_id: StrBytes,
    /// Of connecting, and of each answer.
    pub timeout: Duration,
    /// From the first try of a request on; no other begins later.
    pub patience: Duration,
}

/// A broker that should answer and is not to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    #[error("broker {0} is not there")]
    Broker(i32),
    #[error("the cluster has no active controller")]
    Controller,
}

/// Whether no answer came: another try, perhaps of another broker, may get one.
pub fn is_unanswered(error: &anyhow::Error) -> bool {
    error.is::<io::Error>() || error.is::<Absent>()
}

impl Default for Caller {
    fn default() -> Caller {
        Caller { client_id: StrBytes::from_static_str("klamm"), timeout: TIMEOUT, patience: PATIENCE }
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
                Err(error) => last = anyhow!(error).context(format!("cannot connect to {address}")),
            }
        }
        Err(last)
    }

    /// Each API's key, lowest and highest version.
    pub fn served(&self) -> impl Iterator<Item = (i16, i16, i16)> {
        self.versions.iter().map(|(key, (lowest, highest))| (*key, *lowest, *highest))
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
    stream.read_exact(&mut len).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the broker closed the connection"),
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the broker does not answer"),
        _ => error,
    })?;
    let len = u32::from_be_bytes(len);
    if len > MAX_ANSWER {
        bail!("the broker announces an answer of {len} bytes");
    }
    let mut answer = Vec::new();
    stream.take(len.into()).read_to_end(&mut answer)?;
    if answer.len() < len as usize {
        let cut = "the broker closed the connection within an answer";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut).into());
    }
    let mut body = Bytes::from(answer);
    if body.len() < 4 || body.split_to(4)[..] != correlation_id.to_be_bytes() {
        bail!("the broker answered another request than the last");
    }
    Ok(body)
}

/// A cluster, entered through any of its brokers. A connection that breaks is given up, and the next request opens another.
pub struct Client {
    caller: Caller,
    /// `host:port` of the brokers that were named, and of those the cluster told of. The first is the one entered through.
    addresses: VecDeque<String>,
    entry: Option<Connection>,
    brokers: HashMap<BrokerId, Connection>,
}

impl Client {
    /// `bootstrap`: `host:port,host:port`; the first that answers.
    pub fn connect(caller: Caller, bootstrap: &str) -> anyhow::Result<Client> {
        let addresses = bootstrap.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned);
        let mut client = Client { caller, addresses: addresses.collect(), entry: None, brokers: HashMap::new() };
        client.entry = Some(client.enter()?);
        Ok(client)
    }

    /// Through the first that answers.
    fn enter(&mut self) -> anyhow::Result<Connection> {
        let mut last = anyhow!("no broker named");
        for _ in 0..self.addresses.len() {
            let Some(address) = self.addresses.front() else { break };
            match Connection::open_as(&self.caller, address) {
                Ok(entry) => return Ok(entry),
                Err(error) => {
                    self.addresses.rotate_left(1);
                    last = error;
                }
            }
        }
        Err(last)
    }

    /// To the broker the client entered through.
    pub fn send<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let mut entry = match self.entry.take() {
            Some(entry) => entry,
            None => self.enter()?,
        };
        match entry.send(request) {
            Ok(answer) => {
                self.entry = Some(entry);
                Ok(answer)
            }
            Err(error) => {
                // Whoever does not answer is the last to be asked again.
                if !self.addresses.is_empty() {
                    self.addresses.rotate_left(1);
                }
                Err(error)
            }
        }
    }

    /// Remembers the brokers of the answer: the cluster can be entered through them when those named at first are gone.
    pub fn send_metadata(&mut self, request: &MetadataRequest) -> anyhow::Result<MetadataResponse> {
        let answer = self.send(request)?;
        for broker in &answer.brokers {
            let address = format!("{}:{}", broker.host, broker.port);
            if !self.addresses.contains(&address) {
                self.addresses.push_back(address);
            }
        }
        Ok(answer)
    }

    /// All topics.
    pub fn metadata(&mut self) -> anyhow::Result<MetadataResponse> {
        self.send_metadata(&MetadataRequest::default().with_topics(None))
    }

    /// The cluster without its topics.
    pub fn cluster(&mut self) -> anyhow::Result<MetadataResponse> {
        self.send_metadata(&MetadataRequest::default().with_topics(Some(Vec::new())))
    }

    /// To the active controller.
    pub fn send_to_controller<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let cluster = self.cluster()?;
        if !cluster.brokers.iter().any(|broker| broker.node_id == cluster.controller_id) {
            return Err(Absent::Controller.into());
        }
        self.send_to(cluster.controller_id, request)
    }

    /// To one broker.
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
        let broker = broker.ok_or(Absent::Broker(id.0))?;
        Ok(format!("{}:{}", broker.host, broker.port))
    }
}
