//! Frames of a live 3.9.1 and what they are compared with.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, Request};

use crate::wire::api_versions::ApiKey;
use crate::wire::header::{RequestHeader, put_request_header, put_response_header, take_response_header};

/// A request and its answer, bodies and whole frames.
pub struct Exchange<R: Request> {
    pub version: i16,
    pub request: R,
    pub response: R::Response,
    request_frame: Bytes,
    response_frame: Bytes,
    header: RequestHeader,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

/// The exchanges of a file in `recorded`.
pub fn read<R: Request>(file: &str) -> Vec<Exchange<R>> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let exchanges: Vec<_> = lines.map(exchange).collect();
    assert!(!exchanges.is_empty());
    exchanges
}

fn exchange<R: Request>(line: &str) -> Exchange<R> {
    let [version, request, response] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("three words: {line}") };
    let version = version.parse().expect("a version");
    let (request_frame, response_frame) = (Bytes::from(bytes(request)), Bytes::from(bytes(response)));
    let mut request = BytesMut::from(&request_frame[..]);
    let header = RequestHeader::take(&mut request, &Default::default()).expect("a header");
    let mut response = BytesMut::from(&response_frame[..]);
    take_response_header(&mut response, header.api_key, version).expect("a header");
    Exchange {
        version,
        request: R::decode(&mut request.freeze(), version).expect("a request"),
        response: R::Response::decode(&mut response.freeze(), version).expect("a response"),
        request_frame,
        response_frame,
        header,
    }
}

impl<R: Request> Exchange<R> {
    fn api(&self) -> ApiKey {
        ApiKey::from_code(R::KEY).expect("known")
    }

    /// That `request` is the recorded one to the byte.
    pub fn assert_request(&self, request: &R) {
        let mut frame = BytesMut::new();
        let client = self.header.client_id.as_deref().expect("a client id");
        put_request_header(&mut frame, self.api(), self.version, self.header.correlation_id, client);
        request.encode(&mut frame, self.version).expect("encodable");
        assert_eq!(frame, self.request_frame);
    }

    /// That `response` is the recorded one to the byte.
    pub fn assert_response(&self, response: &R::Response) {
        let mut frame = BytesMut::new();
        put_response_header(&mut frame, self.api(), self.version, self.header.correlation_id);
        response.encode(&mut frame, self.version).expect("encodable");
        assert_eq!(frame, self.response_frame);
    }
}
