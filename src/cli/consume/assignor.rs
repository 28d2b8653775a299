//! The range assignor: of each topic, every member that wants it gets a run of partitions, the first members one more where
//! they do not share out evenly. Members come in the order of their instance ids, those without one behind, by member id.

use std::collections::BTreeMap;

use crate::types::TopicPartition;

/// By this name members agree on it.
pub const NAME: &str = "range";

/// A member and the topics it subscribes to.
#[derive(Clone, Debug)]
pub struct Subscriber {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub topics: Vec<String>,
}

/// `partitions`: how many each topic has. By member id; members that get nothing are there with nothing.
pub fn assign(members: &[Subscriber], partitions: &BTreeMap<String, usize>) -> BTreeMap<String, Vec<TopicPartition>> {
    let mut ordered: Vec<&Subscriber> = members.iter().collect();
    ordered.sort_by_key(|member| (member.instance_id.is_none(), member.instance_id.as_ref(), &member.member_id));
    let mut assigned: BTreeMap<String, Vec<TopicPartition>> =
        members.iter().map(|member| (member.member_id.clone(), Vec::new())).collect();
    for (topic, count) in partitions {
        let sharers: Vec<&&Subscriber> = ordered.iter().filter(|member| member.topics.contains(topic)).collect();
        let mut next = 0;
        for (at, member) in sharers.iter().enumerate() {
            let share = count / sharers.len() + usize::from(at < count % sharers.len());
            let run = (next..next + share).map(|partition| TopicPartition::new(topic.as_str(), partition as i32));
            assigned.entry(member.member_id.clone()).or_default().extend(run);
            next += share;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, instance: Option<&str>, topics: &[&str]) -> Subscriber {
        Subscriber {
            member_id: id.to_owned(),
            instance_id: instance.map(str::to_owned),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        }
    }

    fn shown(members: &[Subscriber], partitions: &[(&str, usize)]) -> Vec<String> {
        let partitions = partitions.iter().map(|(topic, count)| ((*topic).to_owned(), *count)).collect();
        assign(members, &partitions)
            .into_iter()
            .map(|(id, assigned)| {
                let assigned: Vec<String> = assigned.iter().map(TopicPartition::to_string).collect();
                format!("{id}: {}", assigned.join(" "))
            })
            .collect()
    }

    #[test]
    fn every_topic_is_shared_out_by_itself() {
        let all = ["t", "u"];
        let two = [member("b", None, &all), member("a", None, &all)];
        assert_eq!(shown(&two, &[("t", 3), ("u", 3)]), ["a: t-0 t-1 u-0 u-1", "b: t-2 u-2"]);
        assert_eq!(shown(&two, &[("t", 1)]), ["a: t-0", "b: "]);
        let apart = [member("a", None, &["t"]), member("b", None, &["u"]), member("c", None, &[])];
        assert_eq!(shown(&apart, &[("t", 2), ("u", 1)]), ["a: t-0 t-1", "b: u-0", "c: "]);
        assert_eq!(shown(&[], &[("t", 2)]), [""; 0]);
    }

    #[test]
    fn members_with_instance_ids_come_first() {
        let members = [member("a", None, &["t"]), member("z", Some("1"), &["t"]), member("y", Some("2"), &["t"])];
        assert_eq!(shown(&members, &[("t", 4)]), ["a: t-3", "y: t-2", "z: t-0 t-1"]);
    }
}
