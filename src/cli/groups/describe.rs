//! `--describe`: offsets and lag, members, or state.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::table::{left, width};
use super::{Args, groups_meant, say_error};
use crate::cli::admin::{Admin, Coordinator, LATEST, group_id};
use crate::cli::consumer_protocol::assigned;
use crate::coordinator::subscription::CONSUMER;
use crate::types::{IsolationLevel, TopicPartition};
use crate::wire::error_code::ErrorCode;

/// Stands for what is not known.
const MISSING: &str = "-";

/// A group as its coordinator sees it.
pub struct Group {
    pub id: String,
    /// Kafka's name; `Dead` without such a group.
    pub state: String,
    /// Of the assignor.
    strategy: String,
    members: Vec<Member>,
}

struct Member {
    id: String,
    instance_id: Option<String>,
    client_id: String,
    host: String,
    /// In order.
    assigned: Vec<TopicPartition>,
}

pub fn describe(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    for id in groups_meant(args, admin)? {
        let group = group(admin, &id)?;
        if args.state.is_some() {
            if say_state(&group, 1) {
                let coordinator = admin.coordinator(&id)?;
                print!("{}", state_table(&group, &coordinator));
            }
        } else if args.members {
            say_state(&group, group.members.len());
            print!("{}", members_table(&group, args.verbose));
        } else {
            let rows = offset_rows(admin, &group)?;
            if say_state(&group, rows.len()) {
                print!("{}", offsets_table(&group.id, &rows));
            }
        }
    }
    Ok(())
}

/// An error for a group that is none of consumers.
pub fn group(admin: &mut Admin, id: &str) -> anyhow::Result<Group> {
    let request = DescribeGroupsRequest::default().with_groups(vec![group_id(id)]);
    let answer = admin.of_group(id, &request, |answer| answer.groups.first().map_or(0, |group| group.error_code))?;
    let dead = || Group { id: id.to_owned(), state: "Dead".to_owned(), strategy: String::new(), members: Vec::new() };
    match answer {
        Ok(DescribeGroupsResponse { groups, .. }) => match groups.into_iter().next() {
            Some(found) => consumers(found),
            None => bail!("the broker says nothing of group {id}"),
        },
        Err(ErrorCode::GroupIdNotFound) => Ok(dead()),
        Err(code) => Err(anyhow!("group '{id}': {code}")),
    }
}

fn consumers(found: DescribedGroup) -> anyhow::Result<Group> {
    let kind = found.protocol_type.as_str();
    if !kind.is_empty() && kind != CONSUMER {
        bail!("GroupId {} is not a consumer group ({kind}).", found.group_id.as_str());
    }
    let members = found.members.into_iter().map(|member| {
        Ok(Member {
            id: member.member_id.to_string(),
            instance_id: member.group_instance_id.map(|id| id.to_string()),
            client_id: member.client_id.to_string(),
            host: member.client_host.to_string(),
            assigned: assigned(member.member_assignment)?,
        })
    });
    Ok(Group {
        id: found.group_id.to_string(),
        state: found.group_state.to_string(),
        strategy: found.protocol_data.to_string(),
        members: members.collect::<anyhow::Result<_>>()?,
    })
}

/// Says what is special about the group's state. Whether there is something to show besides.
fn say_state(group: &Group, rows: usize) -> bool {
    match group.state.as_str() {
        "Dead" => say_error(&format!("Consumer group '{}' does not exist.", group.id)),
        "Empty" => eprintln!("\nConsumer group '{}' has no active members.", group.id),
        "PreparingRebalance" | "CompletingRebalance" | "Assigning" | "Reconciling" => {
            eprintln!("\nWarning: Consumer group '{}' is rebalancing.", group.id);
        }
        _ => {}
    }
    group.state != "Dead" && rows > 0
}

/// What a group knows of one partition.
struct OffsetRow {
    of: TopicPartition,
    committed: Option<i64>,
    log_end: Option<i64>,
    member: [String; 3],
}

