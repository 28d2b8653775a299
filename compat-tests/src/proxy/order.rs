//! What is to become of the bytes of a way.

use std::time::Duration;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who serves: what goes there are requests.
    Server,
    /// Who connected: what goes there are answers.
    Client,
}

/// How bytes come to one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// By so much later than they were sent.
    pub delay: Duration,
    /// Not at all, until it is taken back.
    pub stalled: bool,
    pub trickle: Option<Trickle>,
    /// Of so many reads one is lost, and its connection with it. Counted over all connections of the way.
    pub loses_one_in: Option<u64>,
}

impl Pace {
    pub const CALM: Pace = Pace { delay: Duration::ZERO, stalled: false, trickle: None, loses_one_in: None };
}

/// So many bytes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trickle {
    pub bytes: usize,
    pub pause: Duration,
}

/// How things are, and how often what happens once was ordered so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    pub to_server: Pace,
    pub to_client: Pace,
    /// Both ends of all connections are reset.
    pub resets: u64,
    /// The clients' ends are reset; the servers are given what was on its way to them after newer connections have said as
    /// much.
    pub partings: u64,
    /// The server is told that its client has said everything, and the client that the connection is as ever: what it says
    /// from then on vanishes, and so does the server's farewell.
    pub servers_closed: u64,
    /// The same the other way round.
    pub clients_closed: u64,
}

impl Order {
    /// Bytes come as they are sent from now on.
    pub fn calm(&mut self) {
        (self.to_server, self.to_client) = (Pace::CALM, Pace::CALM);
    }

    pub fn set_pace(&mut self, to: Side, pace: Pace) {
        match to {
            Side::Server => self.to_server = pace,
            Side::Client => self.to_client = pace,
        }
    }

    pub fn pace(&self, to: Side) -> &Pace {
        match to {
            Side::Server => &self.to_server,
            Side::Client => &self.to_client,
        }
    }

    pub fn closings(&self, to: Side) -> u64 {
        match to {
            Side::Server => self.servers_closed,
            Side::Client => self.clients_closed,
        }
    }
}
