//! The one thing a broker reads in the embedded consumer protocol: which topics a member subscribes to. Their offsets
//! neither expire nor can be deleted while the group lives.

use std::sync::Arc;

use crate::wire::reader::{ReadError, Reader};

/// `protocolType` of groups whose members' metadata is a subscription.
pub const CONSUMER: &str = "consumer";

/// Topics of a subscription: in every version an i16 version, then the list of names.
pub fn topics(metadata: &[u8]) -> Result<Vec<Arc<str>>, ReadError> {
    let mut reader = Reader::new(metadata, 0, false);
    let version = reader.i16("version")?;
    if version < 0 {
        return Err(ReadError::Length { field: "version", length: version.into() });
    }
    let count = reader.array_len("topics")?;
    (0..count).map(|_| reader.string("topic").map(Arc::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_whatever_the_version() {
        let body = |version: i16| [&version.to_be_bytes()[..], b"\0\0\0\x02\0\x01a\0\x02bc", b"rest"].concat();
        for version in [0, 3, 99] {
            assert_eq!(topics(&body(version)), Ok(vec!["a".into(), "bc".into()]));
        }
        assert!(topics(&body(-1)).is_err());
    }

    #[test]
    fn what_is_no_subscription_is_refused() {
        for bad in [&b""[..], b"\0", b"\0\x01\0\0\0\x02\0\x01a", b"\0\x01\x7f\xff\xff\xff", b"\0\x01\xff\xff\xff\xff"] {
            assert!(topics(bad).is_err(), "{bad:?}");
        }
    }
}
