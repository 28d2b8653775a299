//! DeleteAcls (31), versions 0-3: SECURITY_DISABLED for each filter, as by a Kafka without an authorizer. A filter with an
//! UNKNOWN in it closes the connection.

use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};

use super::acl_elements::{Elements, disabled};
use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_: &RequestContext<'_>, request: DeleteAclsRequest) -> Result<DeleteAclsResponse, Close> {
    for filter in &request.filters {
        let elements = Elements {
            resource_type: filter.resource_type_filter,
            pattern_type: filter.pattern_type_filter,
            operation: filter.operation,
            permission_type: filter.permission_type,
        };
        elements.check()?;
    }
    let (code, why) = disabled();
    let refused = DeleteAclsFilterResult::default().with_error_code(code).with_error_message(why);
    Ok(DeleteAclsResponse::default().with_filter_results(vec![refused; request.filters.len()]))
}
