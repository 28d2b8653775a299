//! What is done to a cluster, drawn from the seed, and undone in time.
//!
//! Unsynced bytes, or a whole disk, are lost by one broker at a time: in any weather by one on which no ISR counts, else
//! in a calm, where no ISR counts on it alone. Nothing else happens until its registration is gone and no ISR counts on it.
//! What it held is then with others, and it comes back by catching up with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use klamm::metastore::schema::paths;
use klamm::random::{Random, SeededRandom};
use klamm::sim::brokers::World;
use klamm::types::BrokerId;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::admin::Admin;
use crate::cluster::{Cluster, Place};
use crate::stage::Stage;

/// How many brokers may be away at a time.
const AWAY: usize = 3;
/// How many clients the network knows.
const CLIENTS: i32 = 10;

#[derive(Clone, Debug)]
enum Act {
    Fault,
    Start(i32),
    GoOn(i32),
    HealWay(BrokerId, i32),
    HealZooKeeper(i32),
}

pub struct Faults {
    stage: Arc<Stage>,
    random: SeededRandom,
    /// By when, and the order in which they were planned.
    plan: BTreeMap<(Instant, u64), Act>,
    planned: u64,
    /// Until nobody counts on one that has lost something.
    doubt: Option<JoinHandle<()>>,
}

/// Between looks at one that has lost something.
const LOOK: Duration = Duration::from_millis(50);
/// How long a controller may take to have nobody count on one that has lost something.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until what was under way has come to an end: a replica that lagged leaves the ISR within six seconds.
const CALM: Duration = Duration::from_secs(7);

async fn registration(stage: &Stage, id: i32) -> Option<i64> {
    let stat = stage.admin().exists(&paths::broker(BrokerId(id))).await.expect("a tree");
    stat.map(|stat| stat.czxid)
}

/// Until a broker that has lost something in its life `life` is in no ISR, and that life over. Who comes back in time
/// registers when that is so, and may be in sync again soon after: each registration is seen at once.
async fn until_nobody_counts_on(stage: Arc<Stage>, id: i32, life: Option<i64>) {
    let begun = Instant::now();
    loop {
        let news = stage.admin().exists_watch(&paths::broker(BrokerId(id))).await.expect("a tree").1;
        let stored = stage.partitions().await;
        if let Some(alone) = stored.iter().find(|stored| stored.state.isr == [BrokerId(id)]) {
            return stage.chronicle.wrong(format_args!("{alone:?} counts on {id} alone, which has lost records"));
        }
        let counts = stored.iter().any(|stored| stored.state.isr.contains(&BrokerId(id)));
        let lives_on = life.is_some() && registration(&stage, id).await == life;
        if !counts && !lives_on {
            return stage.chronicle.note(format_args!("no ISR counts on broker {id}"));
        }
        if begun.elapsed() > PATIENCE {
            return stage.chronicle.wrong(format_args!("ISRs count on {id} for ever: {stored:?}"));
        }
        // An error means that it was no news.
        let _ = timeout(LOOK, news).await;
    }
}

impl Faults {
    pub fn new(stage: &Arc<Stage>) -> Faults {
        Faults { stage: stage.clone(), random: stage.random(1), plan: BTreeMap::new(), planned: 0, doubt: None }
    }

    fn plan(&mut self, from_ms: u64, to_ms: u64, act: Act) {
        let wait = Duration::from_millis(from_ms + self.random.below(to_ms - from_ms));
        self.plan_in(wait, act);
    }

    fn plan_in(&mut self, wait: Duration, act: Act) {
        self.planned += 1;
        self.plan.insert((Instant::now() + wait, self.planned), act);
    }

