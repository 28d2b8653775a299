//! A lane is a list of units against one kind of broker; the report counts what became of them.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::broker::{Broker, On};

/// How much of a lane is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Light,
    Full,
}

pub struct Lane {
    pub name: &'static str,
    pub what: &'static str,
    pub run: fn(&mut Run) -> Result<()>,
}

/// A lane or unit cannot run here; the reason is shown and counted.
#[derive(Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// What was found is found, whatever a second run says: a lane with one of these is not run again.
#[derive(Debug)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// `Err` with a [`Skip`] inside.
pub fn skip<T>(reason: impl Into<String>) -> Result<T> {
    Err(Skip(reason.into()).into())
}

#[derive(Debug)]
pub enum Outcome {
    Passed,
    Failed(String),
    /// Failed for good.
    Violated(String),
    Skipped(String),
    /// On the suite's list of units that are not judged, for this reason.
    LeftOut(String),
}

impl Outcome {
    fn of(result: Result<()>) -> Outcome {
        match result {
            Ok(()) => Outcome::Passed,
            Err(error) => match error.downcast_ref::<Skip>() {
                Some(Skip(reason)) if required() => Outcome::Failed(format!("skipped, but required: {reason}")),
                Some(Skip(reason)) => Outcome::Skipped(reason.clone()),
                None if error.downcast_ref::<Violation>().is_some() => Outcome::Violated(format!("{error:#}")),
                None => Outcome::Failed(format!("{error:#}")),
            },
        }
    }

    /// Why, where it failed.
    fn failure(&self) -> Option<&str> {
        match self {
            Outcome::Failed(reason) | Outcome::Violated(reason) => Some(reason),
            Outcome::Passed | Outcome::Skipped(_) | Outcome::LeftOut(_) => None,
        }
    }
}

fn required() -> bool {
    std::env::var("KLAMM_REQUIRE_LANES").is_ok_and(|value| value == "1")
}

pub struct Unit {
    pub name: String,
    pub outcome: Outcome,
    /// Failed the first time, for this reason, and was run again.
    pub before: Option<String>,
    /// The run that decided.
    pub took: Duration,
}

/// One lane while it runs.
pub struct Run {
    pub lane: &'static str,
    pub form: Form,
    pub on: On,
    pub units: Vec<Unit>,
    broker: Option<Broker>,
}

impl Run {
    pub fn lane(lane: &Lane, form: Form, on: &On) -> Run {
        let mut run = Run { lane: lane.name, form, on: on.clone(), units: Vec::new(), broker: None };
        println!("\n== {}: {}", lane.name, lane.what);
        let started = Instant::now();
        if let Err(error) = (lane.run)(&mut run) {
            let outcome = Outcome::of(Err(error));
            if let Outcome::Skipped(reason) = &outcome {
                println!("skipped {}: {reason}", lane.name);
            }
            run.judged("(the lane itself)", outcome, None, started.elapsed());
        }
        if run.failures() > 0
            && let Some(broker) = &run.broker
        {
            println!("-- end of the broker's log\n{}", broker.log_tail(40));
        }
        run.broker = None;
        run
    }

    pub fn full(&self) -> bool {
        self.form == Form::Full
    }

    /// The lane's broker, started with the settings of every lane at first use.
    pub fn broker(&mut self) -> Result<&mut Broker> {
        let broker = match self.broker.take() {
            Some(running) => running,
            None => Broker::start(&self.on, &[])?,
        };
        Ok(self.broker.insert(broker))
    }

    /// Makes one with settings of its own the lane's broker. Answers its address.
    pub fn serve_by(&mut self, broker: Broker) -> String {
        self.broker.insert(broker).address()
    }

    pub fn address(&mut self) -> Result<String> {
        Ok(self.broker()?.address())
    }

    /// Stops the lane's broker in order and starts it again on the same address. A skip where it is somebody else's.
    pub fn restart(&mut self) -> Result<()> {
        if let On::At(address) = &self.on {
            return skip(format!("the broker on {address} is not ours to restart"));
        }
        let broker = self.broker()?;
        broker.stop()?;
        broker.start_again()
    }

    /// Runs `work`; once more, alone, if it fails. Both results are shown.
    pub fn unit(&mut self, name: impl Into<String>, work: impl Fn() -> Result<()>) {
        let name = name.into();
        let started = Instant::now();
        let first = Outcome::of(work());
        let (outcome, before) = match first {
            Outcome::Failed(reason) => {
                println!("FAIL  {}: {name}: {reason}", self.lane);
                println!("      again:");
                (Outcome::of(work()), Some(reason))
            }
            other => (other, None),
        };
        self.judged(name, outcome, before, started.elapsed());
    }

    /// Counts a unit whose outcome is known already.
    pub fn settled(&mut self, name: impl Into<String>, result: Result<()>) {
        self.took(name, result, Duration::ZERO);
    }

    /// As [`Run::settled`], with how long it took.
    pub fn took(&mut self, name: impl Into<String>, result: Result<()>, took: Duration) {
        self.judged(name, Outcome::of(result), None, took);
    }

    /// As [`Run::took`]. An error when it failed: what follows from it is not played.
    pub fn must(&mut self, name: impl Into<String>, result: Result<()>, took: Duration) -> Result<()> {
        let (name, failed) = (name.into(), result.is_err());
        self.took(name.clone(), result, took);
        ensure!(!failed, "what follows is not played: {name}");
        Ok(())
    }

