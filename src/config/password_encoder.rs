//! Passwords among the dynamic configs of a broker, encrypted with `password.encoder.secret` as Kafka stores them
//! (`EncryptingPasswordEncoder`): fields `name:value` between commas, bytes as Base64. The key comes from the secret by
//! PBKDF2; salt and initialization vector are new each time.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use aes::{Aes128, Aes192, Aes256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use cbc::{Decryptor, Encryptor};
use pbkdf2::pbkdf2_hmac;
use sha2::{Sha256, Sha384, Sha512};

use super::ConfigError;
use super::values::Values;

/// The only `password.encoder.cipher.algorithm`.
const CIPHER: &str = "AES/CBC/PKCS5Padding";
/// What `password.encoder.keyfactory.algorithm` may be. (Kafka's fallback for a Java without SHA-512 is not among them.)
const KEY_FACTORIES: &[&str] = &["PBKDF2WithHmacSHA256", "PBKDF2WithHmacSHA384", "PBKDF2WithHmacSHA512"];
/// Key lengths of AES.
const KEY_BITS: [usize; 3] = [128, 192, 256];
const DEFAULT_KEY_FACTORY: &str = "PBKDF2WithHmacSHA512";

/// Rounds that a stored password may ask for: what reads it must come to an end.
const ITERATIONS_MAX: u32 = 10_000_000;

pub const SALT_BYTES: usize = 256;
pub const IV_BYTES: usize = 16;

/// Why a stored password cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("it has no {0}, or not one that can be")]
    Field(&'static str),
    #[error("{0} is not there")]
    Algorithm(String),
    #[error("it was encrypted with another secret")]
    Secret,
}

/// Encrypts and decrypts with one secret.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordEncoder {
    secret: String,
    key_factory: String,
    key_bits: usize,
    iterations: u32,
}

impl Debug for PasswordEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordEncoder").field("key_factory", &self.key_factory).finish_non_exhaustive()
    }
}

impl PasswordEncoder {
    /// Of `password.encoder.secret` or `password.encoder.old.secret`; `None` where that is not set. Refuses algorithms
    /// that are not there, at once: a Kafka finds that out when the first password is stored.
    pub(super) fn build(values: &Values, secret: &str) -> Result<Option<PasswordEncoder>, ConfigError> {
        let Some(secret) = values.some_text(secret) else { return Ok(None) };
        let factory = values.some_text("password.encoder.keyfactory.algorithm");
        let encoder = PasswordEncoder {
            secret,
            key_factory: factory.unwrap_or_else(|| DEFAULT_KEY_FACTORY.to_owned()),
            key_bits: values.number("password.encoder.key.length"),
            iterations: values.number("password.encoder.iterations"),
        };
        let cipher = values.some_text("password.encoder.cipher.algorithm").unwrap_or_default();
        let (factory, bits) = (encoder.key_factory.as_str(), encoder.key_bits);
        if cipher != CIPHER {
            return Err(ConfigError::rule("password.encoder.cipher.algorithm", cipher, format!("should be {CIPHER}")));
        }
        if !KEY_FACTORIES.contains(&factory) {
            let why = format!("should be one of {}", KEY_FACTORIES.join(", "));
            return Err(ConfigError::rule("password.encoder.keyfactory.algorithm", factory, why));
        }
        if !KEY_BITS.contains(&bits) {
            return Err(ConfigError::rule("password.encoder.key.length", bits, "should be 128, 192 or 256"));
        }
        Ok(Some(encoder))
    }

