//! Starting the controller's tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

use super::ask::{Questions, questions};
use super::driver::{Driver, Parts, Tells, controller_epoch};
use crate::cluster::{ConfigListener, DynamicConfigs, OnConfigChange, RegistrationError, Replicas, until_known};
use crate::metastore::schema::{ConfigEntity, paths};
use crate::replication::table::PartitionTable;

/// The running controller of this broker, active or not.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    active: Arc<AtomicBool>,
    suspicions: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    questions: Questions,
}

impl ControllerHandle {
    /// Whether this broker is the active controller.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// How often a broker was taken for dead before its session ended, since this one started.
    pub fn suspicions(&self) -> u64 {
        self.suspicions.load(Ordering::Relaxed)
    }

    /// What only the active controller can answer.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// Resigns. The session's close frees `/controller`.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// Registers the broker, then runs its controller and its configuration listener on the control thread. `read` is what is
/// known of the topics already, if anything. `on_change` hears of changed configurations before partitions do.
pub async fn start(
    parts: Parts,
    read: Option<Replicas>,
    configs: Arc<DynamicConfigs>,
    table: Arc<PartitionTable>,
    on_change: OnConfigChange,
) -> Result<ControllerHandle, RegistrationError> {
    let store = parts.session.store();
    let epoch = parts.registrar.join(&*store, parts.clock.wall_ms(), read).await?;
    parts.receiver.registered(epoch);
    tracing::info!(broker = %parts.broker, broker_epoch = epoch, "registered");
    // A controller that was replaced may see this registration before it learns that it was. It must find no ear: what it
    // says would take the leader epochs of this log back.
    until_known(&*store, || store.sync(paths::CONTROLLER_EPOCH)).await?;
    if let Some((epoch, _)) = controller_epoch(&*store).await? {
        parts.receiver.forewarn(epoch).await;
    }

    let unclean_allowed = Arc::new(Notify::new());
    let tell_unclean = unclean_allowed.clone();
    let listener = ConfigListener {
        session: Arc::clone(&parts.session),
        configs,
        clock: Arc::clone(&parts.clock),
        on_change: Box::new(move |entity, overrides| {
            on_change(entity, overrides);
            let unclean = overrides.get("unclean.leader.election.enable").is_some_and(|on| on == "true");
            if unclean && matches!(entity, ConfigEntity::Topic(_) | ConfigEntity::Broker(_)) {
                tell_unclean.notify_one();
            }
            match entity {
                ConfigEntity::Topic(topic) => table.topic_config_changed(topic),
                // Defaults changed under every topic.
                ConfigEntity::Broker(_) => table.all_topic_configs_changed(),
                _ => {}
            }
        }),
        last_handled: -1,
    };
    let (questions, asked) = questions();
    let handle = ControllerHandle {
        active: Arc::new(AtomicBool::new(false)),
        suspicions: Arc::default(),
        stop: watch::Sender::new(false),
        questions,
    };
    let spawner = Arc::clone(&parts.spawner);
    let tells = Tells { active: Arc::clone(&handle.active), suspicions: Arc::clone(&handle.suspicions) };
    let mut driver = Driver::new(parts, tells, asked, unclean_allowed);
    driver.meet().await;
    spawner.control(Box::pin(driver.run(handle.stop.subscribe())));
    spawner.control(Box::pin(listener.run()));
    Ok(handle)
}
