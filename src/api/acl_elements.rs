//! What DescribeAcls, CreateAcls and DeleteAcls share: which of them can be read, and the refusal.

use kafka_protocol::protocol::StrBytes;

use super::serve::Close;
use crate::wire::error_code::ErrorCode;

/// UNKNOWN, of each kind of element.
const UNKNOWN: i8 = 0;

/// The numbers of an ACL or of a filter.
pub struct Elements {
    pub resource_type: i8,
    pub pattern_type: i8,
    pub operation: i8,
    pub permission_type: i8,
}

impl Elements {
    /// Kafka cannot read a request with an UNKNOWN in it, and closes the connection; a number without a name passes.
    fn check(&self) -> Result<(), Close> {
        match [self.resource_type, self.pattern_type, self.operation, self.permission_type].contains(&UNKNOWN) {
            true => Err(Close("an ACL with unknown elements".into())),
            false => Ok(()),
        }
    }
}

/// Code and text for each of `asked` while there is no authorizer.
pub fn refused(asked: impl IntoIterator<Item = Elements>) -> Result<(i16, Option<StrBytes>), Close> {
    for elements in asked {
        elements.check()?;
    }
    Ok((ErrorCode::SecurityDisabled.code(), Some(StrBytes::from_static_str("there is no authorizer"))))
}
