//! Request and response headers of every version.
//!
//! ```text
//! request  v0: api_key i16, api_version i16, correlation_id i32
//!          v1: v0, client_id nullable string (i16 length)
//!          v2: v1, tagged fields         (the client id keeps its classic length)
//! response v0: correlation_id i32
//!          v1: v0, tagged fields
//! ```

use std::ops::Deref;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use parking_lot::Mutex;

use super::api_versions::ApiKey;

/// What stands before every request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub api_key: ApiKey,
    /// One the table serves, except of ApiVersions, where any number is let through to be answered with 35.
    pub api_version: i16,
    /// Echoed unchanged; any number.
    pub correlation_id: i32,
    pub client_id: Option<Arc<str>>,
}

/// The client id of a connection's last request: the next has the same, nearly always, and no memory of its own for it.
#[derive(Debug, Default)]
pub struct LastClientId(Mutex<Option<Arc<str>>>);

impl LastClientId {
    fn same_or_new(&self, bytes: &[u8]) -> Arc<str> {
        let mut last = self.0.lock();
        if let Some(same) = last.as_ref().filter(|last| last.as_bytes() == bytes) {
            return Arc::clone(same);
        }
        let new: Arc<str> =
            std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into(), Arc::from);
        *last = Some(Arc::clone(&new));
        new
    }
}

/// Why a request cannot be answered, or an answer not be read. Kafka closes the connection for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("the frame ends inside its header")]
    Truncated,
    #[error("api key {0} is unknown")]
    UnknownApi(i16),
    #[error("version {version} of {} is not between 0 and {}", .api.name(), .api.row().max_version)]
    UnsupportedVersion { api: ApiKey, version: i16 },
    #[error("a tagged field of the header is malformed")]
    TaggedFields,
}

impl RequestHeader {
    /// Takes the header off the front of `frame`; what is left is the body. `last` is its connection's.
    pub fn take(
        frame: &mut (impl Buf + Deref<Target = [u8]>),
        last: &LastClientId,
    ) -> Result<RequestHeader, HeaderError> {
        let mut rest: &[u8] = frame;
        let header = RequestHeader::read(&mut rest, last)?;
        let body_at = frame.len() - rest.len();
        frame.advance(body_at);
        Ok(header)
    }

    /// Reads the header and leaves `bytes` at the body.
    pub fn read(bytes: &mut &[u8], last: &LastClientId) -> Result<RequestHeader, HeaderError> {
        let key = bytes.try_get_i16().map_err(|_| HeaderError::Truncated)?;
        let api_version = bytes.try_get_i16().map_err(|_| HeaderError::Truncated)?;
        let correlation_id = bytes.try_get_i32().map_err(|_| HeaderError::Truncated)?;
        let api_key = ApiKey::from_code(key).ok_or(HeaderError::UnknownApi(key))?;
        if api_key != ApiKey::ApiVersions && !api_key.serves(api_version) {
            return Err(HeaderError::UnsupportedVersion { api: api_key, version: api_version });
        }
        let version = api_key.request_header_version(api_version);
        let client_id = if version >= 1 { read_client_id(bytes, last)? } else { None };
        if version >= 2 {
            skip_tagged_fields(bytes).ok_or(HeaderError::TaggedFields)?;
        }
        Ok(RequestHeader { api_key, api_version, correlation_id, client_id })
    }
}

fn read_client_id(bytes: &mut &[u8], last: &LastClientId) -> Result<Option<Arc<str>>, HeaderError> {
    let length = bytes.try_get_i16().map_err(|_| HeaderError::Truncated)?;
    // Any negative length is null, and what is not UTF-8 is served too: seen on a live 3.9.1.
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    let (text, rest) = bytes.split_at_checked(length).ok_or(HeaderError::Truncated)?;
    *bytes = rest;
    Ok(Some(last.same_or_new(text)))
}

/// Tagged fields that a header may have: Kafka's have none.
const TAGS_MAX: u32 = 1_000;

/// Unknown tags are skipped, never an error, unless there are more than any header has.
fn skip_tagged_fields(bytes: &mut &[u8]) -> Option<()> {
    let count = read_unsigned_varint(bytes).filter(|count| *count <= TAGS_MAX)?;
    for _ in 0..count {
        read_unsigned_varint(bytes)?;
        let size = read_unsigned_varint(bytes)?;
        *bytes = bytes.get(usize::try_from(size).ok()?..)?;
    }
    Some(())
}

