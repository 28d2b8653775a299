//! DescribeAcls (29), versions 0-3: SECURITY_DISABLED, as by a Kafka without an authorizer. A filter with an UNKNOWN in it
//! closes the connection.

use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};

use super::acl_elements::{Elements, refused};
use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_: &RequestContext<'_>, filter: DescribeAclsRequest) -> Result<DescribeAclsResponse, Close> {
    let elements = Elements {
        resource_type: filter.resource_type_filter,
        pattern_type: filter.pattern_type_filter,
        operation: filter.operation,
        permission_type: filter.permission_type,
    };
    let (code, why) = refused([elements])?;
    Ok(DescribeAclsResponse::default().with_error_code(code).with_error_message(why))
}
