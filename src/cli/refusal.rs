//! How a broker's refusal is told.

use anyhow::bail;
use kafka_protocol::protocol::StrBytes;

use crate::wire::error_code::ErrorCode;

/// An error for any code but 0: in the broker's words, or by the code's name.
pub fn refuse(code: i16, message: Option<&StrBytes>) -> anyhow::Result<()> {
    match (code, message) {
        (0, _) => Ok(()),
        (_, Some(message)) if !message.is_empty() => bail!("{message}"),
        _ => bail!("{}", name(code)),
    }
}

/// Kafka's name of a code, or its number.
pub fn name(code: i16) -> String {
    ErrorCode::from_code(code).map_or(format!("error code {code}"), |code| code.to_string())
}