fn read_unsigned_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Writes the header of a request of this broker to another.
pub fn put_request_header(out: &mut BytesMut, api_key: ApiKey, api_version: i16, correlation_id: i32, client_id: &str) {
    out.put_i16(api_key.code());
    out.put_i16(api_version);
    out.put_i32(correlation_id);
    let version = api_key.request_header_version(api_version);
    if version >= 1 {
        // Longer ones than a length can say are cut; ours are a few characters.
        let length = i16::try_from(client_id.len()).unwrap_or(i16::MAX);
        out.put_i16(length);
        out.put_slice(&client_id.as_bytes()[..usize::from(length.unsigned_abs())]);
    }
    if version >= 2 {
        out.put_u8(0);
    }
}

/// Takes the header off the front of an answer to a request of this API and version, and returns its correlation id.
pub fn take_response_header(frame: &mut BytesMut, api_key: ApiKey, api_version: i16) -> Result<i32, HeaderError> {
    let mut rest: &[u8] = frame;
    let correlation_id = rest.try_get_i32().map_err(|_| HeaderError::Truncated)?;
    if api_key.response_header_version(api_version) >= 1 {
        skip_tagged_fields(&mut rest).ok_or(HeaderError::TaggedFields)?;
    }
    let body_at = frame.len() - rest.len();
    frame.advance(body_at);
    Ok(correlation_id)
}

