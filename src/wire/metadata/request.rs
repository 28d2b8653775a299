//! A metadata request.
//!
//! ```text
//! [ topic_id (10+)  name (nullable 10+) ] (nullable 1+)  allow_auto_topic_creation bool (4+)
//! include_cluster_authorized_operations bool (8..10)  include_topic_authorized_operations bool (8+)
//! ```

use crate::types::TopicId;
use crate::wire::reader::{ReadError, Reader};

/// One topic that is asked for, by name or by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicAsked<'a> {
    pub id: TopicId,
    pub name: Option<&'a str>,
}

/// A metadata request, names borrowed from its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRequest<'a> {
    /// `None` asks for all topics: null, and in v0 an empty list.
    pub topics: Option<Vec<TopicAsked<'a>>>,
    /// True in versions that cannot say.
    pub allow_auto_topic_creation: bool,
    pub include_cluster_authorized_operations: bool,
    pub include_topic_authorized_operations: bool,
}

impl<'a> MetadataRequest<'a> {
    /// Reads a body. Bytes behind it are ignored.
    pub fn decode(body: &'a [u8], version: i16) -> Result<MetadataRequest<'a>, ReadError> {
        let mut reader = Reader::new(body, 0, version >= super::FIRST_FLEXIBLE);
        let count = if version >= 1 { reader.nullable_array_len("topics")? } else { Some(reader.array_len("topics")?) };
        let mut topics = Vec::new();
        for _ in 0..count.unwrap_or(0) {
            let id = if version >= 10 { reader.topic_id("topic_id")? } else { TopicId::ZERO };
            let name = if version >= 10 { reader.nullable_string("name")? } else { Some(reader.string("name")?) };
            reader.skip_tags()?;
            topics.push(TopicAsked { id, name });
        }
        let all = count.is_none() || (version == 0 && topics.is_empty());
        let request = MetadataRequest {
            topics: (!all).then_some(topics),
            allow_auto_topic_creation: version < 4 || reader.bool("allow_auto_topic_creation")?,
            include_cluster_authorized_operations: (8..=10).contains(&version)
                && reader.bool("include_cluster_authorized_operations")?,
            include_topic_authorized_operations: version >= 8 && reader.bool("include_topic_authorized_operations")?,
        };
        reader.skip_tags()?;
        Ok(request)
    }
}
