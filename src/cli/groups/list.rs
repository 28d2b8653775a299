//! `--list`: ids, or a table with types and states.

use kafka_protocol::messages::list_groups_response::ListedGroup;

use super::table::left;
use super::{Args, usage};
use crate::cli::admin::Admin;
use crate::coordinator::subscription::CONSUMER;

const STATES: [&str; 7] =
    ["PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling"];
const TYPES: [&str; 2] = ["Consumer", "Classic"];

pub fn list(args: &Args, admin: &mut Admin) -> anyhow::Result<()> {
    let wanted = |given: &Option<Option<String>>, known: &[&'static str], what: &str| match given {
        Some(Some(names)) => named(names, known, what),
        _ => Ok(Vec::new()),
    };
    let states = wanted(&args.state, &STATES, "state")?;
    let types = wanted(&args.types, &TYPES, "types")?;
    let groups = consumer_groups(admin, &states, &types)?;
    print!("{}", listing(&groups, args.types.is_some(), args.state.is_some()));
    Ok(())
}

/// Groups of consumers, by id; a group that only has offsets is one of them.
pub fn consumer_groups(admin: &mut Admin, states: &[String], types: &[String]) -> anyhow::Result<Vec<ListedGroup>> {
    let mut groups = admin.groups(states, types)?;
    groups.retain(|group| group.protocol_type.is_empty() || group.protocol_type.as_str() == CONSUMER);
    Ok(groups)
}

/// `stable,Empty` as Kafka spells it; a usage error for a name that is none.
fn named(names: &str, known: &[&'static str], what: &str) -> anyhow::Result<Vec<String>> {
    let spelled = names.split(',').map(|name| known.iter().find(|known| known.eq_ignore_ascii_case(name.trim())));
    let spelled: Option<Vec<String>> = spelled.map(|name| name.map(|name| (*name).to_owned())).collect();
    spelled.ok_or_else(|| {
        let plural = if what == "state" { "states" } else { what };
        usage(format!("Invalid {what} list '{names}'. Valid {plural} are: {}", known.join(", ")))
    })
}

fn listing(groups: &[ListedGroup], with_types: bool, with_states: bool) -> String {
    let mut out = String::new();
    if !with_types && !with_states {
        for group in groups {
            out.extend([group.group_id.as_str(), "\n"]);
        }
        // Kafka's tool joins the ids by line ends and ends the last line, whether there is one or not.
        return if groups.is_empty() { "\n".to_owned() } else { out };
    }
    let width = groups.iter().map(|group| group.group_id.chars().count()).max().unwrap_or(0).max(15) + 10;
    let mut row = |id: &str, kind: &str, state: &str| {
        let columns = [(with_types, kind), (with_states, state)];
        out += &left(id, width);
        for (_, text) in columns.iter().filter(|(shown, _)| *shown) {
            out.push(' ');
            out += &left(text, 20);
        }
        out.push('\n');
    };
    row("GROUP", "TYPE", "STATE");
    for group in groups {
        let kind = TYPES.iter().find(|known| known.eq_ignore_ascii_case(&group.group_type));
        row(&group.group_id, kind.unwrap_or(&"Unknown"), &group.group_state);
    }
    out
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::cli::admin::group_id;

    #[test]
    fn tables_are_as_wide_as_kafkas() {
        let group = |id: &str| {
            let text = StrBytes::from_static_str;
            ListedGroup::default()
                .with_group_id(group_id(id))
                .with_group_state(text("Empty"))
                .with_group_type(text("classic"))
        };
        assert_eq!(listing(&[group("g1"), group("g2")], false, false), "g1\ng2\n");
        assert_eq!(listing(&[], false, false), "\n");
        let expected = "GROUP                     TYPE                 STATE               \n\
                        g1                        Classic              Empty               \n";
        assert_eq!(listing(&[group("g1")], true, true), expected);
        let long = listing(&[group("a-group-of-20-letter")], false, true);
        assert_eq!(long.lines().next().map(str::len), Some(30 + 1 + 20));
    }

    #[test]
    fn names_are_spelled_as_kafka_does() {
        assert_eq!(named("stable,EMPTY", &STATES, "state").unwrap(), ["Stable", "Empty"]);
        assert_eq!(
            named("bad", &STATES, "state").unwrap_err().to_string(),
            "Invalid state list 'bad'. Valid states are: PreparingRebalance, CompletingRebalance, Stable, Dead, Empty, \
             Assigning, Reconciling"
        );
        assert_eq!(
            named("nope", &TYPES, "types").unwrap_err().to_string(),
            "Invalid types list 'nope'. Valid types are: Consumer, Classic"
        );
    }
}
