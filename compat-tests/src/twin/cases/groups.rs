//! FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups.

use anyhow::Result;
use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, RequestKind, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::super::requests::text;
use super::super::script::{Script, Side};
use super::group_offsets::{commit, delete_offsets, fetch_one};

const FIND: ApiKey = ApiKey::FindCoordinator;
const JOIN: ApiKey = ApiKey::JoinGroup;
const SYNC: ApiKey = ApiKey::SyncGroup;
const HEARTBEAT: ApiKey = ApiKey::Heartbeat;
const LEAVE: ApiKey = ApiKey::LeaveGroup;
const DESCRIBE: ApiKey = ApiKey::DescribeGroups;
const LIST: ApiKey = ApiKey::ListGroups;
const DELETE: ApiKey = ApiKey::DeleteGroups;

pub fn group_id(name: &str) -> GroupId {
    GroupId(text(name))
}

fn find(version: i16, key_type: i8, keys: &[&str]) -> RequestKind {
    let request = FindCoordinatorRequest::default();
    let request = match version >= 4 {
        true => request.with_coordinator_keys(keys.iter().map(|key| text(key)).collect()),
        false => request.with_key(text(keys.first().copied().unwrap_or_default())),
    };
    RequestKind::FindCoordinator(if version >= 1 { request.with_key_type(key_type) } else { request })
}

/// A consumer's subscription to these topics, version 0.
fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1i32).to_be_bytes());
    bytes.into()
}

fn protocols(named: &[(&str, Bytes)]) -> Vec<JoinGroupRequestProtocol> {
    let protocol = |(name, metadata): &(&str, Bytes)| {
        JoinGroupRequestProtocol::default().with_name(text(name)).with_metadata(metadata.clone())
    };
    named.iter().map(protocol).collect()
}

/// A consumer that knows `range`.
fn consumer(version: i16, group: &str, member: StrBytes, topics: &[&str]) -> JoinGroupRequest {
    let request = JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(30_000)
        .with_member_id(member)
        .with_protocol_type(text("consumer"))
        .with_protocols(protocols(&[("range", subscription(topics))]));
    if version >= 1 { request.with_rebalance_timeout_ms(30_000) } else { request }
}

fn join(version: i16, group: &str, member: StrBytes) -> RequestKind {
    RequestKind::JoinGroup(consumer(version, group, member, &["of-the-group"]))
}

fn sync(version: i16, group: &str, generation: i32, member: StrBytes, assigned: &[StrBytes]) -> SyncGroupRequest {
    let assignments = assigned.iter().map(|to| {
        SyncGroupRequestAssignment::default().with_member_id(to.clone()).with_assignment(Bytes::from_static(b"yours"))
    });
    let request = SyncGroupRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(generation)
        .with_member_id(member)
        .with_assignments(assignments.collect());
    match version >= 5 {
        true => request.with_protocol_type(Some(text("consumer"))).with_protocol_name(Some(text("range"))),
        false => request,
    }
}

fn heartbeat(group: &str, generation: i32, member: StrBytes) -> HeartbeatRequest {
    HeartbeatRequest::default().with_group_id(group_id(group)).with_generation_id(generation).with_member_id(member)
}

fn leave(version: i16, group: &str, members: &[(StrBytes, Option<&str>)]) -> RequestKind {
    let request = LeaveGroupRequest::default().with_group_id(group_id(group));
    if version < 3 {
        let member = members.first().map(|(member, _)| member.clone()).unwrap_or_default();
        return RequestKind::LeaveGroup(request.with_member_id(member));
    }
    let members = members.iter().map(|(member, instance)| {
        let identity =
            MemberIdentity::default().with_member_id(member.clone()).with_group_instance_id(instance.map(text));
        if version >= 5 { identity.with_reason(Some(text("enough"))) } else { identity }
    });
    RequestKind::LeaveGroup(request.with_members(members.collect()))
}

