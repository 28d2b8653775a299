//! SCRAM credentials among a user's overrides: `SCRAM-SHA-256` and `SCRAM-SHA-512`. What is kept is what verifies a
//! password; the password itself cannot be read back (RFC 5802).

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

/// A mechanism by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum ScramMechanism {
    Sha256 = 1,
    Sha512 = 2,
}

impl ScramMechanism {
    pub const ALL: [ScramMechanism; 2] = [ScramMechanism::Sha256, ScramMechanism::Sha512];

    pub fn from_code(code: i8) -> Option<ScramMechanism> {
        ScramMechanism::ALL.into_iter().find(|mechanism| *mechanism as i8 == code)
    }

    /// Name of the mechanism, and key of the override.
    pub fn name(self) -> &'static str {
        match self {
            ScramMechanism::Sha256 => "SCRAM-SHA-256",
            ScramMechanism::Sha512 => "SCRAM-SHA-512",
        }
    }
}

/// What a user's password is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramCredential {
    pub salt: Vec<u8>,
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
    /// How often the password was hashed.
    pub iterations: i32,
}

impl ScramCredential {
    /// From a password that was salted and hashed by the client already.
    pub fn from_salted_password(
        mechanism: ScramMechanism,
        salt: &[u8],
        salted_password: &[u8],
        iterations: i32,
    ) -> ScramCredential {
        let (stored_key, server_key) = match mechanism {
            ScramMechanism::Sha256 => keys::<Hmac<Sha256>, Sha256>(salted_password),
            ScramMechanism::Sha512 => keys::<Hmac<Sha512>, Sha512>(salted_password),
        };
        ScramCredential { salt: salt.to_vec(), stored_key, server_key, iterations }
    }

    pub fn decode(text: &str) -> Option<ScramCredential> {
        let fields: Option<HashMap<&str, &str>> = text.split(',').map(|field| field.split_once('=')).collect();
        let fields = fields.filter(|fields| fields.len() == 4)?;
        let bytes = |field| STANDARD.decode(fields.get(field)?).ok();
        Some(ScramCredential {
            salt: bytes("salt")?,
            stored_key: bytes("stored_key")?,
            server_key: bytes("server_key")?,
            iterations: fields.get("iterations")?.parse().ok()?,
        })
    }

    pub fn encode(&self) -> String {
        let [salt, stored_key, server_key] =
            [&self.salt, &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        format!("salt={salt},stored_key={stored_key},server_key={server_key},iterations={}", self.iterations)
    }
}

/// The stored key and the server key.
fn keys<M: Mac + KeyInit, D: Digest>(salted_password: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let keyed = |message: &[u8]| {
        // An HMAC takes a key of any length: this is never empty.
        let mac = <M as KeyInit>::new_from_slice(salted_password).ok();
        mac.map_or_else(Vec::new, |mac| mac.chain_update(message).finalize().into_bytes().to_vec())
    };
    (D::digest(keyed(b"Client Key")).to_vec(), keyed(b"Server Key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// User `user`, password `pencil`: the example of RFC 7677. The salted password is from Python's PBKDF2.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = STANDARD.decode("xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0=").unwrap();
        let credential = ScramCredential::from_salted_password(ScramMechanism::Sha256, &salt, &salted, 4096);
        let text = "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,\
                    server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096";
        assert_eq!(credential.encode(), text);
        assert_eq!(ScramCredential::decode(text), Some(credential));
    }

    #[test]
    fn what_is_no_credential_is_refused() {
        for text in [
            "",
            "salt=AA==",
            "salt=AA==,stored_key=AA==,server_key=AA==,iterations=x",
            "salt=!,stored_key=AA==,server_key=AA==,iterations=1",
            "salt=AA==,stored_key=AA==,server_key=AA==,iterations=1,more=1",
            "salt=AA==,stored_key=AA==,server_key=AA==,iterations",
        ] {
            assert_eq!(ScramCredential::decode(text), None, "{text}");
        }
    }
}
