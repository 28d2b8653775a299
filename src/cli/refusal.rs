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

/// The broker's words, or the code's name where it has none.
pub fn words(code: ErrorCode, message: Option<&StrBytes>) -> String {
    message.filter(|message| !message.is_empty()).map_or_else(|| code.name().to_owned(), |message| message.to_string())
}

/// As Kafka's Java tools print an error: the exception's class and the broker's words.
pub fn exception(code: ErrorCode, message: Option<&StrBytes>) -> String {
    format!("org.apache.kafka.common.errors.{}: {}", class(code), words(code, message))
}

/// The class of Kafka's exception: the code's name, but for some.
fn class(code: ErrorCode) -> String {
    let name = match code {
        ErrorCode::RequestTimedOut => "Timeout".to_owned(),
        ErrorCode::KafkaStorageError => "KafkaStorage".to_owned(),
        ErrorCode::UnknownServerError => "UnknownServer".to_owned(),
        ErrorCode::ClusterAuthorizationFailed => "ClusterAuthorization".to_owned(),
        ErrorCode::TopicAuthorizationFailed => "TopicAuthorization".to_owned(),
        ErrorCode::InvalidConfig => "InvalidConfiguration".to_owned(),
        ErrorCode::InvalidTopicException => "InvalidTopic".to_owned(),
        other => format!("{other:?}"),
    };
    name + "Exception"
}

/// Kafka's name of a code, or its number.
pub fn name(code: i16) -> String {
    ErrorCode::from_code(code).map_or(format!("error code {code}"), |code| code.to_string())
}