fn describe(groups: &[&str]) -> DescribeGroupsRequest {
    DescribeGroupsRequest::default().with_groups(groups.iter().map(|group| group_id(group)).collect())
}

fn list() -> RequestKind {
    RequestKind::ListGroups(ListGroupsRequest::default())
}

fn delete(groups: &[&str]) -> RequestKind {
    let groups = groups.iter().map(|group| group_id(group)).collect();
    RequestKind::DeleteGroups(DeleteGroupsRequest::default().with_groups_names(groups))
}

pub fn coordinators(script: &mut Script) -> Result<()> {
    script.ask("before there is its topic", FIND, 0, |_| find(0, 0, &["first"]))?;
    script.await_coordinator()?;
    for version in script.versions(FIND) {
        script.ask("a group", FIND, version, |_| find(version, 0, &["group"]))?;
        script.ask("an empty name", FIND, version, |_| find(version, 0, &[""]))?;
        script.ask("several", FIND, version, |_| find(version, 0, &["b", "a", "", "b"]))?;
        script.ask("none", FIND, version, |_| find(version, 0, &[]))?;
        if version >= 1 {
            for kind in [2, 3, -1] {
                script.ask(&format!("a key of type {kind}"), FIND, version, |_| find(version, kind, &["a"]))?;
            }
        }
    }
    Ok(())
}

/// The first that asks for one: its topic is made then.
pub fn transaction_coordinator(script: &mut Script) -> Result<()> {
    script.ask("before there is its topic", FIND, 4, |_| find(4, 1, &["tx"]))
}

/// A group of one member from its first join to its deletion, in every version of everything.
pub fn lives(script: &mut Script) -> Result<()> {
    let topic = script.topic("subscribed");
    script.make_topic(&topic, 1)?;
    for version in script.versions(JOIN) {
        life(script, version, &topic, 3 * version as usize)?;
    }
    Ok(())
}

