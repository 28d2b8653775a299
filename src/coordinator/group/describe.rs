//! DescribeGroups, ListGroups, DeleteGroups.

use std::sync::Arc;

use bytes::Bytes;

use super::state::{Group, State};
use super::{Groups, Now};
use crate::types::TopicPartition;
use crate::wire::error_code::ErrorCode;

/// A group as DescribeGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub state: State,
    pub protocol_type: Arc<str>,
    /// Empty unless the group is stable, and so are the members' metadata and assignments.
    pub protocol: Arc<str>,
    pub members: Vec<DescribedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub metadata: Bytes,
    pub assignment: Bytes,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub group: Arc<str>,
    pub protocol_type: Arc<str>,
    pub state: State,
}

impl Groups {
    /// A group that is not there is Dead.
    pub fn describe(&self, group: &str) -> Described {
        match self.groups.get(group) {
            Some(group) => group.describe(),
            None => {
                Described { state: State::Dead, protocol_type: "".into(), protocol: "".into(), members: Vec::new() }
            }
        }
    }

    pub fn list(&self) -> impl Iterator<Item = Listed> {
        self.groups.values().map(|group| Listed {
            group: group.id.clone(),
            protocol_type: group.protocol_type.clone().unwrap_or_default(),
            state: group.state(),
        })
    }

    /// Takes an empty group away with everything it committed. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
    pub fn delete(&mut self, now: Now, group: &str) -> Result<(), ErrorCode> {
        self.desk.now = now;
        let found = self.groups.get(group).ok_or(ErrorCode::GroupIdNotFound)?;
        if found.state() != State::Empty {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let offsets = self.groups.get_mut(group).map(|found| std::mem::take(&mut found.offsets).partitions());
        self.bury(group, offsets.into_iter().flatten().map(|TopicPartition { topic, partition }| (topic, partition)));
        Ok(())
    }
}

impl Group {
    fn describe(&self) -> Described {
        let stable = self.state() == State::Stable;
        let protocol = self.protocol.as_deref().filter(|_| stable);
        let members = self.members.values().map(|member| DescribedMember {
            member_id: member.id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: member.metadata(protocol),
            assignment: if stable { member.assignment.clone() } else { Bytes::new() },
        });
        Described {
            state: self.state(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.unwrap_or_default().into(),
            members: members.collect(),
        }
    }
}
