//! Whom this broker takes for dead before the session says so: evidence in, decisions out, no socket and no clock.
//!
//! A dead process can be told from a slow one: its kernel closes its connections, and its ports refuse. A life of a broker
//! ([`Incarnation`]) is suspected when
//!
//! 1. there was a connection with it, in either direction, none is open, it ended at least one with FIN or RST, and no byte
//!    came after that ([`connections`]);
//! 2. after that every address of its endpoints refuses, in two rounds 100 ms apart; an address that cannot be reached or a
//!    name that no longer resolves counts too, over a second ([`rounds`]);
//! 3. its registration, read anew after a `sync`, is still the same;
//! 4. who suspects is registered, is connected to at least half of the registered brokers, itself counted, and at least
//!    half remain unsuspected ([`majority`]).
//!
//! A sign of life on the way (an accept, a connection, a change of the registration) or a probe that times out: all over
//! again. Once suspected, only an answer with this cluster's id, under the same registration, clears it, since
//! anybody may accept on an address; it is then left alone for one session time-out. Otherwise the session decides, as it
//! does in Kafka, which has nothing of this kind.
//!
//! A connection that this side ended, or that ended for being idle, says nothing by its end: it neither proves a death nor
//! forbids to see one. When its last byte came does: an end of another one before that was no death.
//!
//! Who accepts is there; but a process that ends closes its ports last, and whoever is told of the first connection's end
//! may find them open. It is looked at again after 20 ms, and then each time after twice as long, until a session would be
//! over that nobody keeps; after that it takes another end of a connection to doubt it: a healthy cluster is not probed.
//! Those with whom there is no connection are greeted when somebody is doubted, so that a broker that has no business with
//! them is not taken for one that is cut off.

mod connections;
mod evidence;
mod incarnation;
mod majority;
mod rounds;
mod rule;
mod watch;

pub use connections::{ConnectionId, Ended};
pub use evidence::{Cleared, Decision, Evidence, Outcome, Proof, Ticket};
pub use incarnation::{Incarnation, Registered};
pub use majority::Majority;
pub use rounds::Round;
pub use rule::{Rule, Rules};
pub use watch::Suspicions;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