/// `met` members were met before.
fn life(script: &mut Script, version: i16, topic: &str, met: usize) -> Result<()> {
    let group = script.topic(&format!("g{version}"));
    let group = group.as_str();
    let capped = |script: &Script, api| version.min(*script.versions(api).end());
    let (syncs, beats, leaves) = (capped(script, SYNC), capped(script, HEARTBEAT), capped(script, LEAVE));
    let (describes, lists, deletes) = (capped(script, DESCRIBE), capped(script, LIST), capped(script, DELETE));
    let joins = |side: &Side, member: StrBytes| {
        let _ = side;
        RequestKind::JoinGroup(consumer(version, group, member, &[topic]))
    };
    let beat = |generation, member| RequestKind::Heartbeat(heartbeat(group, generation, member));
    let syncing = |generation, member: StrBytes, assigned: &[StrBytes]| {
        RequestKind::SyncGroup(sync(syncs, group, generation, member, assigned))
    };
    let described = || RequestKind::DescribeGroups(describe(&[group]));

    script.ask("a first join", JOIN, version, |side| joins(side, text("")))?;
    if version >= 4 {
        script.ask("described while an id is pending", DESCRIBE, describes, |_| described())?;
        script.ask("a join with the id", JOIN, version, |side| joins(side, side.member(met)))?;
    }
    script.ask("described before the sync", DESCRIBE, describes, |_| described())?;
    script.ask("a heartbeat before the sync", HEARTBEAT, beats, |side| beat(1, side.member(met)))?;
    script.ask("a commit before the sync", ApiKey::OffsetCommit, version.max(1), |side| {
        commit(version.max(1), group, 1, side.member(met), &[(topic, 0, 1, "")])
    })?;
    script.ask("the join again", JOIN, version, |side| joins(side, side.member(met)))?;
    script.ask("a sync of another generation", SYNC, syncs, |side| syncing(7, side.member(met), &[]))?;
    script.ask("a sync of nobody", SYNC, syncs, |_| syncing(1, text("nobody"), &[]))?;
    script
        .ask("the sync", SYNC, syncs, |side| syncing(1, side.member(met), &[side.member(met), text("a stranger")]))?;
    script.ask("described", DESCRIBE, describes, |_| described())?;
    script.ask("listed", LIST, lists, |_| list())?;
    script.ask("the sync again", SYNC, syncs, |side| syncing(1, side.member(met), &[]))?;
    script.ask("a heartbeat", HEARTBEAT, beats, |side| beat(1, side.member(met)))?;
    script.ask("a heartbeat of another generation", HEARTBEAT, beats, |side| beat(2, side.member(met)))?;
    script.ask("a heartbeat of nobody", HEARTBEAT, beats, |_| beat(1, text("nobody")))?;
    script.ask("a commit", ApiKey::OffsetCommit, version.max(1), |side| {
        commit(version.max(1), group, 1, side.member(met), &[(topic, 0, 11, "here")])
    })?;
    script.ask("a commit of another generation", ApiKey::OffsetCommit, version.max(1), |side| {
        commit(version.max(1), group, 2, side.member(met), &[(topic, 0, 12, "")])
    })?;
    script.ask("a commit of nobody", ApiKey::OffsetCommit, version.max(1), |_| {
        commit(version.max(1), group, -1, text(""), &[(topic, 0, 13, "")])
    })?;
    script.ask("what is committed", ApiKey::OffsetFetch, version.max(1), |_| {
        fetch_one(version.max(1), group, Some(&[(topic, &[0])]))
    })?;
    script.ask("offsets deleted while subscribed", ApiKey::OffsetDelete, 0, |_| {
        delete_offsets(group, &[(topic, &[0, 9]), ("nowhere", &[0])])
    })?;
    script.ask("deleted with a member", DELETE, deletes, |_| delete(&[group]))?;
    // The leader's join always means a new generation.
    script.ask("the leader's join", JOIN, version, |side| joins(side, side.member(met)))?;
    script.ask("a sync without assignments", SYNC, syncs, |side| syncing(2, side.member(met), &[]))?;
    script.ask("described without an assignment", DESCRIBE, describes, |_| described())?;
    script.ask("nobody leaves", LEAVE, leaves, |_| leave(leaves, group, &[(text("nobody"), None)]))?;
    script.ask("leaves", LEAVE, leaves, |side| leave(leaves, group, &[(side.member(met), None)]))?;
    script.ask("leaves again", LEAVE, leaves, |side| leave(leaves, group, &[(side.member(met), None)]))?;
    script.ask("described empty", DESCRIBE, describes, |_| described())?;
    script.ask("listed empty", LIST, lists, |_| list())?;
    script.ask("a heartbeat to an empty group", HEARTBEAT, beats, |side| beat(2, side.member(met)))?;
    script.ask("a sync with an empty group", SYNC, syncs, |side| syncing(3, side.member(met), &[]))?;
    // A second and a third member id, whether they are told or not: what comes next starts counting there.
    script.ask("a join of an empty group", JOIN, version, |side| joins(side, text("")))?;
    if version >= 4 {
        script
            .ask("a pending id leaves", LEAVE, leaves, |side| leave(leaves, group, &[(side.member(met + 1), None)]))?;
    } else {
        script.ask("the second leaves", LEAVE, leaves, |side| leave(leaves, group, &[(side.member(met + 1), None)]))?;
    }
    script.ask("a join with an id of before", JOIN, version, |side| joins(side, side.member(met)))?;
    script.ask("deleted", DELETE, deletes, |_| delete(&[group, group, "nobody's"]))?;
    script.ask("described dead", DESCRIBE, describes, |_| described())?;
    script.ask("a join with an id, of a group that is gone", JOIN, version, |side| joins(side, side.member(met)))?;
    script.ask("the last id", JOIN, version, |side| joins(side, text("")))?;
    script.ask("the last one leaves", LEAVE, leaves, |side| leave(leaves, group, &[(side.member(met + 2), None)]))?;
    script.ask("committed offsets are gone", ApiKey::OffsetFetch, version.max(1), |_| {
        fetch_one(version.max(1), group, Some(&[(topic, &[0])]))
    })?;
    script.ask("the rest is deleted", DELETE, deletes, |_| delete(&[group]))
}

