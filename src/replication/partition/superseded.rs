//! A leader whose successor is there already, as [`LeaderChecks`](crate::replication::leader_checks::LeaderChecks) or the
//! controller's answer to another question tell it before the controller's word comes.

use super::{NotCommitted, Partition};
use crate::types::{BrokerId, LeaderEpoch};

impl Partition {
    /// Somebody leads, or nobody does, in `epoch`: nothing is appended any more, and who waits for it to be committed
    /// waits no longer. What is there is read on until the controller says more.
    pub fn superseded(&self, epoch: LeaderEpoch) {
        {
            let role = self.role();
            let Some(leading) = role.leading.as_ref().filter(|_| epoch > role.leader_epoch) else { return };
            if leading.supersede() {
                return;
            }
        }
        tracing::warn!(partition = %self.tp, %epoch, "led in a later epoch already: nothing is appended any more");
        self.committed.fail(NotCommitted::NotLeader);
    }

    /// Whether it is led here, and a member of the ISR has not fetched for longer than `silence_ms`.
    pub(in crate::replication) fn is_left_silent(&self, silence_ms: i64) -> bool {
        let role = self.role();
        let Some(leading) = role.leading.as_ref().filter(|leading| !leading.is_superseded()) else { return false };
        leading.silent_ms(self.around.clock.monotonic_ms()) > silence_ms
    }

    /// Whether it is led here with `follower` in the ISR.
    pub(in crate::replication) fn counts_on(&self, follower: BrokerId) -> bool {
        let role = self.role();
        role.leading.as_ref().is_some_and(|leading| !leading.is_superseded() && leading.has_in_sync(follower))
    }

    /// Has somebody look whether it is led here still.
    pub(super) fn doubt(&self) {
        if let (Some(checks), Some(partition)) = (self.around.leader_checks.get(), self.me.upgrade()) {
            checks.doubt([partition]);
        }
    }
}