/// Members with most partitions first, each in order; then what nobody is assigned and the group has committed.
fn offset_rows(admin: &mut Admin, group: &Group) -> anyhow::Result<Vec<OffsetRow>> {
    if group.state == "Dead" {
        return Ok(Vec::new());
    }
    let committed = admin.committed(&group.id)?;
    let mut members: Vec<&Member> = group.members.iter().collect();
    members.sort_by_key(|member| std::cmp::Reverse(member.assigned.len()));
    let mut listed: Vec<(&TopicPartition, [&str; 3])> = Vec::new();
    for member in members {
        let columns = [member.id.as_str(), member.host.as_str(), member.client_id.as_str()];
        listed.extend(member.assigned.iter().map(|of| (of, columns)));
    }
    let assigned: BTreeSet<&TopicPartition> = listed.iter().map(|(of, _)| *of).collect();
    listed.extend(committed.keys().filter(|of| !assigned.contains(of)).map(|of| (of, [MISSING; 3])));
    let asked = listed.iter().map(|(of, _)| ((*of).clone(), LATEST)).collect();
    let ends = admin.list_offsets(&asked, IsolationLevel::ReadUncommitted)?;
    let row = |(of, member): (&TopicPartition, [&str; 3])| OffsetRow {
        of: of.clone(),
        committed: committed.get(of).copied(),
        log_end: ends.get(of).and_then(|end| end.ok()),
        member: member.map(str::to_owned),
    };
    Ok(listed.into_iter().map(row).collect())
}

/// Begins with a line end and ends without one, as Kafka's does.
fn offsets_table(group: &str, rows: &[OffsetRow]) -> String {
    let column = |n: usize| width(rows.iter().map(|row| row.member[n].as_str()));
    let widths = [width([group]), width(rows.iter().map(|row| &*row.of.topic)), column(0), column(1)];
    let mut out = String::new();
    let mut line = |texts: [&str; 9]| {
        let [group, topic, partition, committed, log_end, lag, member, host, client] = texts;
        let columns = [(group, widths[0]), (topic, widths[1]), (partition, 10), (committed, 15), (log_end, 15)];
        let more = [(lag, 15), (member, widths[2]), (host, widths[3])];
        out.push('\n');
        for (text, width) in columns.into_iter().chain(more) {
            out += &left(text, width);
            out.push(' ');
        }
        out += client;
    };
    line([
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]);
    for row in rows {
        let number = |n: Option<i64>| n.map_or(MISSING.to_owned(), |n| n.to_string());
        let lag = row.log_end.zip(row.committed).map(|(end, committed)| end - committed);
        let [member, host, client] = &row.member;
        line([
            group,
            &row.of.topic,
            &row.of.partition.to_string(),
            &number(row.committed),
            &number(row.log_end),
            &number(lag),
            member,
            host,
            client,
        ]);
    }
    out
}

/// Shows instance ids when a member has one, and with `verbose` the partitions of each topic, without the topic's name.
fn members_table(group: &Group, verbose: bool) -> String {
    let members = &group.members;
    let instances = members.iter().any(|member| member.instance_id.is_some());
    let instance = |member: &Member| member.instance_id.clone().unwrap_or_default();
    let instance_width = members.iter().map(|member| instance(member).len()).max().unwrap_or(0).max(17);
    let widths = [
        width(members.iter().map(|_| group.id.as_str())),
        width(members.iter().map(|member| member.id.as_str())),
        instance_width,
        width(members.iter().map(|member| member.host.as_str())),
        width(members.iter().map(|member| member.client_id.as_str())),
        15,
    ];
    let mut out = String::from("\n");
    let mut line = |texts: [&str; 6], assignment: &str| {
        for (n, text) in texts.into_iter().enumerate().filter(|(n, _)| *n != 2 || instances) {
            out += &left(text, widths[n]);
            out.push(' ');
        }
        if verbose {
            out += assignment;
        }
        out.push('\n');
    };
    line(["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"], "ASSIGNMENT");
    for member in members {
        let count = member.assigned.len().to_string();
        let columns = [&group.id, &member.id, &instance(member), &member.host, &member.client_id, &count];
        line(columns.map(String::as_str), &assignment(&member.assigned));
    }
    out
}

