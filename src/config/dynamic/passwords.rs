//! Passwords among a broker's overrides: in clear while they are altered, encrypted where they are stored.

use std::fmt;

use super::Texts;
use crate::config::def::Scope;
use crate::config::password_encoder::{IV_BYTES, SALT_BYTES};
use crate::config::{BrokerConfig, keys};
use crate::random::Random;

/// Whether an override is kept encrypted: passwords that may be dynamic, with any prefix.
pub fn is_secret(name: &str) -> bool {
    keys::broker_keys().any(|key| key.is_sensitive() && key.scope != Scope::ReadOnly && name.ends_with(key.name))
}

/// Decrypts. What neither secret decrypts is left out, as Kafka ignores it. Whether the old secret was needed.
pub fn reveal(config: &BrokerConfig, overrides: &mut Texts) -> bool {
    let mut old_needed = false;
    overrides.retain(|name, text| {
        if !is_secret(name) {
            return true;
        }
        let encoders = [(&config.password_encoder, false), (&config.old_password_encoder, true)];
        let mut error: Box<dyn fmt::Display> = Box::new("password.encoder.secret is not set");
        for (encoder, old) in encoders {
            match encoder.as_ref().map(|encoder| encoder.decode(text)) {
                Some(Ok(password)) => {
                    old_needed |= old;
                    *text = password;
                    return true;
                }
                Some(Err(why)) if !old => error = Box::new(why),
                Some(Err(_)) | None => {}
            }
        }
        tracing::error!(config = name, %error, "a stored password is ignored");
        false
    });
    old_needed
}

/// Encrypts. The first one that cannot be, since there is no secret.
pub fn hide(config: &BrokerConfig, overrides: &mut Texts, random: &dyn Random) -> Result<(), String> {
    for (name, text) in overrides.iter_mut().filter(|(name, _)| is_secret(name)) {
        let (mut salt, mut iv) = ([0; SALT_BYTES], [0; IV_BYTES]);
        for chunk in salt.chunks_exact_mut(8).chain(iv.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&random.next_u64().to_be_bytes());
        }
        let encoder = config.password_encoder.as_ref();
        *text = encoder.and_then(|encoder| encoder.encode(text, &salt, &iv)).ok_or_else(|| name.clone())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::SeededRandom;

    fn broker(pairs: &[(&str, &str)]) -> BrokerConfig {
        let texts = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        BrokerConfig::from_properties(texts).unwrap().0
    }

    fn overrides(pairs: &[(&str, &str)]) -> Texts {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// Which are encrypted by a live 3.9.1.
    #[test]
    fn passwords_that_may_be_dynamic_are_secret_with_any_prefix() {
        for name in [
            "ssl.key.password",
            "listener.name.plaintext.ssl.keystore.password",
            "listener.name.x.ssl.key.password",
            "listener.name.plaintext.plain.sasl.jaas.config",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["log.retention.ms", "password.encoder.secret", "listener.name.a.ssl.keystore.location"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_changed_secret_reads_what_the_old_one_wrote() {
        let clear = overrides(&[("listener.name.a.ssl.key.password", "geheim"), ("log.retention.ms", "5")]);
        let random = SeededRandom::new(1);
        let first = broker(&[("password.encoder.secret", "one")]);
        let mut stored = clear.clone();
        hide(&first, &mut stored, &random).unwrap();
        assert_eq!(stored["log.retention.ms"], "5");
        assert!(stored["listener.name.a.ssl.key.password"].starts_with("initializationVector:"), "{stored:?}");
        let mut again = clear.clone();
        hide(&first, &mut again, &random).unwrap();
        assert_ne!(again, stored, "salt and vector are new each time");

        for (config, old_needed) in [
            (first, false),
            (broker(&[("password.encoder.secret", "two"), ("password.encoder.old.secret", "one")]), true),
        ] {
            let mut read = stored.clone();
            assert_eq!((reveal(&config, &mut read), read), (old_needed, clear.clone()));
        }
        let without: BTreeMap<_, _> = overrides(&[("log.retention.ms", "5")]);
        for other in [broker(&[("password.encoder.secret", "three")]), broker(&[])] {
            let mut read = stored.clone();
            assert_eq!((reveal(&other, &mut read), read), (false, without.clone()));
        }
    }

    #[test]
    fn without_a_secret_nothing_is_stored() {
        let name = "listener.name.a.ssl.key.password";
        let hidden = hide(&broker(&[]), &mut overrides(&[(name, "geheim")]), &SeededRandom::new(1));
        assert_eq!(hidden, Err(name.to_owned()));
    }
}
