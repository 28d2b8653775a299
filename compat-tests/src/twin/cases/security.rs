//! What a broker without any security answers about security: SASL, ACLs, delegation tokens, SCRAM users.

use anyhow::Result;
use bytes::Bytes;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_delegation_token_request::CreatableRenewers;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_delegation_token_request::DescribeDelegationTokenOwner;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::*;

use super::super::requests::text;
use super::super::script::Script;

pub fn sasl(script: &mut Script) -> Result<()> {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "GSSAPI", ""] {
        script.ask_all(&format!("mechanism {mechanism:?}"), ApiKey::SaslHandshake, |_, _| {
            RequestKind::SaslHandshake(SaslHandshakeRequest::default().with_mechanism(text(mechanism)))
        })?;
        script.ask_all(&format!("tokens after {mechanism:?}"), ApiKey::SaslAuthenticate, |_, _| {
            let bytes = Bytes::from_static(b"\0user\0password");
            RequestKind::SaslAuthenticate(SaslAuthenticateRequest::default().with_auth_bytes(bytes))
        })?;
    }
    script.ask("the connection lives on", ApiKey::ApiVersions, 0, |_| RequestKind::ApiVersions(Default::default()))
}

/// Resource type, pattern type, operation and permission type: each known, then each with its ends and beyond.
fn elements() -> Vec<(String, [i8; 4])> {
    let mut all = vec![("known elements".to_owned(), [2, 3, 3, 3])];
    for (what, at, last) in
        [("resource type", 0, 7), ("pattern type", 1, 4), ("operation", 2, 14), ("permission type", 3, 3)]
    {
        for value in [-1, 0, 1, last, last + 1, i8::MAX] {
            let mut elements = [2, 3, 3, 3];
            elements[at] = value;
            all.push((format!("{what} {value}"), elements));
        }
    }
    all
}

pub fn acls(script: &mut Script) -> Result<()> {
    for (step, [resource, pattern, operation, permission]) in elements() {
        script.ask_all(&step, ApiKey::DescribeAcls, |version, _| {
            let filter = DescribeAclsRequest::default()
                .with_resource_type_filter(resource)
                .with_resource_name_filter(None)
                .with_principal_filter(None)
                .with_host_filter(None)
                .with_operation(operation)
                .with_permission_type(permission);
            RequestKind::DescribeAcls(if version >= 1 { filter.with_pattern_type_filter(pattern) } else { filter })
        })?;
        let creation = |version: i16| {
            let creation = AclCreation::default()
                .with_resource_type(resource)
                .with_resource_name(text("a"))
                .with_principal(text("User:a"))
                .with_host(text("*"))
                .with_operation(operation)
                .with_permission_type(permission);
            if version >= 1 { creation.with_resource_pattern_type(pattern) } else { creation }
        };
        script.ask_all(&step, ApiKey::CreateAcls, |version, _| {
            let sound = AclCreation::default()
                .with_resource_type(2)
                .with_resource_name(text("b"))
                .with_principal(text("no principal"))
                .with_host(text("*"))
                .with_operation(3)
                .with_permission_type(3);
            RequestKind::CreateAcls(CreateAclsRequest::default().with_creations(vec![sound, creation(version)]))
        })?;
        script.ask_all(&step, ApiKey::DeleteAcls, |version, _| {
            let filter = DeleteAclsFilter::default()
                .with_resource_type_filter(resource)
                .with_resource_name_filter(Some(text("a")))
                .with_principal_filter(None)
                .with_host_filter(None)
                .with_operation(operation)
                .with_permission_type(permission);
            let filter = if version >= 1 { filter.with_pattern_type_filter(pattern) } else { filter };
            RequestKind::DeleteAcls(DeleteAclsRequest::default().with_filters(vec![filter.clone(), filter]))
        })?;
    }
    script.ask_all("nothing to create", ApiKey::CreateAcls, |_, _| RequestKind::CreateAcls(Default::default()))?;
    script.ask_all("nothing to delete", ApiKey::DeleteAcls, |_, _| RequestKind::DeleteAcls(Default::default()))
}

pub fn delegation_tokens(script: &mut Script) -> Result<()> {
    for (step, owner) in [
        ("for who asks", [None, None]),
        ("for an owner", [Some("User"), Some("b")]),
        ("for an owner without a name", [Some("User"), Some("")]),
        ("for an owner without a type", [None, Some("b")]),
        ("for an owner of another type", [Some("Group"), Some("b")]),
        ("for a type without a name", [Some("Group"), None]),
    ] {
        script.ask_all(step, ApiKey::CreateDelegationToken, |version, _| {
            let renewer = CreatableRenewers::default().with_principal_type(text("User")).with_principal_name(text("a"));
            let request = CreateDelegationTokenRequest::default().with_renewers(vec![renewer]).with_max_lifetime_ms(-1);
            RequestKind::CreateDelegationToken(match version {
                3.. => {
                    request.with_owner_principal_type(owner[0].map(text)).with_owner_principal_name(owner[1].map(text))
                }
                _ => request,
            })
        })?;
    }
    script.ask_all("a renewer that is no user", ApiKey::CreateDelegationToken, |_, _| {
        let renewer = CreatableRenewers::default().with_principal_type(text("Group")).with_principal_name(text("a"));
        RequestKind::CreateDelegationToken(CreateDelegationTokenRequest::default().with_renewers(vec![renewer]))
    })?;
    script.ask_all("renewal", ApiKey::RenewDelegationToken, |_, _| {
        let hmac = Bytes::from_static(b"hmac");
        RequestKind::RenewDelegationToken(
            RenewDelegationTokenRequest::default().with_hmac(hmac).with_renew_period_ms(1000),
        )
    })?;
    script.ask_all("expiry", ApiKey::ExpireDelegationToken, |_, _| {
        let hmac = Bytes::from_static(b"hmac");
        RequestKind::ExpireDelegationToken(
            ExpireDelegationTokenRequest::default().with_hmac(hmac).with_expiry_time_period_ms(1000),
        )
    })?;
    let owner =
        DescribeDelegationTokenOwner::default().with_principal_type(text("User")).with_principal_name(text("a"));
    for (step, owners) in [("of all", None), ("of nobody", Some(vec![])), ("of one", Some(vec![owner]))] {
        script.ask_all(step, ApiKey::DescribeDelegationToken, |_, _| {
            RequestKind::DescribeDelegationToken(DescribeDelegationTokenRequest::default().with_owners(owners.clone()))
        })?;
    }
    Ok(())
}

