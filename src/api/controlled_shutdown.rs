//! ControlledShutdown (7), versions 0 to 3: a broker that stops asks the controller to have others lead.

use kafka_protocol::messages::{ControlledShutdownRequest, ControlledShutdownResponse};

use super::context::RequestContext;
use super::serve::Close;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: ControlledShutdownRequest,
) -> Result<ControlledShutdownResponse, Close> {
    Ok(ctx.services.serving.controlled_shutdown(&request).await)
}
