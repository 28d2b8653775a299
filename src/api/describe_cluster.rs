//! DescribeCluster (60), versions 0-1: brokers on the listener that was asked, controller, cluster id.
//!
//! Brokers alone can be asked for here: an endpoint type of controllers is MISMATCHED_ENDPOINT_TYPE, an unknown one
//! UNSUPPORTED_ENDPOINT_TYPE. Without an authorizer the authorized operations are all there are.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::metadata::ALL_CLUSTER_OPERATIONS;
use super::serve::Close;
use crate::wire::error_code::ErrorCode;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeClusterRequest,
) -> Result<DescribeClusterResponse, Close> {
    let answer = DescribeClusterResponse::default();
    if request.endpoint_type != BROKERS {
        let (code, message) = match request.endpoint_type {
            CONTROLLERS => (ErrorCode::MismatchedEndpointType, "brokers listen here, controllers do not".to_owned()),
            other => (ErrorCode::UnsupportedEndpointType, format!("there is no endpoint type {other}")),
        };
        return Ok(answer.with_error_code(code.code()).with_error_message(Some(StrBytes::from_string(message))));
    }
    let snapshot = ctx.known_cluster().await?;
    let brokers = snapshot.brokers.values().filter_map(|broker| {
        let endpoint = broker.endpoints.get(&*ctx.connection.listener)?;
        Some(
            DescribeClusterBroker::default()
                .with_broker_id(BrokerId(broker.id.0))
                .with_host(StrBytes::from_string(endpoint.host.to_string()))
                .with_port(endpoint.port.into())
                .with_rack(broker.rack.as_deref().map(|rack| StrBytes::from_string(rack.to_owned()))),
        )
    });
    let mut answer = answer
        .with_cluster_id(StrBytes::from_string(snapshot.cluster_id.to_string()))
        .with_controller_id(BrokerId(snapshot.controller.map_or(-1, |id| id.0)))
        .with_brokers(brokers.collect());
    if request.include_cluster_authorized_operations {
        answer.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS;
    }
    Ok(answer)
}