/// Requests that are refused, and which error wins.
pub fn refusals(script: &mut Script) -> Result<()> {
    let held = script.topic("held");
    script.ask("a member", JOIN, 0, |_| join(0, &held, text("")))?;
    for version in script.versions(JOIN) {
        let group = script.topic(&format!("g{version}"));
        let plain = || consumer(version, &group, text(""), &["t"]);
        let bad: Vec<(&str, JoinGroupRequest)> = vec![
            ("no group", plain().with_group_id(group_id(""))),
            ("no group and a short session", plain().with_group_id(group_id("")).with_session_timeout_ms(1)),
            ("a short session", plain().with_session_timeout_ms(5_999)),
            ("a long session", plain().with_session_timeout_ms(1_800_001)),
            ("an id nobody has", plain().with_member_id(text("nobody"))),
            ("an id and a short session", plain().with_member_id(text("nobody")).with_session_timeout_ms(0)),
            ("no protocols", plain().with_protocols(Vec::new())),
            ("no protocol type", plain().with_protocol_type(text(""))),
            ("an id nobody has in a group", plain().with_group_id(group_id(&held)).with_member_id(text("nobody"))),
            ("another protocol type", plain().with_group_id(group_id(&held)).with_protocol_type(text("connect"))),
            (
                "no common protocol",
                plain().with_group_id(group_id(&held)).with_protocols(protocols(&[("sticky", Bytes::new())])),
            ),
            (
                "no common protocol and an id nobody has",
                plain()
                    .with_group_id(group_id(&held))
                    .with_member_id(text("nobody"))
                    .with_protocols(protocols(&[("sticky", Bytes::new())])),
            ),
        ];
        for (name, request) in bad {
            script.ask(name, JOIN, version, |_| RequestKind::JoinGroup(request.clone()))?;
        }
        script.ask("described after them", DESCRIBE, 0, |_| RequestKind::DescribeGroups(describe(&[&group])))?;
    }
    for version in script.versions(SYNC) {
        let syncing = |group: &str, member: StrBytes| RequestKind::SyncGroup(sync(version, group, 1, member, &[]));
        script.ask("no group", SYNC, version, |_| syncing("", text("a")))?;
        script.ask("a group that is not", SYNC, version, |_| syncing("nowhere", text("a")))?;
        script.ask("no member", SYNC, version, |_| syncing(&held, text("")))?;
        if version >= 3 {
            script.ask("an instance that is not", SYNC, version, |side| {
                let request = sync(version, &held, 1, side.member(0), &[]);
                RequestKind::SyncGroup(request.with_group_instance_id(Some(text("nobody"))))
            })?;
        }
        if version >= 5 {
            for (name, kind, protocol) in [
                ("another type", Some("connect"), Some("range")),
                ("another protocol", Some("consumer"), Some("sticky")),
                ("no type", None, Some("range")),
                ("no protocol", Some("consumer"), None),
            ] {
                script.ask(name, SYNC, version, |side| {
                    let request = sync(version, &held, 1, side.member(0), &[]);
                    let request = request.with_protocol_type(kind.map(text)).with_protocol_name(protocol.map(text));
                    RequestKind::SyncGroup(request)
                })?;
            }
        }
    }
    for version in script.versions(HEARTBEAT) {
        for (name, group, generation, member) in
            [("no group", "", 1, "a"), ("a group that is not", "nowhere", 1, "a"), ("no member", &*held, 1, "")]
        {
            script.ask(name, HEARTBEAT, version, |_| {
                RequestKind::Heartbeat(heartbeat(group, generation, text(member)))
            })?;
        }
        if version >= 3 {
            script.ask("an instance that is not", HEARTBEAT, version, |side| {
                let request = heartbeat(&held, 1, side.member(0));
                RequestKind::Heartbeat(request.with_group_instance_id(Some(text("nobody"))))
            })?;
        }
    }
    for version in script.versions(LEAVE) {
        script.ask("no group", LEAVE, version, |_| leave(version, "", &[(text("a"), None)]))?;
        script.ask("a group that is not", LEAVE, version, |_| leave(version, "nowhere", &[(text("a"), None)]))?;
        script.ask("no member", LEAVE, version, |_| leave(version, &held, &[(text(""), None)]))?;
        if version >= 3 {
            script.ask("nobody at all", LEAVE, version, |_| leave(version, &held, &[]))?;
            script.ask("nobody at all of no group", LEAVE, version, |_| leave(version, "", &[]))?;
            script.ask("several that are not", LEAVE, version, |_| {
                leave(version, &held, &[(text("a"), None), (text(""), Some("b")), (text("a"), Some("b"))])
            })?;
        }
    }
    script.ask("leaves", LEAVE, 0, |side| leave(0, &held, &[(side.member(0), None)]))
}