    /// So many faults, one after the other; some last while others come.
    pub async fn play(&mut self, faults: u32, cluster: &mut Cluster, admin: &mut Admin) {
        let mut left = faults;
        self.plan(500, 4_000, Act::Fault);
        while left > 0 {
            let Some(((when, _), act)) = self.plan.pop_first() else { return };
            sleep_until(when).await;
            for id in cluster.tend().await {
                self.plan(100, 6_000, Act::Start(id));
            }
            if !matches!(act, Act::Fault) {
                self.undo(act, cluster);
                continue;
            }
            match self.is_doubt_over() {
                true => {
                    self.fault(cluster, admin).await;
                    left -= 1;
                    self.plan(100, 5_000, Act::Fault);
                }
                false => self.plan_in(LOOK, Act::Fault),
            }
        }
    }

    /// Undoes everything, at once.
    pub async fn end(&mut self, cluster: &mut Cluster) {
        self.undo_all(cluster);
        self.stage.chronicle.note("everything is undone");
        while !self.is_doubt_over() {
            sleep(LOOK).await;
            cluster.tend().await.into_iter().for_each(|id| cluster.start_broker(id));
        }
    }

    fn undo_all(&mut self, cluster: &mut Cluster) {
        let acts: Vec<Act> = std::mem::take(&mut self.plan).into_values().collect();
        acts.into_iter().for_each(|act| self.undo(act, cluster));
    }

    fn zookeeper(&self) -> &klamm::sim::zookeeper::SimZooKeeper {
        self.stage.world.zookeeper.as_ref().expect("a ZooKeeper of its own")
    }

    fn undo(&mut self, act: Act, cluster: &mut Cluster) {
        match act {
            Act::Fault => {}
            Act::Start(id) => cluster.start_broker(id),
            Act::GoOn(id) => cluster.go_on(id),
            Act::HealWay(from, to) => {
                self.stage.world.net.way(from, World::port(to)).heal();
            }
            Act::HealZooKeeper(id) => {
                self.stage.chronicle.note(format_args!("broker {id} reaches ZooKeeper"));
                self.zookeeper().heal(id);
            }
        }
    }

    /// Whether nothing stands in the way of the next fault.
    fn is_doubt_over(&mut self) -> bool {
        self.doubt.take_if(|doubt| doubt.is_finished());
        self.doubt.is_none()
    }

    /// Has a broker lose what it has, or what it has not synced, if it may.
    async fn lose(&mut self, id: i32, cluster: &mut Cluster) {
        if self.counting_on(id).await > 0 {
            self.undo_all(cluster);
            for id in 1..=self.stage.brokers {
                cluster.start_broker(id);
            }
            self.stage.chronicle.note("a calm");
            sleep(CALM).await;
            for id in cluster.tend().await {
                self.plan(100, 6_000, Act::Start(id));
            }
            if !self.may_lose_in_a_calm(id, cluster).await {
                return;
            }
        }
        let life = registration(&self.stage, id).await;
        match self.random.below(3) {
            0 => cluster.wipe(id).await,
            _ => cluster.cut_power(id, &self.random).await,
        }
        self.doubt = Some(tokio::spawn(until_nobody_counts_on(self.stage.clone(), id, life)));
        self.plan(0, 12_000, Act::Start(id));
    }

