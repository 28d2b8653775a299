//! A Kafka connection by hand: frames go out as given, replies come back as bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, RequestKind, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use rustix::net;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A frame without its length.
    Reply(Bytes),
    /// The peer closed, cleanly or by reset.
    Closed,
    /// Nothing within the time limit; the connection is still open.
    Silent,
}

pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    pub fn open(address: &str) -> Result<Connection> {
        Connection::open_within(address, Duration::from_secs(10))
    }

    pub fn open_within(address: &str, limit: Duration) -> Result<Connection> {
        let target = address.to_socket_addrs()?.next().ok_or_else(|| anyhow!("{address} names no address"))?;
        let stream = TcpStream::connect_timeout(&target, limit).with_context(|| address.to_owned())?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream })
    }

    /// As [`Connection::open`], with `source` as one's own address.
    pub fn open_from(source: Ipv4Addr, address: &str) -> Result<Connection> {
        let target = address.to_socket_addrs()?.next().ok_or_else(|| anyhow!("{address} names no address"))?;
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
        net::bind(&socket, &SocketAddrV4::new(source, 0))?;
        net::connect(&socket, &target).with_context(|| address.to_owned())?;
        Ok(Connection { stream: socket.into() })
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are. A peer that closed meanwhile is noticed by [`Connection::hear`].
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame.
    pub fn hear(&mut self, limit: Duration) -> Result<Heard> {
        self.stream.set_read_timeout(Some(limit))?;
        let mut size = [0; 4];
        match self.fill(&mut size)? {
            Heard::Reply(_) => {}
            other => return Ok(other),
        }
        let size = i32::from_be_bytes(size);
        let Ok(size) = usize::try_from(size) else { bail!("a reply of {size} bytes") };
        if size > 200 << 20 {
            bail!("a reply of {size} bytes");
        }
        let mut body = vec![0; size];
        match self.fill(&mut body)? {
            Heard::Reply(_) => Ok(Heard::Reply(body.into())),
            Heard::Closed => bail!("closed in the middle of a reply of {size} bytes"),
            Heard::Silent => bail!("stuck in the middle of a reply of {size} bytes"),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<Heard> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Ok(Heard::Reply(Bytes::new())),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(Heard::Silent),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(Heard::Closed),
                _ => Err(error.into()),
            },
        }
    }

    /// One typed request and its typed answer.
    pub fn ask(&mut self, api: ApiKey, version: i16, request: &RequestKind) -> Result<ResponseKind> {
        self.ask_within(api, version, request, Duration::from_secs(30))
    }

    /// As [`Connection::ask`]. A connection that was silent for `limit` is of no more use.
    pub fn ask_within(
        &mut self,
        api: ApiKey,
        version: i16,
        request: &RequestKind,
        limit: Duration,
    ) -> Result<ResponseKind> {
        self.send(&frame(api, version, 1, request)?);
        match self.hear(limit)? {
            Heard::Reply(bytes) => Ok(decode(api, version, bytes)?.1),
            other => bail!("{api:?} v{version}: {other:?}"),
        }
    }
}

/// A whole frame: length, header, body.
pub fn frame(api: ApiKey, version: i16, correlation: i32, request: &RequestKind) -> Result<Bytes> {
    let mut body = BytesMut::new();
    request.encode(&mut body, version)?;
    frame_around(api as i16, version, correlation, api.request_header_version(version), &body)
}

/// A frame around a body made by hand.
pub fn frame_around(api: i16, version: i16, correlation: i32, header_version: i16, body: &[u8]) -> Result<Bytes> {
    let header = RequestHeader::default()
        .with_request_api_key(api)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(if header_version > 0 { Some(StrBytes::from_static_str("compat")) } else { None });
    let mut bytes = BytesMut::new();
    header.encode(&mut bytes, header_version)?;
    bytes.extend_from_slice(body);
    Ok(sized(&bytes))
}

/// Bytes with their length in front.
pub fn sized(bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(4 + bytes.len());
    frame.put_i32(bytes.len() as i32);
    frame.extend_from_slice(bytes);
    frame.freeze()
}

/// Bytes of a reply that says what has to be said and nothing more, without their length.
pub fn size(api: ApiKey, version: i16, response: &ResponseKind) -> Result<usize> {
    let mut bytes = BytesMut::new();
    ResponseHeader::default().encode(&mut bytes, api.response_header_version(version))?;
    response.encode(&mut bytes, version)?;
    Ok(bytes.len())
}

/// Correlation id and body of a reply; bytes left over are an error.
pub fn decode(api: ApiKey, version: i16, mut bytes: Bytes) -> Result<(i32, ResponseKind)> {
    let header = ResponseHeader::decode(&mut bytes, api.response_header_version(version))?;
    let response = ResponseKind::decode(api, &mut bytes, version)?;
    if !bytes.is_empty() {
        bail!("{} bytes after the {api:?} v{version} response", bytes.len());
    }
    Ok((header.correlation_id, response))
}