/// Members with instance ids: they come back under new ids.
pub fn static_members(script: &mut Script) -> Result<()> {
    for (nth, version) in script.versions(JOIN).filter(|version| *version >= 5).enumerate() {
        let group = script.topic(&format!("g{version}"));
        let group = group.as_str();
        let joins = |member: StrBytes| {
            let request = consumer(version, group, member, &["t"]).with_group_instance_id(Some(text("instance")));
            RequestKind::JoinGroup(request)
        };
        let syncing = |generation, member: StrBytes| {
            let request = sync(5, group, generation, member.clone(), &[member]);
            RequestKind::SyncGroup(request.with_group_instance_id(Some(text("instance"))))
        };
        let beat = |generation, member| {
            let request = heartbeat(group, generation, member).with_group_instance_id(Some(text("instance")));
            RequestKind::Heartbeat(request)
        };
        let (first, second) = (3 * nth, 3 * nth + 1);
        script.ask("a static member", JOIN, version, |_| joins(text("")))?;
        script.ask("back before the sync", JOIN, version, |_| joins(text("")))?;
        script.ask("its sync", SYNC, 5, |side| syncing(2, side.member(second)))?;
        script.ask("described", DESCRIBE, 5, |_| RequestKind::DescribeGroups(describe(&[group])))?;
        script.ask("described to an old client", DESCRIBE, 3, |_| RequestKind::DescribeGroups(describe(&[group])))?;
        script.ask("the old id's heartbeat", HEARTBEAT, 4, |side| beat(2, side.member(first)))?;
        script.ask("the old id's join", JOIN, version, |side| joins(side.member(first)))?;
        script.ask("back", JOIN, version, |_| joins(text("")))?;
        script.ask("its heartbeat", HEARTBEAT, 4, |side| beat(2, side.member(second + 1)))?;
        script.ask("its sync again", SYNC, 5, |side| syncing(2, side.member(second + 1)))?;
        script.ask("the old id's sync", SYNC, 5, |side| syncing(2, side.member(second)))?;
        script.ask("the old id's commit", ApiKey::OffsetCommit, 7, |side| {
            let RequestKind::OffsetCommit(request) = commit(7, group, 2, side.member(second), &[("t", 0, 1, "")])
            else {
                unreachable!("a commit is a commit")
            };
            RequestKind::OffsetCommit(request.with_group_instance_id(Some(text("instance"))))
        })?;
        script
            .ask("the old id leaves", LEAVE, 5, |side| leave(5, group, &[(side.member(second), Some("instance"))]))?;
        script.ask("an instance is removed", LEAVE, 5, |_| {
            leave(5, group, &[(text(""), Some("instance")), (text(""), Some("instance"))])
        })?;
        script.ask("described empty", DESCRIBE, 5, |_| RequestKind::DescribeGroups(describe(&[group])))?;
    }
    Ok(())
}