    async fn fault(&mut self, cluster: &mut Cluster, admin: &mut Admin) {
        let all: Vec<i32> = (1..=self.stage.brokers).collect();
        let id = all[self.draw(all.len())];
        let is_up = matches!(cluster.place(id), Place::Runs(_));
        let may_go = is_up && self.stage.brokers as usize - cluster.running().len() < AWAY;
        match self.random.below(27) {
            0..=2 if may_go => {
                cluster.kill(id).await;
                self.plan(0, 12_000, Act::Start(id));
            }
            3..=6 => self.lose(id, cluster).await,
            7..=8 if may_go => {
                cluster.stand(id);
                self.plan(200, 14_000, Act::GoOn(id));
            }
            9 if may_go => cluster.ask_to_stop(id),
            10..=11 => {
                // From everybody, or from one.
                let others: Vec<i32> = all.iter().copied().filter(|other| *other != id).collect();
                let one = others[self.draw(others.len())];
                let from = if self.random.below(2) == 0 { others } else { vec![one] };
                self.cut(&from, id);
            }
            12 => {
                let client = Stage::client_way(i32::try_from(self.random.below(10)).expect("few").min(CLIENTS));
                self.cut_way(client, id);
            }
            13..=14 => {
                self.stage.chronicle.note(format_args!("connections of broker {id} break"));
                for other in all.iter().filter(|other| **other != id) {
                    self.stage.world.net.way(BrokerId(id), World::port(*other)).cut();
                    self.stage.world.net.way(BrokerId(*other), World::port(id)).cut();
                }
                self.stage.chronicle.count(|counts| counts.cuts += 1);
            }
            15..=16 => {
                self.stage.chronicle.note(format_args!("broker {id} is cut off from ZooKeeper"));
                self.stage.chronicle.count(|counts| counts.cuts += 1);
                self.zookeeper().cut(id);
                self.plan(300, 12_000, Act::HealZooKeeper(id));
            }
            17 => {
                let expired = self.zookeeper().expire(id).await;
                self.stage.chronicle.count(|counts| counts.expiries += expired as u64);
            }
            18 => {
                self.stage.chronicle.note("the controller has to go");
                self.stage.chronicle.count(|counts| counts.resignations += 1);
                // An error means that there is none.
                let _ = self.stage.admin().delete(paths::CONTROLLER, -1).await;
            }
            19..=20 => admin.move_replicas().await,
            21 => admin.create().await,
            22 => admin.delete().await,
            23 => admin.elect_preferred().await,
            24..=26 => self.isolate(id, &all),
            _ => {}
        }
    }

    /// Clients reach it, nobody else does: what it takes alone goes when somebody else leads.
    fn isolate(&mut self, id: i32, all: &[i32]) {
        self.stage.chronicle.note(format_args!("broker {id} is on an island"));
        self.stage.chronicle.count(|counts| counts.cuts += 1);
        self.zookeeper().cut(id);
        for other in all.iter().filter(|other| **other != id) {
            for (from, to) in [(BrokerId(id), *other), (BrokerId(*other), id)] {
                let way = self.stage.world.net.way(from, World::port(to));
                way.refuse();
                way.cut();
            }
        }
        let wait = Duration::from_millis(4_000 + self.random.below(10_000));
        self.plan_in(wait, Act::HealZooKeeper(id));
        for other in all.iter().filter(|other| **other != id) {
            self.plan_in(wait, Act::HealWay(BrokerId(id), *other));
            self.plan_in(wait, Act::HealWay(BrokerId(*other), id));
        }
    }

    fn draw(&self, of: usize) -> usize {
        usize::try_from(self.random.below(of as u64)).expect("few")
    }

    /// Both ways between `id` and others.
    fn cut(&mut self, others: &[i32], id: i32) {
        for other in others {
            self.cut_way(BrokerId(*other), id);
            self.cut_way(BrokerId(id), *other);
        }
    }

    fn cut_way(&mut self, from: BrokerId, to: i32) {
        let way = self.stage.world.net.way(from, World::port(to));
        let how = self.random.below(4);
        match how {
            0 => {
                way.refuse();
                way.cut();
            }
            1 => way.stall(),
            2 => way.stall_one_way(false),
            _ => way.stall_one_way(true),
        }
        let how = ["refused", "stalled", "stalled there", "stalled back"][usize::try_from(how).expect("few")];
        self.stage.chronicle.note(format_args!("the way from {from:?} to {to} is {how}"));
        self.stage.chronicle.count(|counts| counts.cuts += 1);
        self.plan(300, 12_000, Act::HealWay(from, to));
    }

    /// How many ISRs count on a broker.
    async fn counting_on(&self, id: i32) -> usize {
        let stored = self.stage.partitions().await;
        stored.iter().filter(|stored| stored.state.isr.contains(&BrokerId(id))).count()
    }

    async fn may_lose_in_a_calm(&self, id: i32, cluster: &Cluster) -> bool {
        cluster.all_run()
            && !cluster.is_any_stopping()
            && self.stage.names(paths::BROKER_IDS).await.len() == self.stage.brokers as usize
            && self.stage.partitions().await.iter().all(|stored| stored.state.isr != [BrokerId(id)])
    }
}
