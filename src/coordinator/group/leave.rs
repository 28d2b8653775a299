//! LeaveGroup: members that go, and static members that an administrator removes.

use std::sync::Arc;

use super::desk::Desk;
use super::state::Group;
use super::{Groups, Now};
use crate::wire::error_code::ErrorCode;

/// One member of a LeaveGroup request. An empty member id with an instance id removes whoever is that instance.
#[derive(Clone, Debug)]
pub struct Leaving {
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
}

impl Groups {
    /// An error for each, in order.
    pub fn leave(&mut self, now: Now, group: &str, leaving: &[Leaving]) -> Vec<ErrorCode> {
        self.desk.now = now;
        let Some(group) = self.groups.get_mut(group) else {
            return vec![ErrorCode::UnknownMemberId; leaving.len()];
        };
        let leave = |leaving| group.leave(&mut self.desk, leaving).err().unwrap_or(ErrorCode::None);
        leaving.iter().map(leave).collect()
    }
}

impl Group {
    fn leave(&mut self, desk: &mut Desk, leaving: &Leaving) -> Result<(), ErrorCode> {
        let mut member_id = leaving.member_id.clone();
        if member_id.is_empty() {
            let instance = leaving.group_instance_id.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
            member_id = self.static_members.get(instance).cloned().ok_or(ErrorCode::UnknownMemberId)?;
        } else if self.pending_members.remove(&member_id) {
            self.try_complete_join(desk);
            return Ok(());
        } else {
            self.check_member(&member_id, leaving.group_instance_id.as_deref())?;
        }
        self.remove(desk, &member_id);
        self.membership_changed(desk);
        Ok(())
    }
}