/// Several members, each on a connection of its own.
pub fn rebalances(script: &mut Script) -> Result<()> {
    let group = script.topic("g");
    let group = group.as_str();
    let joins = |member: StrBytes| join(3, group, member);
    let syncing =
        |generation, member, all: &[StrBytes]| RequestKind::SyncGroup(sync(0, group, generation, member, all));
    let beat = |generation, member| RequestKind::Heartbeat(heartbeat(group, generation, member));
    script.ask("a leader", JOIN, 3, |_| joins(text("")))?;
    script.ask("its sync", SYNC, 0, |side| syncing(1, side.member(0), &[side.member(0)]))?;

    script.over("second");
    let second = script.send("a second member", JOIN, 3, |_| joins(text("")))?;
    script.over("");
    script.await_group(group, "PreparingRebalance", 2)?;
    script.ask("listed while it rebalances", LIST, 4, |_| list())?;
    script.ask("the leader is told to join", HEARTBEAT, 0, |side| beat(1, side.member(0)))?;
    script.ask("its sync while it rebalances", SYNC, 0, |side| syncing(1, side.member(0), &[]))?;
    script.ask("its commit while it rebalances", ApiKey::OffsetCommit, 5, |side| {
        commit(5, group, 1, side.member(0), &[("nowhere", 0, 1, "")])
    })?;
    script.ask("the leader joins", JOIN, 3, |side| joins(side.member(0)))?;
    script.answer(second)?;
    script.over("second");
    let waits =
        script.send("the second waits for the leader's sync", SYNC, 0, |side| syncing(2, side.member(1), &[]))?;
    script.over("");
    script.ask("described while it waits", DESCRIBE, 5, |_| RequestKind::DescribeGroups(describe(&[group])))?;
    script.ask("the leader's sync", SYNC, 0, |side| syncing(2, side.member(0), &[side.member(0), side.member(1)]))?;
    script.answer(waits)?;
    script.ask("described stable", DESCRIBE, 5, |_| {
        RequestKind::DescribeGroups(describe(&[group]).with_include_authorized_operations(true))
    })?;
    script.over("second");
    script.ask("a follower joins and nothing changed", JOIN, 3, |side| joins(side.member(1)))?;

    script.over("third");
    let third = script.send("a third member", JOIN, 3, |_| joins(text("")))?;
    script.over("");
    script.await_group(group, "PreparingRebalance", 3)?;
    let leader = script.send("the leader joins among three", JOIN, 3, |side| joins(side.member(0)))?;
    script.over("second");
    script.ask("the second leaves instead", LEAVE, 0, |side| leave(0, group, &[(side.member(1), None)]))?;
    script.answer(third)?;
    script.answer(leader)?;
    script.over("third");
    let third = script.send("the third waits", SYNC, 0, |side| syncing(3, side.member(2), &[]))?;
    script.over("");
    script.await_group(group, "CompletingRebalance", 2)?;
    script.ask("the leader leaves before its sync", LEAVE, 0, |side| leave(0, group, &[(side.member(0), None)]))?;
    script.answer(third)?;
    script.over("third");
    script.ask("the third leads", JOIN, 3, |side| joins(side.member(2)))?;
    script.ask("the third's sync", SYNC, 0, |side| syncing(4, side.member(2), &[side.member(2)]))?;
    script.ask("its heartbeat", HEARTBEAT, 0, |side| beat(4, side.member(2)))?;
    script.ask("the third leaves", LEAVE, 0, |side| leave(0, group, &[(side.member(2), None)]))
}

