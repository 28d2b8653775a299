//! UpdateFeatures (57), versions 0-1. Served by the active controller.
//!
//! Top level: NOT_CONTROLLER. Each feature's answer is that of
//! [`update_features`](crate::controller::features::update_features); a feature given twice is answered once, with the last
//! answer. `validate_only` (v1) is not looked at, as Kafka's controller does not look at it.

use indexmap::IndexMap;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::update_features_response::UpdatableFeatureResult;
use kafka_protocol::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use kafka_protocol::protocol::StrBytes;

use super::context::RequestContext;
use super::serve::Close;
use crate::controller::admin::AdminError;
use crate::controller::ask::NotController;
use crate::controller::features::{FeatureUpdate, update_features};
use crate::wire::error_code::ErrorCode;

/// `upgrade_type` of v1.
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

pub async fn handle(ctx: &RequestContext<'_>, request: UpdateFeaturesRequest) -> Result<UpdateFeaturesResponse, Close> {
    let answer = UpdateFeaturesResponse::default().with_error_message(None);
    Ok(match update(ctx, &request.feature_updates).await {
        Ok(results) => answer.with_results(results),
        Err(error) => {
            answer.with_error_code(error.code.code()).with_error_message(error.told().map(StrBytes::from_string))
        }
    })
}

async fn update(
    ctx: &RequestContext<'_>,
    asked: &[FeatureUpdateKey],
) -> Result<Vec<UpdatableFeatureResult>, AdminError> {
    let admin = &ctx.services.admin;
    if !admin.is_controller() {
        return Err(AdminError::new(ErrorCode::NotController, NotController));
    }
    let may_downgrade = |key: &FeatureUpdateKey| match ctx.version() {
        0 => key.allow_downgrade,
        _ => matches!(key.upgrade_type, SAFE_DOWNGRADE | UNSAFE_DOWNGRADE),
    };
    let updates: Vec<FeatureUpdate> = asked
        .iter()
        .map(|key| FeatureUpdate {
            name: key.feature.to_string(),
            level: key.max_version_level,
            may_downgrade: may_downgrade(key),
        })
        .collect();
    let answers = update_features(&*admin.store(), &updates).await?;
    let answered: IndexMap<&StrBytes, _> = asked.iter().map(|key| &key.feature).zip(answers).collect();
    let result = |(feature, answer): (&StrBytes, Result<(), AdminError>)| {
        let result = UpdatableFeatureResult::default().with_feature(feature.clone());
        match answer {
            Ok(()) => result.with_error_message(None),
            Err(error) => {
                result.with_error_code(error.code.code()).with_error_message(error.told().map(StrBytes::from_string))
            }
        }
    };
    Ok(answered.into_iter().map(result).collect())
}
