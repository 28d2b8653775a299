//! Peers that mean harm or speak another protocol, while an honest producer works.
//!
//! After each family of attacks: the broker lives and nothing in it panicked; its resident memory never rose by more than
//! 8 MiB and sixteen times the bytes that arrived, and came back; the attackers' sockets are closed; and at the end
//! every record the honest producer was promised is there. The full form sends more of everything, demands that the
//! producer's 99th percentile stays within five times that of the calm before, and prints a table; it is measured with the
//! broker on a core of its own, see [`machine`]. `KLAMM_HOSTILE=TEXT` plays only the attacks whose names have that text.

mod amplify;
mod batches;
mod bombs;
mod crowds;
mod frames;
mod honest;
mod machine;
mod readers;
mod scene;
mod strangers;
mod volley;

use anyhow::Result;

use crate::lane::Run;
use scene::{Row, Scene};

/// A broker with these settings, and what is done to it.
type Act = (&'static [(&'static str, &'static str)], &'static [fn(&mut Scene) -> Result<()>]);

const ACTS: &[Act] = &[
    (
        &[crowds::PER_ADDRESS_SETTING],
        &[strangers::run, frames::run, batches::run, amplify::run, readers::run, crowds::run],
    ),
    (&[crowds::IDLE_SETTING], &[crowds::run_impatient]),
    (&[crowds::MAX_SETTING], &[crowds::run_full]),
];

pub fn lane(run: &mut Run) -> Result<()> {
    let mut rows = Vec::new();
    for (settings, families) in ACTS {
        let mut scene = Scene::start(run, settings)?;
        families.iter().try_for_each(|family| family(&mut scene))?;
        rows.extend(scene.close());
    }
    if run.full() {
        print_table(&rows);
    }
    Ok(())
}

fn print_table(rows: &[Row]) {
    println!("\n| attack | KiB arrived | memory, KiB more | afterwards | p99 under attack, ms | in calm, ms | times |");
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        let ms = |time: Option<std::time::Duration>| {
            time.map_or("".into(), |time| format!("{:.2}", time.as_secs_f64() * 1e3))
        };
        let times = row.calm.zip(row.attacked).map(|(calm, attacked)| attacked.as_secs_f64() / calm.as_secs_f64());
        let (peak, after) = row.grown.unwrap_or_default();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            row.family,
            row.arrived >> 10,
            peak >> 10,
            after >> 10,
            ms(row.attacked),
            ms(row.calm),
            times.map_or("".into(), |times| format!("{times:.1}"))
        );
    }
}
