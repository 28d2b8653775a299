//! SCRAM credentials of users. Of a password the broker is sent what PBKDF2 makes of it, never itself (RFC 5802).

use anyhow::{Context, anyhow};
use bytes::Bytes;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
};
use kafka_protocol::protocol::StrBytes;
use pbkdf2::pbkdf2_hmac;
use sha2::{Sha256, Sha512};

use super::entity::Entities;
use super::quotas::is_quota;
use super::settings::Settings;
use super::usage;
use crate::cli::admin::Admin;
use crate::cli::refusal::{name as name_of_code, refuse};
use crate::random::{Random, SystemRandom};

/// What the broker answers for a user without credentials.
const RESOURCE_NOT_FOUND: i16 = 91;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Sha256,
    Sha512,
}

impl Mechanism {
    const ALL: [Mechanism; 2] = [Mechanism::Sha256, Mechanism::Sha512];
    /// Iterations that Kafka allows, both included; the fewest unless others are asked for.
    const ITERATIONS: (i32, i32) = (4096, 16_384);

    fn name(self) -> &'static str {
        match self {
            Mechanism::Sha256 => "SCRAM-SHA-256",
            Mechanism::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// In the protocol.
    fn code(self) -> i8 {
        match self {
            Mechanism::Sha256 => 1,
            Mechanism::Sha512 => 2,
        }
    }

    fn named(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    fn salted(self, password: &str, salt: &[u8], iterations: u32) -> Bytes {
        match self {
            Mechanism::Sha256 => {
                let mut out = [0; 32];
                pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut out);
                Bytes::copy_from_slice(&out)
            }
            Mechanism::Sha512 => {
                let mut out = [0; 64];
                pbkdf2_hmac::<Sha512>(password.as_bytes(), salt, iterations, &mut out);
                Bytes::copy_from_slice(&out)
            }
        }
    }
}

/// Whether a credential is set or deleted.
pub fn concerns(settings: &Settings) -> bool {
    settings.set.keys().chain(&settings.delete).any(|name| Mechanism::named(name).is_some())
}

/// An usage error for credentials beside anything else.
pub fn check(entities: &Entities, settings: &Settings) -> anyhow::Result<()> {
    let kind = super::first(entities)?;
    let others = |names: &mut dyn Iterator<Item = &String>, done: &str| {
        let names = names.map(String::as_str);
        let names: Vec<&str> = names.filter(|name| Mechanism::named(name).is_none() && !is_quota(kind, name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(usage(format!(
            "Only quota and SCRAM credential configs can be {done} for 'users' using --bootstrap-server. Unexpected config \
             names: {}",
            names.join(", ")
        )))
    };
    others(&mut settings.set.keys(), "added")?;
    others(&mut settings.delete.iter(), "deleted")?;
    if entities.names.iter().any(Option::is_none) {
        return Err(usage(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using \
             --bootstrap-server.",
        ));
    }
    if settings.set.keys().chain(&settings.delete).any(|name| is_quota(kind, name)) {
        return Err(usage(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.",
        ));
    }
    Ok(())
}

/// `iterations=8192,password=x` or `password=x`.
fn parse(mechanism: Mechanism, value: &str) -> anyhow::Result<(i32, &str)> {
    let invalid = || {
        let constant = mechanism.name().replace('-', "_");
        usage(format!("Invalid credential property {constant}={value}"))
    };
    let (least, most) = Mechanism::ITERATIONS;
    let (iterations, rest) = match value.strip_prefix("iterations=").map(|rest| rest.split_once(',')) {
        Some(Some((number, rest))) => (number.parse().map_err(|_| invalid())?, rest),
        Some(None) => return Err(invalid()),
        None => (least, value),
    };
    let password = rest.strip_prefix("password=").ok_or_else(invalid)?;
    let name = mechanism.name();
    match iterations {
        few if few < least => {
            Err(usage(format!("Iterations {few} is less than the minimum {least} required for {name}")))
        }
        many if many > most => {
            Err(usage(format!("Iterations {many} is greater than the maximum {most} required for {name}")))
        }
        iterations => Ok((iterations, password)),
    }
}

pub fn alter(user: &str, settings: &Settings, admin: &mut Admin) -> anyhow::Result<()> {
    let user = StrBytes::from_string(user.to_owned());
    let mut upsertions = Vec::new();
    for (name, value) in &settings.set {
        let mechanism = Mechanism::named(name).ok_or_else(|| anyhow!("{name} is no SCRAM mechanism"))?;
        let (iterations, password) = parse(mechanism, value)?;
        let salt: Vec<u8> = (0..4).flat_map(|_| SystemRandom.next_u64().to_be_bytes()).collect();
        let salted = mechanism.salted(password, &salt, u32::try_from(iterations).context("iterations")?);
        let upsertion = ScramCredentialUpsertion::default().with_name(user.clone()).with_mechanism(mechanism.code());
        upsertions.push(upsertion.with_iterations(iterations).with_salt(salt.into()).with_salted_password(salted));
    }
    let deletions =
        settings.delete.iter().filter_map(|name| Mechanism::named(name)).map(|mechanism| {
            ScramCredentialDeletion::default().with_name(user.clone()).with_mechanism(mechanism.code())
        });
    let request =
        AlterUserScramCredentialsRequest::default().with_deletions(deletions.collect()).with_upsertions(upsertions);
    let codes =
        |answer: &AlterUserScramCredentialsResponse| answer.results.iter().map(|user| user.error_code).collect();
    let answer = admin.ask_controller(&request, codes)?;
    answer.results.iter().try_for_each(|result| refuse(result.error_code, result.error_message.as_ref()))
}

/// Of all users without a name.
pub fn describe(users: &[Option<String>], admin: &mut Admin) -> anyhow::Result<()> {
    let users = users.iter().flatten().map(|name| UserName::default().with_name(StrBytes::from_string(name.clone())));
    let users: Vec<UserName> = users.collect();
    let request =
        DescribeUserScramCredentialsRequest::default().with_users(Some(users).filter(|users| !users.is_empty()));
    let answer = admin.ask(&request)?;
    refuse(answer.error_code, answer.error_message.as_ref())?;
    for result in answer.results {
        let user = &result.user;
        match result.error_code {
            0 => {
                let infos = result.credential_infos.iter().filter_map(|info| {
                    let mechanism = Mechanism::ALL.into_iter().find(|known| known.code() == info.mechanism)?;
                    Some(format!("{}=iterations={}", mechanism.name(), info.iterations))
                });
                let infos: Vec<String> = infos.collect();
                println!("SCRAM credential configs for user-principal '{user}' are {}", infos.join(", "));
            }
            RESOURCE_NOT_FOUND => {}
            code => println!(
                "Error retrieving SCRAM credential configs for user-principal '{user}': {}",
                result.error_message.map_or_else(|| name_of_code(code), |message| message.to_string())
            ),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::super::entity::Kind;
    use super::*;

    #[test]
    fn credentials_are_read_as_kafka_reads_them() {
        let read = |value| parse(Mechanism::Sha256, value).map_err(|error| error.to_string());
        assert_eq!(read("password=x=y,z"), Ok((4096, "x=y,z")));
        assert_eq!(read("iterations=8192,password=x"), Ok((8192, "x")));
        for (value, why) in [
            ("iterations=8192,passwd=x", "Invalid credential property SCRAM_SHA_256=iterations=8192,passwd=x"),
            ("iterations=x,password=x", "Invalid credential property SCRAM_SHA_256=iterations=x,password=x"),
            ("iterations=819,password=x", "Iterations 819 is less than the minimum 4096 required for SCRAM-SHA-256"),
            (
                "iterations=16385,password=x",
                "Iterations 16385 is greater than the maximum 16384 required for SCRAM-SHA-256",
            ),
        ] {
            assert_eq!(read(value), Err(why.to_owned()));
        }
    }

    // RFC 7677's example: user, pencil.
    #[test]
    fn passwords_are_salted_by_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = Mechanism::Sha256.salted("pencil", &salt, 4096);
        assert_eq!(STANDARD.encode(salted), "xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0=");
        assert_eq!(Mechanism::Sha512.salted("pencil", &salt, 4096).len(), 64);
    }

    #[test]
    fn credentials_go_with_nothing_else() {
        let refused = |names: Vec<Option<String>>, add: &str| {
            let entities = Entities { kinds: vec![Kind::Users], names };
            check(&entities, &Settings::new(Some(add), None, None).unwrap()).err().map(|error| error.to_string())
        };
        let user = || vec![Some("u".to_owned())];
        assert_eq!(refused(user(), "SCRAM-SHA-256=[password=x]"), None);
        assert!(refused(vec![None], "SCRAM-SHA-256=[password=x]").unwrap().starts_with("The use of --entity-default"));
        assert!(
            refused(user(), "SCRAM-SHA-256=[password=x],producer_byte_rate=1").unwrap().starts_with("Cannot alter")
        );
        assert!(refused(user(), "SCRAM-SHA-256=[password=x],nope=1").unwrap().starts_with("Only quota and SCRAM"));
    }
}
