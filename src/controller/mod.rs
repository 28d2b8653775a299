//! The controller: `decide(state, now, event) -> effects`, and the driver that carries effects out through the
//! metastore. Also what every broker writes to the metastore on behalf of a request ([`admin`]).

pub mod admin;
