//! Which limit is a client's. Most binding first, as in Kafka:
//!
//! ```text
//! /config/users/<user>/clients/<client>        /config/users/<user>/clients/<default>
//! /config/users/<user>                         /config/users/<default>/clients/<client>
//! /config/users/<default>/clients/<default>    /config/users/<default>
//! /config/clients/<client>                     /config/clients/<default>
//! ```
//!
//! Who falls under a limit of users alone shares one measure with all clients of that user; under one of clients alone,
//! with that client id of all users. Each user or client under a default has a measure of its own.

use std::collections::HashMap;

use crate::metastore::schema::{ConfigEntity, EntityName};

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client<'a> {
    pub user: &'a str,
    /// Empty when the request has none.
    pub id: &'a str,
}

/// A limit, and the part of the client that its measure goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit<'a> {
    pub per_second: f64,
    pub of: Client<'a>,
}

/// Limits of names, and of all names that have none.
#[derive(Clone, Debug, Default, PartialEq)]
struct Named {
    named: HashMap<String, f64>,
    default: Option<f64>,
}

impl Named {
    fn set(&mut self, name: &EntityName, limit: Option<f64>) {
        match (name, limit) {
            (EntityName::Default, limit) => self.default = limit,
            (EntityName::Named(name), Some(limit)) => drop(self.named.insert(name.clone(), limit)),
            (EntityName::Named(name), None) => drop(self.named.remove(name)),
        }
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.named.get(name).copied().or(self.default)
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.default.is_none()
    }
}

/// One key's limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    users: Named,
    clients: Named,
    /// By user; clients of it.
    clients_of: HashMap<String, Named>,
    clients_of_others: Named,
}

impl Limits {
    pub fn is_empty(&self) -> bool {
        let Limits { users, clients, clients_of, clients_of_others } = self;
        users.is_empty() && clients.is_empty() && clients_of.is_empty() && clients_of_others.is_empty()
    }

    /// Sets an entity's limit, or takes it away. Entities that are no users or clients have none.
    pub fn set(&mut self, entity: &ConfigEntity, limit: Option<f64>) {
        match entity {
            ConfigEntity::User(user) => self.users.set(user, limit),
            ConfigEntity::Client(client) => self.clients.set(client, limit),
            ConfigEntity::UserClient(EntityName::Default, client) => self.clients_of_others.set(client, limit),
            ConfigEntity::UserClient(EntityName::Named(user), client) => {
                let clients = self.clients_of.entry(user.clone()).or_default();
                clients.set(client, limit);
                if clients.is_empty() {
                    self.clients_of.remove(user);
                }
            }
            ConfigEntity::Topic(_) | ConfigEntity::Broker(_) | ConfigEntity::Ip(_) => {}
        }
    }

    /// `None` when there is no limit. A client without an id falls under limits of users only (seen on a live 3.9.1).
    pub fn of<'a>(&self, client: Client<'a>) -> Option<Limit<'a>> {
        let of_user = Client { id: "", ..client };
        let limit = |of| move |per_second| Limit { per_second, of };
        if client.id.is_empty() {
            return self.users.of(client.user).map(limit(of_user));
        }
        let clients_of = self.clients_of.get(client.user);
        clients_of
            .and_then(|clients| clients.of(client.id))
            .map(limit(client))
            .or_else(|| self.users.named.get(client.user).copied().map(limit(of_user)))
            .or_else(|| self.clients_of_others.of(client.id).map(limit(client)))
            .or_else(|| self.users.default.map(limit(of_user)))
            .or_else(|| self.clients.of(client.id).map(limit(Client { user: "", ..client })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_binding_entity_counts_and_names_the_measure() {
        let parse = |path: &str| ConfigEntity::parse(path).expect("an entity");
        let (user, client) = ("u", "c");
        let asked = Client { user, id: client };
        // From the least to the most binding: each takes over from those before it.
        let steps: [(&str, Client<'_>); 8] = [
            ("clients/<default>", Client { user: "", id: client }),
            ("clients/c", Client { user: "", id: client }),
            ("users/<default>", Client { user, id: "" }),
            ("users/<default>/clients/<default>", asked),
            ("users/<default>/clients/c", asked),
            ("users/u", Client { user, id: "" }),
            ("users/u/clients/<default>", asked),
            ("users/u/clients/c", asked),
        ];
        let mut limits = Limits::default();
        assert_eq!((limits.of(asked), limits.is_empty()), (None, true));
        for (n, (path, of)) in steps.iter().enumerate() {
            limits.set(&parse(path), Some(n as f64));
            assert_eq!(limits.of(asked), Some(Limit { per_second: n as f64, of: *of }), "{path}");
        }
        assert_eq!(limits.of(Client { user: "v", id: "d" }).map(|limit| limit.per_second), Some(3.0));
        assert_eq!(limits.of(Client { user: "v", id: client }).map(|limit| limit.per_second), Some(4.0));
        for (n, (path, _)) in steps.iter().enumerate().rev() {
            assert_eq!(limits.of(asked).map(|limit| limit.per_second), Some(n as f64), "{path}");
            limits.set(&parse(path), None);
        }
        assert_eq!((limits.of(asked), limits.is_empty()), (None, true));
    }

    #[test]
    fn a_client_without_an_id_falls_under_limits_of_users_only() {
        let parse = |path: &str| ConfigEntity::parse(path).expect("an entity");
        let mut limits = Limits::default();
        for path in ["clients/<default>", "users/<default>/clients/<default>", "users/u/clients/<default>"] {
            limits.set(&parse(path), Some(1.0));
        }
        assert_eq!(limits.of(Client { user: "u", id: "" }), None);
        limits.set(&parse("users/<default>"), Some(2.0));
        let of = Client { user: "u", id: "" };
        assert_eq!(limits.of(of), Some(Limit { per_second: 2.0, of }));
    }
}