    /// Takes long on purpose: `password.encoder.iterations` hashes. `None` when the key's length is not one of AES.
    pub fn encode(&self, password: &str, salt: &[u8; SALT_BYTES], iv: &[u8; IV_BYTES]) -> Option<String> {
        let key = derive(&self.key_factory, &self.secret, salt, self.iterations, self.key_bits)?;
        let bytes = password.as_bytes();
        let encrypted = match self.key_bits {
            128 => Encryptor::<Aes128>::new_from_slices(&key, iv).ok()?.encrypt_padded_vec::<Pkcs7>(bytes),
            192 => Encryptor::<Aes192>::new_from_slices(&key, iv).ok()?.encrypt_padded_vec::<Pkcs7>(bytes),
            256 => Encryptor::<Aes256>::new_from_slices(&key, iv).ok()?.encrypt_padded_vec::<Pkcs7>(bytes),
            _ => return None,
        };
        Some(format!(
            "initializationVector:{},keyLength:{},salt:{},keyFactoryAlgorithm:{},cipherAlgorithm:{CIPHER},iterations:{},\
             passwordLength:{},encryptedPassword:{}",
            STANDARD.encode(iv),
            self.key_bits,
            STANDARD.encode(salt),
            self.key_factory,
            self.iterations,
            java_length(password),
            STANDARD.encode(encrypted),
        ))
    }

    /// The password, by the algorithms that `stored` names. Takes as long as encoding.
    pub fn decode(&self, stored: &str) -> Result<String, DecodeError> {
        let fields: BTreeMap<&str, &str> =
            stored.split(',').filter_map(|field| field.split_once(':')).map(|(k, v)| (k.trim(), v.trim())).collect();
        let text = |name: &'static str| fields.get(name).copied().ok_or(DecodeError::Field(name));
        let number = |name| text(name)?.parse::<u32>().map_err(|_| DecodeError::Field(name));
        let bytes = |name| STANDARD.decode(text(name)?).map_err(|_| DecodeError::Field(name));
        let (cipher, factory) = (text("cipherAlgorithm")?, text("keyFactoryAlgorithm")?);
        if cipher != CIPHER {
            return Err(DecodeError::Algorithm(cipher.to_owned()));
        }
        let (bits, iterations) = (number("keyLength")? as usize, number("iterations")?);
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(DecodeError::Field("iterations"));
        }
        let (iv, length) = (bytes("initializationVector")?, number("passwordLength")? as usize);
        let encrypted = bytes("encryptedPassword")?;
        let key = derive(factory, &self.secret, &bytes("salt")?, iterations, bits)
            .ok_or_else(|| DecodeError::Algorithm(format!("{factory} with {bits} bits")))?;
        let no_iv = |_| DecodeError::Field("initializationVector");
        let other = |_| DecodeError::Secret;
        let decrypted = match bits {
            128 => {
                Decryptor::<Aes128>::new_from_slices(&key, &iv).map_err(no_iv)?.decrypt_padded_vec::<Pkcs7>(&encrypted)
            }
            192 => {
                Decryptor::<Aes192>::new_from_slices(&key, &iv).map_err(no_iv)?.decrypt_padded_vec::<Pkcs7>(&encrypted)
            }
            _ => {
                Decryptor::<Aes256>::new_from_slices(&key, &iv).map_err(no_iv)?.decrypt_padded_vec::<Pkcs7>(&encrypted)
            }
        };
        let password = String::from_utf8(decrypted.map_err(other)?).map_err(|_| DecodeError::Secret)?;
        // One wrong secret in 256 leaves a padding that fits.
        if java_length(&password) == length { Ok(password) } else { Err(DecodeError::Secret) }
    }
}

/// A key of `bits`; `None` when AES has none of that length, or for another way to derive it.
fn derive(factory: &str, secret: &str, salt: &[u8], iterations: u32, bits: usize) -> Option<Vec<u8>> {
    if !KEY_BITS.contains(&bits) {
        return None;
    }
    let (secret, mut key) = (secret.as_bytes(), vec![0; bits / 8]);
    match factory {
        "PBKDF2WithHmacSHA256" => pbkdf2_hmac::<Sha256>(secret, salt, iterations, &mut key),
        "PBKDF2WithHmacSHA384" => pbkdf2_hmac::<Sha384>(secret, salt, iterations, &mut key),
        "PBKDF2WithHmacSHA512" => pbkdf2_hmac::<Sha512>(secret, salt, iterations, &mut key),
        _ => return None,
    }
    Some(key)
}

