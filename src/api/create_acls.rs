//! CreateAcls (30), versions 0-3: SECURITY_DISABLED for each, as by a Kafka without an authorizer. An UNKNOWN in one
//! closes the connection.

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::{CreateAclsRequest, CreateAclsResponse};

use super::acl_elements::{Elements, refused};
use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(_: &RequestContext<'_>, request: CreateAclsRequest) -> Result<CreateAclsResponse, Close> {
    let (code, why) = refused(request.creations.iter().map(|acl| Elements {
        resource_type: acl.resource_type,
        pattern_type: acl.resource_pattern_type,
        operation: acl.operation,
        permission_type: acl.permission_type,
    }))?;
    let each = AclCreationResult::default().with_error_code(code).with_error_message(why);
    Ok(CreateAclsResponse::default().with_results(vec![each; request.creations.len()]))
}
