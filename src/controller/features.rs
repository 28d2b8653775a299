//! Changes of the cluster's finalized features, in `/feature`.
//!
//! A broker of 3.9 in ZooKeeper mode supports no feature that could be finalized: only what another release finalized can
//! be deleted. Rules: Kafka's `KafkaController.processFeatureUpdates`. The write checks the node's version, not the
//! controller epoch, as Kafka's does.

use super::admin::AdminError;
use crate::cluster::{settle, until_known};
use crate::metastore::schema::{Features, paths};
use crate::metastore::{Error, Metastore};
use crate::wire::error_code::ErrorCode;

/// One feature of UpdateFeatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUpdate {
    pub name: String,
    pub level: i16,
    /// A lower level, or none, may be given.
    pub may_downgrade: bool,
}

/// Carries out those that can be, in one write; one answer for each, in order. INVALID_REQUEST for what cannot be.
pub async fn update_features(
    store: &dyn Metastore,
    updates: &[FeatureUpdate],
) -> Result<Vec<Result<(), AdminError>>, AdminError> {
    loop {
        let (data, stat) = until_known(store, || store.get(paths::FEATURE)).await?;
        let mut features = Features::decode(paths::FEATURE, &data)
            .map_err(|malformed| AdminError::new(ErrorCode::UnknownServerError, malformed))?;
        let before = features.clone();
        let answers: Vec<_> = updates.iter().map(|update| apply(&before, &mut features, update)).collect();
        if features == before {
            return Ok(answers);
        }
        match store.set(paths::FEATURE, features.encode(), stat.version).await {
            Ok(_) => return Ok(answers),
            Err(Error::BadVersion(_)) => {}
            // If it was written there is nothing left to delete, which would be answered as an error: look again here.
            Err(Error::Unknown) => {
                settle(store).await;
                let (now, _) = until_known(store, || store.get(paths::FEATURE)).await?;
                if Features::decode(paths::FEATURE, &now).is_ok_and(|now| now == features) {
                    return Ok(answers);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn apply(before: &Features, features: &mut Features, update: &FeatureUpdate) -> Result<(), AdminError> {
    let refuse = |why: &str| Err(AdminError::new(ErrorCode::InvalidRequest, why));
    if update.name.is_empty() {
        return refuse("a feature has a name");
    }
    match (update.level < 1, update.may_downgrade) {
        (true, true) if before.finalized.contains_key(&update.name) => {
            features.finalized.remove(&update.name);
            Ok(())
        }
        (true, true) => refuse("the feature is not finalized: there is nothing to delete"),
        (true, false) => refuse("a level is 1 or higher"),
        (false, _) => refuse("the feature is not supported by the brokers of this cluster"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::testing::tree;
    use crate::metastore::CreateMode;

    #[tokio::test]
    async fn only_what_another_release_finalized_can_be_deleted() {
        let store = tree().session();
        let finalized = [("old".to_owned(), 3), ("other".to_owned(), 1)];
        let features = Features { enabled: true, finalized: finalized.into_iter().collect() };
        store.create(paths::FEATURE, Some(features.encode()), CreateMode::Persistent).await.unwrap();
        let update = |name: &str, level, may_downgrade| FeatureUpdate { name: name.into(), level, may_downgrade };
        let updates = [
            update("old", 0, true),
            update("new", 1, false),
            update("gone", 0, true),
            update("other", 0, false),
            update("", 1, false),
        ];
        let answers = update_features(&*store, &updates).await.unwrap();
        let codes: Vec<Option<ErrorCode>> =
            answers.into_iter().map(|answer| answer.err().map(|error| error.code)).collect();
        let invalid = Some(ErrorCode::InvalidRequest);
        assert_eq!(codes, [None, invalid, invalid, invalid, invalid]);
        let (data, stat) = store.get(paths::FEATURE).await.unwrap();
        let left = Features::decode(paths::FEATURE, &data).unwrap();
        assert_eq!(left.finalized.into_keys().collect::<Vec<_>>(), ["other"]);
        assert_eq!(stat.version, 1, "one write");
    }
}
