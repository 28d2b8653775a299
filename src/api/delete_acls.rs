//! DeleteAcls (31), versions 0-3: SECURITY_DISABLED for each filter, as by a Kafka without an authorizer. A filter with an
//! UNKNOWN in it closes the connection.

use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};

use super::acl_elements::{Elements, refused};
use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_: &RequestContext<'_>, request: DeleteAclsRequest) -> Result<DeleteAclsResponse, Close> {
    let (code, why) = refused(request.filters.iter().map(|filter| Elements {
        resource_type: filter.resource_type_filter,
        pattern_type: filter.pattern_type_filter,
        operation: filter.operation,
        permission_type: filter.permission_type,
    }))?;
    let each = DeleteAclsFilterResult::default().with_error_code(code).with_error_message(why);
    Ok(DeleteAclsResponse::default().with_filter_results(vec![each; request.filters.len()]))
}
