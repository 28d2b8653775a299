//! Brokers that say what a test has them say.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, BrokerId, MetadataResponse, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use parking_lot::Mutex;

/// What is served, and up to which version.
const SERVED: &[(ApiKey, i16)] = &[
    (ApiKey::ApiVersions, 0),
    (ApiKey::Metadata, 8),
    (ApiKey::FindCoordinator, 4),
    (ApiKey::OffsetFetch, 8),
    (ApiKey::ListOffsets, 5),
    (ApiKey::ListGroups, 2),
    (ApiKey::DeleteTopics, 3),
];

/// A request as it came.
pub struct Asked {
    pub broker: i32,
    pub api: ApiKey,
    /// How many came before to any of the brokers, this API's alone.
    pub earlier: usize,
    version: i16,
    body: Bytes,
}

impl Asked {
    pub fn read<R: Request>(&self) -> R {
        R::decode(&mut self.body.clone(), self.version).expect("a request")
    }

    pub fn says<R: Request>(&self, response: &R::Response) -> Option<Vec<u8>> {
        let mut answer = BytesMut::new();
        if R::Response::header_version(self.version) >= 1 {
            answer.extend_from_slice(&[0]);
        }
        response.encode(&mut answer, self.version).expect("an answer");
        Some(answer.to_vec())
    }
}

/// `None` closes the connection.
type Script = dyn Fn(&FakeCluster, &Asked) -> Option<Vec<u8>> + Send + Sync;

/// Brokers 1, 2, … on ports of their own, until the end of the test program.
pub struct FakeCluster {
    ports: Vec<u16>,
    /// Close every connection.
    down: Mutex<BTreeSet<i32>>,
    asked: Mutex<Vec<(i32, ApiKey)>>,
}

impl FakeCluster {
    pub fn start(
        count: usize,
        script: impl Fn(&FakeCluster, &Asked) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Arc<FakeCluster> {
        let listeners: Vec<TcpListener> =
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let ports = listeners.iter().map(port).collect();
        let cluster = Arc::new(FakeCluster { ports, down: Mutex::default(), asked: Mutex::default() });
        let script: Arc<Script> = Arc::new(script);
        for (broker, listener) in (1..).zip(listeners) {
            let (cluster, script) = (cluster.clone(), script.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (cluster, script) = (cluster.clone(), script.clone());
                    // A client that ends in the middle ends a thread.
                    thread::spawn(move || cluster.serve(broker, stream, &*script));
                }
            });
        }
        cluster
    }

    /// `host:port` of one.
    pub fn address(&self, broker: i32) -> String {
        format!("127.0.0.1:{}", self.ports[broker as usize - 1])
    }

    pub fn stop(&self, broker: i32) {
        self.down.lock().insert(broker);
    }

    /// Whom requests of an API went to, in order.
    pub fn asked(&self, api: ApiKey) -> Vec<i32> {
        self.asked.lock().iter().filter(|(_, asked)| *asked == api).map(|(broker, _)| *broker).collect()
    }

    /// All brokers, those too that are down.
    pub fn metadata(&self, controller: i32) -> MetadataResponse {
        let broker = |(id, port): (i32, &u16)| {
            let host = StrBytes::from_static_str("127.0.0.1");
            MetadataResponseBroker::default().with_node_id(BrokerId(id)).with_host(host).with_port((*port).into())
        };
        let brokers = (1..).zip(&self.ports).map(broker).collect();
        MetadataResponse::default().with_brokers(brokers).with_controller_id(BrokerId(controller))
    }

    fn serve(&self, broker: i32, mut stream: TcpStream, script: &Script) -> Option<()> {
        loop {
            let mut len = [0; 4];
            stream.read_exact(&mut len).ok()?;
            let mut frame = vec![0; u32::from_be_bytes(len) as usize];
            stream.read_exact(&mut frame).ok()?;
            let mut body = Bytes::from(frame);
            let api = ApiKey::try_from(i16::from_be_bytes([body[0], body[1]])).ok()?;
            let version = i16::from_be_bytes([body[2], body[3]]);
            let header = RequestHeader::decode(&mut body, api.request_header_version(version)).ok()?;
            let earlier = self.asked(api).len();
            self.asked.lock().push((broker, api));
            if self.down.lock().contains(&broker) {
                return None;
            }
            let asked = Asked { broker, api, earlier, version, body };
            let answer = match api {
                ApiKey::ApiVersions => asked.says::<ApiVersionsRequest>(&served()),
                _ => script(self, &asked),
            }?;
            let len = u32::try_from(answer.len() + 4).ok()?;
            let framed = [&len.to_be_bytes()[..], &header.correlation_id.to_be_bytes(), &answer].concat();
            stream.write_all(&framed).ok()?;
        }
    }
}

fn served() -> ApiVersionsResponse {
    let api = |(api, highest): &(ApiKey, i16)| {
        ApiVersion::default().with_api_key(*api as i16).with_min_version(0).with_max_version(*highest)
    };
    ApiVersionsResponse::default().with_api_keys(SERVED.iter().map(api).collect())
}