/// UTF-16 units.
fn java_length(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    /// Written by a live 3.9.1 with the secret "sesam".
    const STORED: &str = include_str!("testdata/password.txt");

    fn encoder(secret: &str, key_factory: &str, key_bits: usize) -> PasswordEncoder {
        PasswordEncoder { secret: secret.into(), key_factory: key_factory.into(), key_bits, iterations: 4096 }
    }

    #[test]
    fn what_kafka_wrote_is_read_and_written_alike() {
        let encoder = encoder("sesam", DEFAULT_KEY_FACTORY, 128);
        let stored = STORED.trim_end();
        assert_eq!(encoder.decode(stored).as_deref(), Ok("geheim"));
        let field = |name: &str| {
            let field = stored.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix(':'));
            STANDARD.decode(field.unwrap()).unwrap()
        };
        let (salt, iv) = (field("salt").try_into().unwrap(), field("initializationVector").try_into().unwrap());
        assert_eq!(encoder.encode("geheim", &salt, &iv).as_deref(), Some(stored));
    }

    #[test]
    fn every_algorithm_reads_what_it_wrote() {
        for factory in KEY_FACTORIES {
            for bits in [128, 192, 256] {
                let encoder = encoder("s\u{e9}same", factory, bits);
                for password in ["", "p", "sixteen bytes ..", "\u{1f511} key"] {
                    let stored = encoder.encode(password, &[7; SALT_BYTES], &[9; IV_BYTES]).unwrap();
                    assert_eq!(encoder.decode(&stored).as_deref(), Ok(password), "{factory} {bits}");
                }
            }
        }
    }

    #[test]
    fn algorithms_that_are_not_there_stop_the_start() {
        for (key, value) in [
            ("password.encoder.cipher.algorithm", "AES/GCM/NoPadding"),
            ("password.encoder.keyfactory.algorithm", "PBKDF2WithHmacMD5"),
            ("password.encoder.key.length", "64"),
        ] {
            let secret = ("password.encoder.secret".to_owned(), "s".to_owned());
            let error = BrokerConfig::from_properties([secret, (key.to_owned(), value.to_owned())].into()).unwrap_err();
            assert!(error.to_string().contains(key) && error.to_string().contains(value), "{error}");
        }
    }

    #[test]
    fn what_is_no_stored_password_is_refused() {
        let encoder = encoder("sesam", DEFAULT_KEY_FACTORY, 128);
        let stored = STORED.trim_end();
        let other = PasswordEncoder { secret: "mohn".into(), ..encoder.clone() };
        assert_eq!(other.decode(stored), Err(DecodeError::Secret));
        assert_eq!(encoder.decode("geheim"), Err(DecodeError::Field("cipherAlgorithm")));
        for (part, with, error) in [
            ("iterations:4096", "iterations:0", DecodeError::Field("iterations")),
            ("iterations:4096", "iterations:4000000000", DecodeError::Field("iterations")),
            ("keyLength:128", "keyLength:8", DecodeError::Algorithm(format!("{DEFAULT_KEY_FACTORY} with 8 bits"))),
            ("passwordLength:6", "passwordLength:7", DecodeError::Secret),
            ("initializationVector:", "initializationVector:AAAA,x:", DecodeError::Field("initializationVector")),
            ("encryptedPassword:", "encryptedPassword:*", DecodeError::Field("encryptedPassword")),
            ("CBC", "GCM", DecodeError::Algorithm("AES/GCM/PKCS5Padding".into())),
        ] {
            assert_eq!(encoder.decode(&stored.replace(part, with)), Err(error), "{with}");
        }
    }
}
