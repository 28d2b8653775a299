//! What is seen of other brokers, and what follows from it.

use std::sync::Arc;

use super::connections::{ConnectionId, Ended};
use super::incarnation::{Incarnation, Registered};
use super::majority::Majority;
use super::rounds::Round;
use crate::types::Endpoint;

/// Names a question, so that a late answer is not taken for that to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What became of an attempt to connect to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// RST: a machine is there, and nobody listens.
    Refused,
    /// Host or network unreachable.
    Unreachable,
    /// The name has no address.
    Unresolved,
    Accepted,
    /// No answer, or a failure of this side's own: it tells nothing.
    TimedOut,
}

/// What was seen.
#[derive(Clone, Debug)]
pub enum Evidence {
    /// The brokers registered now: all of them, this one included.
    Registrations(Vec<Registered>),
    /// A connection, in whichever direction, of which it is known with whom. Not those of probes.
    Opened { with: Incarnation, connection: ConnectionId },
    Closed {
        connection: ConnectionId,
        how: Ended,
        /// When its last byte came, ms; of one without, when it was opened.
        heard_ms: i64,
    },
    /// It answered a request, and named its cluster.
    Answered { by: Incarnation, cluster_id: Arc<str> },
    /// Answers [`Decision::Probe`] for one endpoint: an outcome for each address it resolved to, or the one that there is
    /// none. One that comes late is told, too.
    Probed { ticket: Ticket, of: Incarnation, at: Endpoint, outcomes: Vec<Outcome> },
    /// Answers [`Decision::ReadRegistration`].
    RegistrationRead { ticket: Ticket, found: Option<Registered> },
    /// The time asked for has come ([`Suspicions::due_ms`](super::Suspicions::due_ms)).
    Due,
}

/// Why a life is taken for over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Connections that it ended, since its last sign of life.
    pub closed_by_it: u32,
    /// When the last of them ended, ms.
    pub closed_at_ms: i64,
    pub rounds: Vec<Round>,
    /// As it was before this suspicion.
    pub majority: Majority,
}

/// Why a suspicion is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It lives.
    Answered,
    /// Its registration is gone: what the session says needs no suspicion.
    Gone,
    /// It has registered anew.
    NewLife,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Connect to every address of every endpoint now, say nothing and close; tell with [`Evidence::Probed`].
    Probe {
        ticket: Ticket,
        of: Incarnation,
        endpoints: Vec<Endpoint>,
    },
    /// `sync`, then read the registration; tell with [`Evidence::RegistrationRead`].
    ReadRegistration {
        ticket: Ticket,
        of: Incarnation,
    },
    /// Connect to it, ask for the name of its cluster, and stay connected while somebody is doubted; tell with
    /// [`Evidence::Opened`] when it is this one. Failure need not be told.
    Greet {
        of: Incarnation,
        endpoints: Vec<Endpoint>,
    },
    Suspect {
        who: Incarnation,
        proof: Proof,
    },
    /// Ask it a request that names the cluster in its answer, and only a broker in this life answers; tell with
    /// [`Evidence::Answered`]. Silence need not be told.
    Ask {
        of: Incarnation,
        endpoints: Vec<Endpoint>,
    },
    Clear {
        who: Incarnation,
        why: Cleared,
    },
}