/// ListGroups' filters, DescribeGroups and DeleteGroups of several.
pub fn admin(script: &mut Script) -> Result<()> {
    let (stable, empty, simple) = (script.topic("stable"), script.topic("empty"), script.topic("simple"));
    let topic = script.topic("t");
    script.make_topic(&topic, 1)?;
    script.ask("a stable one", JOIN, 0, |_| join(0, &stable, text("")))?;
    script.ask("its sync", SYNC, 0, |side| RequestKind::SyncGroup(sync(0, &stable, 1, side.member(0), &[])))?;
    script.ask("one that was", JOIN, 0, |_| join(0, &empty, text("")))?;
    script.ask("it leaves", LEAVE, 0, |side| leave(0, &empty, &[(side.member(1), None)]))?;
    script.ask("one that only commits", ApiKey::OffsetCommit, 2, |_| {
        commit(2, &simple, -1, text(""), &[(&topic, 0, 5, "")])
    })?;
    script.ask_all("all", LIST, |_, _| list())?;
    for states in
        [&["Stable"][..], &["Empty", "stable"], &["stable"], &["Dead"], &["Unknown"], &["PreparingRebalance"], &[""]]
    {
        for version in [4, 5] {
            script.ask(&format!("in states {states:?}"), LIST, version, |_| {
                let states = states.iter().map(|state| text(state)).collect();
                RequestKind::ListGroups(ListGroupsRequest::default().with_states_filter(states))
            })?;
        }
    }
    for types in
        [&["classic"][..], &["Classic"], &["consumer"], &["consumer", "classic"], &["share"], &["nothing"], &[""]]
    {
        script.ask(&format!("of types {types:?}"), LIST, 5, |_| {
            let types = types.iter().map(|kind| text(kind)).collect();
            RequestKind::ListGroups(ListGroupsRequest::default().with_types_filter(types))
        })?;
    }
    for version in script.versions(DESCRIBE) {
        let all = [&*stable, &*empty, &*simple, "nowhere", &*stable, ""];
        script.ask("several", DESCRIBE, version, |_| RequestKind::DescribeGroups(describe(&all)))?;
        script.ask("none", DESCRIBE, version, |_| RequestKind::DescribeGroups(describe(&[])))?;
        script.ask("authorized operations", DESCRIBE, version, |_| {
            RequestKind::DescribeGroups(describe(&all).with_include_authorized_operations(true))
        })?;
    }
    for version in script.versions(DELETE) {
        script.ask("several", DELETE, version, |_| delete(&[&stable, "nowhere", "", &stable]))?;
        script.ask("none", DELETE, version, |_| delete(&[]))?;
    }
    script.ask("offsets of a group that never met", ApiKey::OffsetDelete, 0, |_| {
        delete_offsets(&simple, &[(&topic, &[0, 1]), ("nowhere", &[0]), (&topic, &[0])])
    })?;
    script.ask("it is gone with them", DESCRIBE, 0, |_| RequestKind::DescribeGroups(describe(&[&simple])))?;
    script.ask("offsets of a group that is not", ApiKey::OffsetDelete, 0, |_| {
        delete_offsets("nowhere", &[(&topic, &[0]), ("nowhere", &[0])])
    })?;
    script.ask("offsets of no group", ApiKey::OffsetDelete, 0, |_| delete_offsets("", &[(&topic, &[0])]))?;
    script.ask("no offsets", ApiKey::OffsetDelete, 0, |_| delete_offsets(&empty, &[]))?;
    script.ask("a topic without partitions", ApiKey::OffsetDelete, 0, |_| delete_offsets(&empty, &[(&topic, &[])]))?;
    script.ask("deleted empty", DELETE, 2, |_| delete(&[&empty]))?;
    script.ask("leaves", LEAVE, 0, |side| leave(0, &stable, &[(side.member(0), None)]))?;
    script.ask("deleted", DELETE, 2, |_| delete(&[&stable]))
}
