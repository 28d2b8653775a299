//! Whose configs: `--entity-type users --entity-name u --entity-type clients --entity-default`, or `--user u
//! --client-defaults`.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use super::usage;

/// Kafka's plural names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Topics,
    Clients,
    Users,
    Brokers,
    Ips,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Topics, Kind::Clients, Kind::Users, Kind::Brokers, Kind::Ips];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Topics => "topics",
            Kind::Clients => "clients",
            Kind::Users => "users",
            Kind::Brokers => "brokers",
            Kind::Ips => "ips",
        }
    }

    /// One of them.
    pub fn singular(self) -> &'static str {
        self.name().trim_end_matches('s')
    }
}

/// What the flags name, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entities {
    pub kinds: Vec<Kind>,
    /// `None` is the default entity.
    pub names: Vec<Option<String>>,
}

/// The flags themselves. Types and names are matched by their order among each other, which a plain list of values forgets.
#[derive(Clone, Debug, Default)]
pub struct EntityArgs {
    types: Vec<String>,
    names: Vec<Option<String>>,
    /// Of `--topic a` and the like.
    short: Vec<(&'static str, Option<String>)>,
}

/// In the order in which Kafka's tool takes them.
const WITH_NAME: [(&str, &str); 5] =
    [("topic", "topics"), ("client", "clients"), ("user", "users"), ("broker", "brokers"), ("ip", "ips")];
const DEFAULTS: [(&str, &str); 4] = [
    ("client-defaults", "clients"),
    ("user-defaults", "users"),
    ("broker-defaults", "brokers"),
    ("ip-defaults", "ips"),
];

impl clap::Args for EntityArgs {
    fn augment_args(command: Command) -> Command {
        let repeated = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Append);
        let command = command
            .arg(
                repeated("entity-type")
                    .help("topics, clients, users, brokers or ips; users and clients may come together"),
            )
            .arg(repeated("entity-name").help("A name, a client's id or a broker's id"))
            .arg(
                repeated("entity-default")
                    .num_args(0)
                    .default_missing_value("")
                    .help("What holds for all without their own"),
            );
        let command = WITH_NAME.iter().fold(command, |command, (name, kind)| {
            command.arg(Arg::new(*name).long(*name).help(format!("As --entity-type {kind} --entity-name")))
        });
        DEFAULTS.iter().fold(command, |command, (name, kind)| {
            let help = format!("As --entity-type {kind} --entity-default");
            command.arg(Arg::new(*name).long(*name).action(ArgAction::SetTrue).help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        EntityArgs::augment_args(command)
    }
}

impl FromArgMatches for EntityArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<EntityArgs, clap::Error> {
        let texts = |name| matches.get_many::<String>(name).into_iter().flatten().cloned();
        let places = |name| matches.indices_of(name).into_iter().flatten();
        let mut names: Vec<(usize, Option<String>)> =
            places("entity-name").zip(texts("entity-name").map(Some)).collect();
        names.extend(places("entity-default").map(|place| (place, None)));
        names.sort_by_key(|(place, _)| *place);
        let named =
            WITH_NAME.iter().filter_map(|(name, kind)| Some((*kind, Some(matches.get_one::<String>(name)?.clone()))));
        let defaults = DEFAULTS.iter().filter(|(name, _)| matches.get_flag(name)).map(|(_, kind)| (*kind, None));
        Ok(EntityArgs {
            types: texts("entity-type").collect(),
            names: names.into_iter().map(|(_, name)| name).collect(),
            short: named.chain(defaults).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = EntityArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl EntityArgs {
    /// An usage error for types that do not exist or do not go together.
    pub fn entities(&self) -> anyhow::Result<Entities> {
        let types: Vec<&str> =
            self.types.iter().map(String::as_str).chain(self.short.iter().map(|(kind, _)| *kind)).collect();
        let mut kinds = Vec::new();
        for name in types {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
                usage(format!(
                    "Invalid entity type {name}, the entity type must be one of topics, clients, users, brokers, ips with a \
                     --bootstrap-server argument"
                ))
            })?;
            if kinds.contains(&kind) {
                return Err(usage(format!("Duplicate entity type(s) specified: {name}")));
            }
            kinds.push(kind);
        }
        if kinds.is_empty() {
            return Err(usage("At least one entity type must be specified"));
        }
        if kinds.len() > 1 && !kinds.iter().all(|kind| matches!(kind, Kind::Users | Kind::Clients)) {
            return Err(usage("Only 'users' and 'clients' entity types may be specified together"));
        }
        if !self.short.is_empty() && (!self.types.is_empty() || !self.names.is_empty()) {
            return Err(usage(
                "--entity-{type,name,default} should not be used in conjunction with specific entity flags",
            ));
        }
        let names = self.names.iter().cloned().chain(self.short.iter().map(|(_, name)| name.clone()));
        // An empty name is how Kafka's tool writes the default itself.
        let names = names.map(|name| name.filter(|name| !name.is_empty())).collect();
        Ok(Entities { kinds, names })
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    fn entities(flags: &str) -> anyhow::Result<Entities> {
        let command = EntityArgs::augment_args(Command::new("configs"));
        let matches = command.get_matches_from(std::iter::once("configs").chain(flags.split(' ')));
        EntityArgs::from_arg_matches(&matches)?.entities()
    }

    #[test]
    fn names_follow_types_in_their_order() {
        let name = |name: &str| Some(name.to_owned());
        for (flags, kinds, names) in [
            ("--entity-type topics", vec![Kind::Topics], vec![]),
            ("--entity-type topics --entity-name a", vec![Kind::Topics], vec![name("a")]),
            (
                "--entity-type users --entity-default --entity-type clients --entity-name c",
                vec![Kind::Users, Kind::Clients],
                vec![None, name("c")],
            ),
            (
                "--entity-type users --entity-type clients --entity-name u --entity-default",
                vec![Kind::Users, Kind::Clients],
                vec![name("u"), None],
            ),
            ("--user u --client c", vec![Kind::Clients, Kind::Users], vec![name("c"), name("u")]),
            ("--broker-defaults", vec![Kind::Brokers], vec![None]),
            ("--user u --client-defaults", vec![Kind::Users, Kind::Clients], vec![name("u"), None]),
        ] {
            assert_eq!(entities(flags).unwrap(), Entities { kinds, names }, "{flags}");
        }
    }

    #[test]
    fn types_that_do_not_go_together_are_refused_in_kafkas_words() {
        for (flags, why) in [
            ("--entity-name a", "At least one entity type must be specified"),
            (
                "--entity-type users --entity-type topics",
                "Only 'users' and 'clients' entity types may be specified together",
            ),
            ("--entity-type topics --entity-type topics", "Duplicate entity type(s) specified: topics"),
            ("--entity-type topics --topic a", "Duplicate entity type(s) specified: topics"),
            (
                "--entity-type users --client a",
                "--entity-{type,name,default} should not be used in conjunction with specific entity flags",
            ),
        ] {
            assert_eq!(entities(flags).unwrap_err().to_string(), why, "{flags}");
        }
        assert!(entities("--entity-type bogus").unwrap_err().to_string().starts_with("Invalid entity type bogus, "));
    }
}