/// What is asked of one user: a mechanism, and iterations to set it or none to delete it.
type Change<'a> = (&'a str, i8, Option<i32>);

fn alter(script: &mut Script, step: &str, changes: &[Change]) -> Result<()> {
    script.ask_all(step, ApiKey::AlterUserScramCredentials, |_, _| {
        let mut request = AlterUserScramCredentialsRequest::default();
        for (user, mechanism, iterations) in changes {
            match iterations {
                Some(iterations) => request.upsertions.push(
                    ScramCredentialUpsertion::default()
                        .with_name(text(user))
                        .with_mechanism(*mechanism)
                        .with_iterations(*iterations)
                        .with_salt(Bytes::from_static(b"salt"))
                        .with_salted_password(Bytes::from_static(b"salted password")),
                ),
                None => request
                    .deletions
                    .push(ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(*mechanism)),
            }
        }
        RequestKind::AlterUserScramCredentials(request)
    })
}

fn describe(script: &mut Script, step: &str, users: Option<&[&str]>) -> Result<()> {
    let users: Option<Vec<UserName>> =
        users.map(|users| users.iter().map(|name| UserName::default().with_name(text(name))).collect());
    script.ask_all(step, ApiKey::DescribeUserScramCredentials, |_, _| {
        RequestKind::DescribeUserScramCredentials(
            DescribeUserScramCredentialsRequest::default().with_users(users.clone()),
        )
    })
}

pub fn scram_users(script: &mut Script) -> Result<()> {
    describe(script, "all of none", None)?;
    describe(script, "nobody", Some(&[]))?;
    describe(script, "unknown ones", Some(&["a", "b", ""]))?;
    describe(script, "one twice", Some(&["a", "a", "b", "", ""]))?;
    alter(script, "nothing", &[])?;
    for (step, change) in [
        ("no name", ("", 1, Some(4096))),
        ("deletion without a name", ("", 1, None)),
        ("mechanism 0", ("a", 0, Some(4096))),
        ("mechanism 3", ("a", 3, Some(4096))),
        ("mechanism -1", ("a", -1, Some(4096))),
        ("deletion of mechanism 0", ("a", 0, None)),
        ("4095 iterations", ("a", 1, Some(4095))),
        ("16385 iterations", ("a", 1, Some(16385))),
        ("0 iterations", ("a", 2, Some(0))),
        ("an unknown mechanism and 0 iterations", ("a", 9, Some(0))),
        ("no name and an unknown mechanism", ("", 9, Some(0))),
        ("deletion of what is not there", ("a", 1, None)),
    ] {
        alter(script, step, &[change])?;
    }
    describe(script, "still none", None)?;
    alter(
        script,
        "several",
        &[("b", 1, Some(4096)), ("a", 2, Some(16384)), ("b", 2, Some(8192)), ("ä +*/", 1, Some(5000))],
    )?;
    describe(script, "all", None)?;
    describe(script, "some", Some(&["ä +*/", "b", "c"]))?;
    alter(script, "one that is bad with one that is good", &[("a", 1, Some(1)), ("b", 1, Some(4097))])?;
    alter(script, "one user's bad with its good", &[("a", 1, Some(1)), ("a", 2, Some(4097))])?;
    alter(script, "one twice", &[("a", 1, Some(4096)), ("a", 1, Some(4096)), ("b", 1, Some(4098))])?;
    alter(script, "set and deleted", &[("a", 2, Some(4096)), ("a", 2, None)])?;
    alter(script, "twice and bad", &[("a", 1, Some(1)), ("a", 1, Some(4096))])?;
    alter(script, "twice, and not there", &[("a", 1, None), ("a", 1, None)])?;
    alter(script, "bad, and not there", &[("a", 1, None), ("a", 2, Some(1))])?;
    alter(script, "not there, with another", &[("a", 1, None), ("a", 2, Some(4097))])?;
    describe(script, "what is left of it", None)?;
    alter(script, "deletions", &[("b", 1, None), ("a", 2, None)])?;
    describe(script, "after deletions", None)?;
    alter(script, "the rest", &[("b", 2, None), ("ä +*/", 1, None)])?;
    describe(script, "none again", None)
}
