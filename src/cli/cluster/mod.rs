//! `klamm cluster`: which brokers there are, who controls them, and what each of them leads and follows.

mod report;
mod view;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;

use super::client::{Caller, Connection};
use report::Report;
use view::View;

/// How long a broker may take to answer before it counts as out of reach.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows brokers, controller and how the partitions are; exit status 0 = healthy, 3 = degraded, 4 = something is offline
#[derive(Debug, Parser)]
pub struct Args {
    /// host:port,host:port of brokers to connect to
    #[arg(long, required_unless_present = "zookeeper")]
    bootstrap_server: Option<String>,
    /// host:port,host:port/chroot of ZooKeeper: read its nodes instead of asking a broker, which tells epochs too
    #[arg(long, conflicts_with = "bootstrap_server")]
    zookeeper: Option<String>,
}

pub fn main(args: &Args) -> ExitCode {
    let view = match &args.zookeeper {
        Some(connect) => View::of_nodes(connect),
        None => View::of_broker(args.bootstrap_server.as_deref().unwrap_or_default()),
    };
    match view {
        Ok(view) => {
            let reached = reached(&view);
            let report = Report { view: &view, reached: &reached };
            print!("{report}");
            report.state().exit_code()
        }
        Err(error) => super::failed(&error),
    }
}

/// Those that answer, all asked at once.
fn reached(view: &View) -> BTreeSet<i32> {
    let caller = Caller { timeout: PATIENCE, ..Caller::default() };
    thread::scope(|scope| {
        let asked: Vec<_> = view.brokers.iter().map(|(id, broker)| (*id, &broker.address)).collect();
        let asked: Vec<_> = asked
            .into_iter()
            .map(|(id, address)| (id, scope.spawn(|| Connection::open_as(&caller, address).is_ok())))
            .collect();
        asked.into_iter().filter_map(|(id, answers)| answers.join().unwrap_or(false).then_some(id)).collect()
    })
}
