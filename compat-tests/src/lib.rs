//! Real software against the built broker: clients in their own languages, Kafka's own tools, a real Kafka beside it.
//!
//! ```text
//!  cargo test -p compat-tests                      every lane, light form, klamm as target
//!  cargo run -p compat-tests -- light LANE...      the same, chosen lanes
//!  cargo run -p compat-tests -- full LANE...       whole forms
//!  cargo run -p compat-tests -- record LANE...     what their clients say, as seeds for the fuzz targets
//!         ... --on kafka | --on HOST:PORT          another target: a lane that fails on a real Kafka is wrong itself;
//!                                                  KLAMM_TWIN=kafka says the same
//! ```
//!
//! Everything a lane needs from a registry goes to `target/compat-cache`; a lane whose tool is missing says
//! `skipped LANE: reason` and is counted (with `KLAMM_REQUIRE_LANES=1` it fails instead).

#![allow(clippy::type_complexity)]

pub mod bodies;
pub mod broker;
pub mod cache;
pub mod cluster;
pub mod daemon;
pub mod lane;
pub mod lanes;
pub mod network;
pub mod proc;
pub mod proxy;
pub mod raw;
pub mod record;
pub mod records;
pub mod twin;
pub mod wait;
pub mod worker;
pub mod znodes;
pub mod zookeeper;

use std::process::ExitCode;

use lane::{Form, Report, Run};

/// Runs the named lanes (all of them when none is named) one after the other and prints the closing line. Of light forms,
/// what failed is run once more when all are through.
pub fn run_lanes(names: &[String], form: Form, on: &broker::On) -> ExitCode {
    let known: Vec<&str> = lanes::ALL.iter().map(|lane| lane.name).collect();
    if let Some(stranger) = names.iter().find(|name| !known.contains(&name.as_str())) {
        eprintln!("no lane is called {stranger}; there are: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    for lane in lanes::ALL {
        if names.is_empty() || names.iter().any(|name| name == lane.name) {
            report.add(Run::lane(lane, form, on));
        }
    }
    if form == Form::Light {
        report.settle(|name| {
            println!("\n-- again, alone: {name}");
            lanes::ALL.iter().find(|lane| lane.name == name).map(|lane| Run::lane(lane, form, on))
        });
    }
    report.close()
}
