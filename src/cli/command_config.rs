//! `--command-config FILE`: how an administrating command connects.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use kafka_protocol::protocol::StrBytes;

use super::client::Caller;
use super::properties::Properties;

/// `client.id`, `request.timeout.ms` and `default.api.timeout.ms` of the file. An error for a protocol that would encrypt or
/// authenticate: this program speaks neither TLS nor SASL.
pub fn caller(file: Option<&Path>) -> anyhow::Result<Caller> {
    let mut given = Properties::read(file, &[])?;
    if let Some(protocol) = given.take("security.protocol")
        && !protocol.trim().eq_ignore_ascii_case("PLAINTEXT")
    {
        bail!("security.protocol {protocol} is not there: PLAINTEXT is");
    }
    let mut caller = Caller::default();
    if let Some(id) = given.take("client.id") {
        caller.client_id = StrBytes::from_string(id);
    }
    if let Some(ms) = given.parse("request.timeout.ms")? {
        caller.timeout = Duration::from_millis(ms);
    }
    if let Some(ms) = given.parse("default.api.timeout.ms")? {
        caller.patience = Duration::from_millis(ms);
    }
    caller.timeout = caller.timeout.min(caller.patience);
    // Taken as no setting of ours: where brokers are is said by the flag.
    given.take("bootstrap.servers");
    given.warn_of_the_rest("--command-config");
    Ok(caller)
}
