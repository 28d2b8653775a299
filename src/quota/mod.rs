//! Quotas of clients and addresses: what they may use, what they use, and how long they are to be quiet for it.
//!
//! ```text
//! /config/users, /config/clients, /config/ips ──► Limits            which limit is a client's, and whose measure it shares
//!                                  request ──► Measures of a client ──► milliseconds of throttling
//! ```
//!
//! The rules are those of Kafka 3.9's `ClientQuotaManager` and its kin (KIP-13, 55, 124, 219, 599, 612). Times come in as
//! arguments, monotonic milliseconds. Clients without a limit are not measured, and nothing is looked up while nobody has
//! one. Client ids are any bytes of anybody: what is kept of them is bounded ([`measures`]).

mod bucket;
mod clients;
mod ips;
mod limits;
pub mod measures;
mod mutations;
mod quotas;
mod rate;
mod replication;

pub use clients::*;
pub use ips::IpQuotas;
pub use limits::Client;
pub use mutations::*;
pub use quotas::Quotas;
pub use rate::{Rate, Windows};
pub use replication::{ReplicationQuota, ReplicationQuotas};

/// Who connects without saying who he is: Kafka's `User:ANONYMOUS`.
pub const ANONYMOUS: &str = "ANONYMOUS";

/// Keys of users' and clients' configs.
pub const PRODUCER_BYTE_RATE: &str = "producer_byte_rate";
pub const CONSUMER_BYTE_RATE: &str = "consumer_byte_rate";
pub const REQUEST_PERCENTAGE: &str = "request_percentage";
pub const CONTROLLER_MUTATION_RATE: &str = "controller_mutation_rate";
/// Key of addresses' configs.
pub const CONNECTION_CREATION_RATE: &str = "connection_creation_rate";
