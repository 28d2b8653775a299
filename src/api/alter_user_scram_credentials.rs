//! AlterUserScramCredentials (51), version 0: sets and deletes users' SCRAM credentials. Served by the active controller.
//!
//! They are stored as Kafka stores them, among the overrides of `/config/users/<user>`; a client salts the password, the
//! broker derives from it what verifies it.
//!
//! Users succeed and fail as a whole and independently, each answered once. First failing check wins: NOT_CONTROLLER → an
//! empty name or iterations outside [`ITERATIONS`] (UNACCEPTABLE_CREDENTIAL), an unknown mechanism
//! (UNSUPPORTED_SASL_MECHANISM) → one mechanism of a user twice (DUPLICATE_RESOURCE) → a deletion of what is not there
//! (RESOURCE_NOT_FOUND).

use std::collections::HashSet;
use std::ops::RangeInclusive;

use indexmap::IndexMap;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use kafka_protocol::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};

use super::config_resource::Refusal;
use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::metastore::schema::{ConfigEntity, EntityName, ScramCredential, ScramMechanism};
use crate::wire::error_code::ErrorCode;

/// How often a password may have been hashed.
const ITERATIONS: RangeInclusive<i32> = 4_096..=16_384;

/// What is asked for one user.
#[derive(Default)]
struct Changes<'a> {
    deletions: Vec<&'a ScramCredentialDeletion>,
    upsertions: Vec<&'a ScramCredentialUpsertion>,
}

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: AlterUserScramCredentialsRequest,
) -> Result<AlterUserScramCredentialsResponse, Close> {
    let mut users: IndexMap<&str, Changes<'_>> = IndexMap::new();
    for deletion in &request.deletions {
        users.entry(&deletion.name).or_default().deletions.push(deletion);
    }
    for upsertion in &request.upsertions {
        users.entry(&upsertion.name).or_default().upsertions.push(upsertion);
    }
    let mut results = Vec::with_capacity(users.len());
    for (user, changes) in users {
        let answer = AlterUserScramCredentialsResult::default().with_user(text(user));
        results.push(match alter(ctx, user, &changes).await {
            Ok(()) => answer,
            Err(refusal) => answer.with_error_code(refusal.code.code()).with_error_message(refusal.text()),
        });
    }
    Ok(AlterUserScramCredentialsResponse::default().with_results(results))
}

async fn alter(ctx: &RequestContext<'_>, user: &str, changes: &Changes<'_>) -> Result<(), Refusal> {
    let admin = &ctx.services.admin;
    if !admin.is_controller() {
        return Err(Refusal { code: ErrorCode::NotController, message: None });
    }
    let mut mechanisms = Vec::new();
    for upsertion in &changes.upsertions {
        mechanisms.push(check(user, upsertion.mechanism)?);
        if !ITERATIONS.contains(&upsertion.iterations) {
            let message = format!(
                "{} iterations: from {} to {} are possible",
                upsertion.iterations,
                ITERATIONS.start(),
                ITERATIONS.end()
            );
            return Err(Refusal::new(ErrorCode::UnacceptableCredential, message));
        }
    }
    for deletion in &changes.deletions {
        mechanisms.push(check(user, deletion.mechanism)?);
    }
    let mut seen = HashSet::new();
    if !mechanisms.iter().all(|mechanism| seen.insert(mechanism)) {
        return Err(Refusal::new(ErrorCode::DuplicateResource, "a credential is altered twice in one request"));
    }
    let mut overrides = admin.overrides(&ConfigEntity::User(EntityName::Named(user.to_owned()))).await?;
    for deletion in &changes.deletions {
        let mechanism = check(user, deletion.mechanism)?;
        if overrides.remove(mechanism.name()).is_none() {
            return Err(Refusal::new(ErrorCode::ResourceNotFound, "there is no such credential to delete"));
        }
    }
    for upsertion in &changes.upsertions {
        let mechanism = check(user, upsertion.mechanism)?;
        let credential = ScramCredential::from_salted_password(
            mechanism,
            &upsertion.salt,
            &upsertion.salted_password,
            upsertion.iterations,
        );
        overrides.insert(mechanism.name().to_owned(), credential.encode());
    }
    Ok(admin.set_user_configs(user, overrides).await?)
}

fn check(user: &str, mechanism: i8) -> Result<ScramMechanism, Refusal> {
    if user.is_empty() {
        return Err(Refusal::new(ErrorCode::UnacceptableCredential, "a user has a name"));
    }
    let unknown = || {
        let message = format!("there is no SCRAM mechanism {mechanism}");
        Refusal::new(ErrorCode::UnsupportedSaslMechanism, message)
    };
    ScramMechanism::from_code(mechanism).ok_or_else(unknown)
}