/// Writes the header of the answer to a request of this API and version.
pub fn put_response_header(out: &mut BytesMut, api_key: ApiKey, api_version: i16, correlation_id: i32) {
    out.put_i32(correlation_id);
    if api_key.response_header_version(api_version) >= 1 {
        out.put_u8(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::RequestHeader as Theirs;
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    fn encoded(key: ApiKey, version: i16, client_id: Option<&'static str>) -> BytesMut {
        let mut header = Theirs::default()
            .with_request_api_key(key.code())
            .with_request_api_version(version)
            .with_correlation_id(-7)
            .with_client_id(client_id.map(StrBytes::from_static_str));
        if key.request_header_version(version) >= 2 {
            header = header.with_unknown_tagged_field(3, bytes::Bytes::from_static(b"later"));
        }
        let mut out = BytesMut::new();
        header.encode(&mut out, key.request_header_version(version)).expect("encodable");
        out.put_slice(b"body");
        out
    }

    #[test]
    fn a_header_of_very_many_tags_is_refused() {
        let with = |count: u32| {
            let mut frame = BytesMut::from(&b"\0\x12\0\x03\0\0\0\x01\xff\xff"[..]);
            let number = |frame: &mut BytesMut, mut value: u32| {
                while value > 0x7f {
                    frame.put_u8(value as u8 | 0x80);
                    value >>= 7;
                }
                frame.put_u8(value as u8);
            };
            number(&mut frame, count);
            for tag in 0..count {
                number(&mut frame, tag);
                frame.put_u8(0);
            }
            RequestHeader::take(&mut frame, &LastClientId::default()).map(|header| header.api_key)
        };
        assert_eq!(with(TAGS_MAX), Ok(ApiKey::ApiVersions));
        assert_eq!(with(TAGS_MAX + 1), Err(HeaderError::TaggedFields));
    }

    #[test]
    fn reads_the_header_of_every_served_version_and_leaves_the_body() {
        for row in super::super::api_versions::advertised() {
            for version in row.min_version..=row.max_version {
                for client_id in [None, Some(""), Some("rdkafka")] {
                    let mut frame = encoded(row.key, version, client_id);
                    let header = RequestHeader::take(&mut frame, &LastClientId::default()).expect("valid");
                    assert_eq!((header.api_key, header.api_version), (row.key, version));
                    assert_eq!(header.correlation_id, -7);
                    let named = row.key.request_header_version(version) >= 1;
                    assert_eq!(header.client_id.as_deref(), client_id.filter(|_| named));
                    assert_eq!(&frame[..], b"body");
                }
            }
        }
    }

    #[test]
    fn headers_of_requests_sent_and_answers_received_agree_with_an_independent_codec() {
        for key in super::super::api_versions::TABLE {
            for version in 0..=key.row().max_version {
                let mut ours = BytesMut::new();
                put_request_header(&mut ours, *key, version, 77, "broker-2-fetcher-0");
                let theirs = Theirs::decode(&mut ours, key.request_header_version(version)).expect("valid");
                assert_eq!((theirs.request_api_key, theirs.request_api_version), (key.code(), version));
                assert_eq!((theirs.correlation_id, ours.len()), (77, 0), "{key:?} v{version}");
                let named = key.request_header_version(version) >= 1;
                assert_eq!(theirs.client_id.as_deref(), Some(if named { "broker-2-fetcher-0" } else { "" }));

                let mut answer = BytesMut::new();
                let header = kafka_protocol::messages::ResponseHeader::default().with_correlation_id(-5);
                header.encode(&mut answer, key.response_header_version(version)).expect("encodable");
                answer.put_slice(b"body");
                assert_eq!(take_response_header(&mut answer, *key, version), Ok(-5), "{key:?} v{version}");
                assert_eq!(&answer[..], b"body");
            }
        }
        let take = |bytes: &[u8], version| take_response_header(&mut BytesMut::from(bytes), ApiKey::Metadata, version);
        assert_eq!(take(&[0, 0, 0], 0), Err(HeaderError::Truncated));
        assert_eq!(take(&[0, 0, 0, 1], 9), Err(HeaderError::TaggedFields));
        assert_eq!(take(&[0, 0, 0, 1, 1, 7, 9, 0], 9), Err(HeaderError::TaggedFields));
        assert_eq!(take(&[0, 0, 0, 1, 1, 7, 2, 0, 0], 9), Ok(1), "a tag of a later release is skipped");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = encoded(ApiKey::Metadata, 12, Some("c"));
        for end in 0..whole.len() - b"body".len() {
            assert!(RequestHeader::read(&mut &whole[..end], &LastClientId::default()).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn refuses_what_is_not_served() {
        let read = |bytes: &[u8]| RequestHeader::read(&mut &bytes[..], &LastClientId::default());
        assert_eq!(read(&[0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]), Err(HeaderError::UnknownApi(32767)));
        assert_eq!(
            read(&[0, 3, 0, 13, 0, 0, 0, 1, 0xff, 0xff, 0]),
            Err(HeaderError::UnsupportedVersion { api: ApiKey::Metadata, version: 13 })
        );
        assert_eq!(
            read(&[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(HeaderError::TaggedFields)
        );
    }

    #[test]
    fn odd_client_ids_are_served() {
        let client_id = |bytes: &[u8]| {
            RequestHeader::read(&mut &bytes[..], &LastClientId::default()).map(|header| header.client_id)
        };
        assert_eq!(client_id(&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xfe]), Ok(None));
        assert_eq!(client_id(&[0, 3, 0, 1, 0, 0, 0, 1, 0, 1, 0xff]), Ok(Some("\u{fffd}".into())));
    }

    #[test]
    fn a_client_id_is_kept_for_as_long_as_requests_have_it() {
        let last = LastClientId::default();
        let client_id = |bytes: &[u8]| {
            let frame = [&[0, 3, 0, 1, 0, 0, 0, 1, 0, bytes.len() as u8][..], bytes].concat();
            RequestHeader::read(&mut &frame[..], &last).expect("valid").client_id.expect("named")
        };
        let first = client_id(b"one");
        assert!(Arc::ptr_eq(&first, &client_id(b"one")));
        assert_eq!((&*client_id(b"two"), &*client_id(b"on"), &*client_id(b"one")), ("two", "on", "one"));
        // What is no UTF-8 is never the same: others may look like it.
        assert_eq!((&*client_id(b"\xff"), &*client_id(b"\xfe")), ("\u{fffd}", "\u{fffd}"));
        assert_eq!(&*client_id(b""), "");
    }

    #[test]
    fn api_versions_of_any_version_is_let_through() {
        let mut frame = encoded(ApiKey::ApiVersions, 99, Some("new"));
        assert_eq!(RequestHeader::take(&mut frame, &LastClientId::default()).map(|h| h.api_version), Ok(99));
    }

    #[test]
    fn only_flexible_answers_have_tags_and_api_versions_never() {
        let put = |key, version| {
            let mut out = BytesMut::new();
            put_response_header(&mut out, key, version, -1);
            out.len()
        };
        assert_eq!(put(ApiKey::Metadata, 8), 4);
        assert_eq!(put(ApiKey::Metadata, 9), 5);
        assert_eq!(put(ApiKey::ApiVersions, 4), 4);
    }
}
