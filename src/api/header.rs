//! Request headers: v1, and v2 with tags. The client id is a classic nullable string in both.

use kafka_protocol::messages::ApiKey;

/// What stands in front of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub api_key: ApiKey,
    pub api_version: i16,
    pub correlation_id: i32,
    pub client_id: Option<String>,
}

/// The header and the bytes it takes, or why the connection must be closed.
pub fn parse(frame: &[u8]) -> Result<(RequestHeader, usize), String> {
    let Some(head) = frame.first_chunk::<10>() else {
        return Err(format!("a request of {} bytes is shorter than its header", frame.len()));
    };
    let key = i16::from_be_bytes([head[0], head[1]]);
    let api_version = i16::from_be_bytes([head[2], head[3]]);
    let correlation_id = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let api_key = ApiKey::try_from(key).map_err(|()| format!("unknown api key {key}"))?;
    let length = i16::from_be_bytes([head[8], head[9]]);
    let mut at = 10;
    let client_id = match usize::try_from(length) {
        Err(_) => None,
        Ok(length) => {
            let bytes = frame.get(at..at + length).ok_or("the client id is longer than the request")?;
            at += length;
            Some(std::str::from_utf8(bytes).map_err(|_| "the client id is not UTF-8")?.to_owned())
        }
    };
    if api_key.request_header_version(api_version) >= 2 {
        at += skip_tags(frame.get(at..).unwrap_or_default())?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id }, at))
}

fn skip_tags(bytes: &[u8]) -> Result<usize, &'static str> {
    let mut at = 0;
    let count = varint(bytes, &mut at)?;
    for _ in 0..count {
        varint(bytes, &mut at)?;
        let size = varint(bytes, &mut at)? as usize;
        if bytes.len() - at < size {
            return Err("a tagged field is longer than the request");
        }
        at += size;
    }
    Ok(at)
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u32, &'static str> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or("the header ends inside a number")?;
        *at += 1;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number of the header is longer than five bytes")
}