/// `(0,1), (2)`: a pair of brackets for each topic.
fn assignment(assigned: &[TopicPartition]) -> String {
    if assigned.is_empty() {
        return MISSING.to_owned();
    }
    let topics = assigned.chunk_by(|a, b| a.topic == b.topic).map(|of_topic| {
        let partitions: Vec<String> = of_topic.iter().map(|of| of.partition.to_string()).collect();
        format!("({})", partitions.join(","))
    });
    topics.collect::<Vec<_>>().join(", ")
}

fn state_table(group: &Group, coordinator: &Coordinator) -> String {
    let coordinator = format!("{}:{}  ({})", coordinator.host, coordinator.port, coordinator.id.0);
    // Kafka's tool gives the coordinator's width to the group's column.
    let first = coordinator.chars().count().max(25);
    let mut out = String::new();
    let mut line = |texts: [&str; 5]| {
        let [group, coordinator, strategy, state, members] = texts;
        out.push('\n');
        for (text, width) in [(group, first), (coordinator, 25), (strategy, 20), (state, 15)] {
            out += &left(text, width);
            out.push(' ');
        }
        out += members;
    };
    line(["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]);
    line([&group.id, &coordinator, &group.strategy, &group.state, &group.members.len().to_string()]);
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::BrokerId;

    use super::*;

    fn group() -> Group {
        let member = |id: &str, instance: Option<&str>, assigned: &[(&str, i32)]| Member {
            id: id.to_owned(),
            instance_id: instance.map(str::to_owned),
            client_id: "c".to_owned(),
            host: "/127.0.0.1".to_owned(),
            assigned: assigned.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect(),
        };
        Group {
            id: "g".to_owned(),
            state: "Stable".to_owned(),
            strategy: "range".to_owned(),
            members: vec![
                member("a-member-of-23-letters", None, &[("a", 0), ("a", 1), ("b", 0)]),
                member("m", None, &[]),
            ],
        }
    }

    // The expected texts are what Kafka's tool of 3.9.1 printed.

    #[test]
    fn offsets_are_as_wide_as_kafkas() {
        let row = |partition, committed, log_end| OffsetRow {
            of: TopicPartition::new("a", partition),
            committed,
            log_end,
            member: ["-", "-", "-"].map(str::to_owned),
        };
        assert_eq!(
            offsets_table("g1", &[row(2, Some(25), Some(30)), row(1, None, Some(20)), row(0, Some(5), None)]),
            "\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\
             \ng1              a               2          25              30              5               -               -               -\
             \ng1              a               1          -               20              -               -               -               -\
             \ng1              a               0          5               -               -               -               -               -"
        );
    }

    #[test]
    fn members_are_as_wide_as_kafkas() {
        assert_eq!(
            members_table(&group(), true),
            "\nGROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT\
             \ng               a-member-of-23-letters /127.0.0.1      c               3               (0,1), (0)\
             \ng               m                      /127.0.0.1      c               0               -\n"
        );
        let mut with_instance = group();
        with_instance.members.truncate(1);
        with_instance.members[0].instance_id = Some("i".to_owned());
        assert_eq!(
            members_table(&with_instance, false),
            "\nGROUP           CONSUMER-ID            GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     \
             \ng               a-member-of-23-letters i                 /127.0.0.1      c               3               \n"
        );
        with_instance.members.clear();
        assert_eq!(
            members_table(&with_instance, false),
            "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     \n"
        );
    }

    #[test]
    fn states_are_as_wide_as_kafkas() {
        let coordinator = Coordinator { id: BrokerId(1), host: "127.0.0.1".to_owned(), port: 9092 };
        assert_eq!(
            state_table(&group(), &coordinator),
            "\nGROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS\
             \ng                         127.0.0.1:9092  (1)       range                Stable          2\n"
        );
    }
}
