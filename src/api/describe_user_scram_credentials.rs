//! DescribeUserScramCredentials (50), version 0: which SCRAM mechanisms users have, with how many iterations.
//!
//! Null or no users mean all that have a credential, by name. Of those that are named: no name or no credential is
//! RESOURCE_NOT_FOUND, a name given twice DUPLICATE_RESOURCE, answered once. A credential that cannot be read is
//! UNKNOWN_SERVER_ERROR.

use std::collections::{BTreeMap, HashSet};

use kafka_protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use kafka_protocol::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};

use super::config_resource::{Refusal, duplicates};
use super::context::RequestContext;
use super::group_member::text;
use super::serve::Close;
use crate::controller::admin::AdminError;
use crate::metastore::schema::{ConfigEntity, EntityName, ScramCredential, ScramMechanism};
use crate::wire::error_code::ErrorCode;

pub async fn handle(
    ctx: &RequestContext<'_>,
    request: DescribeUserScramCredentialsRequest,
) -> Result<DescribeUserScramCredentialsResponse, Close> {
    let answer = DescribeUserScramCredentialsResponse::default();
    let named = request.users.filter(|users| !users.is_empty());
    let described = match &named {
        Some(users) => describe(ctx, users.iter().map(|user| user.name.as_str()).collect()).await,
        None => describe_all(ctx).await,
    };
    Ok(match described {
        Ok(results) => answer.with_results(results),
        Err(error) => {
            let refusal = Refusal::from(error);
            answer.with_error_code(refusal.code.code()).with_error_message(refusal.text())
        }
    })
}

type Results = Result<Vec<DescribeUserScramCredentialsResult>, AdminError>;

async fn describe_all(ctx: &RequestContext<'_>) -> Results {
    let mut results = Vec::new();
    for user in ctx.services.admin.users().await? {
        let credentials = credentials(&overrides(ctx, &user).await?);
        if credentials.as_ref().is_none_or(|found| !found.is_empty()) {
            results.push(result(&user, credentials));
        }
    }
    Ok(results)
}

async fn describe(ctx: &RequestContext<'_>, users: Vec<&str>) -> Results {
    let twice = duplicates(users.iter().copied());
    let mut answered = HashSet::new();
    let mut results = Vec::new();
    for user in users.into_iter().filter(|user| answered.insert(*user)) {
        results.push(if user.is_empty() {
            refused(user, ErrorCode::ResourceNotFound, "a user has a name")
        } else if twice.contains(user) {
            refused(user, ErrorCode::DuplicateResource, "the user is asked for twice")
        } else {
            match credentials(&overrides(ctx, user).await?) {
                Some(found) if found.is_empty() => {
                    refused(user, ErrorCode::ResourceNotFound, "the user has no SCRAM credentials")
                }
                credentials => result(user, credentials),
            }
        });
    }
    Ok(results)
}

async fn overrides(ctx: &RequestContext<'_>, user: &str) -> Result<BTreeMap<String, String>, AdminError> {
    ctx.services.admin.overrides(&ConfigEntity::User(EntityName::Named(user.to_owned()))).await
}

/// `None` when one of them is no credential.
fn credentials(overrides: &BTreeMap<String, String>) -> Option<Vec<CredentialInfo>> {
    let stored =
        ScramMechanism::ALL.into_iter().filter_map(|mechanism| Some((mechanism, overrides.get(mechanism.name())?)));
    let info = |(mechanism, stored): (ScramMechanism, &String)| {
        let iterations = ScramCredential::decode(stored)?.iterations;
        Some(CredentialInfo::default().with_mechanism(mechanism as i8).with_iterations(iterations))
    };
    stored.map(info).collect()
}

fn result(user: &str, credentials: Option<Vec<CredentialInfo>>) -> DescribeUserScramCredentialsResult {
    match credentials {
        Some(found) => DescribeUserScramCredentialsResult::default().with_user(text(user)).with_credential_infos(found),
        None => refused(user, ErrorCode::UnknownServerError, "what is stored is no SCRAM credential"),
    }
}

fn refused(user: &str, code: ErrorCode, why: &str) -> DescribeUserScramCredentialsResult {
    DescribeUserScramCredentialsResult::default()
        .with_user(text(user))
        .with_error_code(code.code())
        .with_error_message(Some(text(why)))
}
