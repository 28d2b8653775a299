//! The lanes.

use crate::lane::Lane;
use crate::twin;

pub const ALL: &[Lane] = &[Lane {
    name: "twin",
    what: "the same bytes to a real Kafka 3.9.1, answers compared field by field",
    run: twin::lane,
}];