    /// Counts a unit that was played elsewhere; `before` is why it failed the first time.
    pub fn judged(&mut self, name: impl Into<String>, outcome: Outcome, before: Option<String>, took: Duration) {
        let name = name.into();
        let seconds = took.as_secs_f32();
        match &outcome {
            Outcome::Passed => println!("ok    {}: {name} ({seconds:.1} s)", self.lane),
            Outcome::Failed(reason) | Outcome::Violated(reason) => {
                println!("FAIL  {}: {name} ({seconds:.1} s): {reason}", self.lane);
            }
            Outcome::Skipped(reason) => println!("skip  {}: {name}: {reason}", self.lane),
            Outcome::LeftOut(reason) => println!("out   {}: {name}: {reason}", self.lane),
        }
        self.units.push(Unit { name, outcome, before, took });
    }

    pub fn failures(&self) -> usize {
        self.units.iter().filter(|unit| unit.outcome.failure().is_some()).count()
    }

    /// Whether a second run may tell more: some unit failed, none of those was tried twice already, nothing is violated.
    fn is_doubtful(&self) -> bool {
        let failed = || self.units.iter().filter(|unit| unit.outcome.failure().is_some());
        failed().next().is_some()
            && failed().all(|unit| unit.before.is_none() && matches!(unit.outcome, Outcome::Failed(_)))
    }
}

/// What all lanes came to.
#[derive(Default)]
pub struct Report {
    runs: Vec<Run>,
    /// Of lanes that were run again: the lane, the unit that failed the first time, and why.
    first: Vec<(&'static str, String, String)>,
}

impl Report {
    pub fn add(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// Runs each lane once more, alone, of which a step failed that is not tried twice by itself. The second run counts;
    /// what failed in the first is told at the end.
    pub fn settle(&mut self, again: impl Fn(&'static str) -> Option<Run>) {
        for run in &mut self.runs {
            if run.is_doubtful()
                && let Some(second) = again(run.lane)
            {
                let first = std::mem::replace(run, second);
                self.first.extend(first.units.into_iter().filter_map(|unit| {
                    let reason = unit.outcome.failure()?.to_owned();
                    Some((first.lane, unit.name, reason))
                }));
            }
        }
    }

    /// Names failures, skips, units left out and units that passed only the second time; the last line is the count.
    pub fn close(self) -> ExitCode {
        let (mut passed, mut failed, mut skipped, mut left_out) = (0, 0, 0, 0);
        println!();
        for (lane, name, reason) in &self.first {
            println!("failed the first time  {lane}: {name}: {reason}");
        }
        for (lane, unit) in self.runs.iter().flat_map(|run| run.units.iter().map(move |unit| (run.lane, unit))) {
            match &unit.outcome {
                Outcome::Passed => passed += 1,
                Outcome::Failed(reason) | Outcome::Violated(reason) => {
                    failed += 1;
                    println!("failed  {lane}: {}: {reason}", unit.name);
                }
                Outcome::Skipped(reason) => {
                    skipped += 1;
                    println!("skipped {lane}: {}: {reason}", unit.name);
                }
                Outcome::LeftOut(reason) => {
                    left_out += 1;
                    println!("left out {lane}: {}: {reason}", unit.name);
                }
            }
            if let (Outcome::Passed, Some(reason)) = (&unit.outcome, &unit.before) {
                println!("passed only the second time  {lane}: {}: {reason}", unit.name);
            }
        }
        if left_out > 0 {
            println!("{left_out} left out by name");
        }
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    const LANE: Lane = Lane { name: "some", what: "a lane of these tests", run: |_| Ok(()) };

    fn run(results: impl IntoIterator<Item = Result<()>>) -> Run {
        let mut run = Run::lane(&LANE, Form::Light, &On::Klamm);
        for (number, result) in results.into_iter().enumerate() {
            run.settled(format!("step {number}"), result);
        }
        run
    }

    fn settled(first: Run, second: Option<Run>) -> (Report, usize) {
        let (second, asked) = (std::cell::RefCell::new(second), std::cell::Cell::new(0));
        let mut report = Report::default();
        report.add(first);
        report.settle(|name| {
            assert_eq!(name, LANE.name);
            asked.set(asked.get() + 1);
            second.borrow_mut().take()
        });
        (report, asked.get())
    }

    #[test]
    fn a_lane_that_failed_is_run_once_more_and_both_results_are_kept() {
        let (report, asked) = settled(run([Ok(()), Err(anyhow!("late"))]), Some(run([Ok(()), Ok(())])));
        assert_eq!(asked, 1);
        assert_eq!(report.runs[0].failures(), 0);
        assert_eq!(report.first, [(LANE.name, "step 1".to_owned(), "late".to_owned())]);
    }

    #[test]
    fn what_fails_twice_has_failed() {
        let (report, asked) = settled(run([Err(anyhow!("late"))]), Some(run([Err(anyhow!("late"))])));
        assert_eq!((asked, report.runs[0].failures()), (1, 1));
    }

    #[test]
    fn neither_what_passed_nor_what_is_proved_wrong_nor_what_was_tried_twice_is_run_again() {
        assert_eq!(settled(run([Ok(())]), None).1, 0);
        let lost = || Err(Violation("record 7 is lost".to_owned()).into());
        assert_eq!(settled(run([Err(anyhow!("late")), lost()]), None).1, 0);
        let mut twice = run([Err(anyhow!("late"))]);
        twice.unit("tried twice", || Err(anyhow!("wrong")));
        let (report, asked) = settled(twice, None);
        assert_eq!((asked, report.runs[0].failures()), (0, 2));
    }

    /// A violation stays one however it is told.
    #[test]
    fn a_violation_is_known_under_what_is_said_of_it() {
        use anyhow::Context as _;
        let told: Result<()> = Err(Violation("lost".to_owned()).into());
        assert!(matches!(Outcome::of(told.context("its history")), Outcome::Violated(_)));
    }
}
