//! Ways that lead through a proxy, unknown to who uses them: no address changes.
//!
//! ```text
//!  machine ══ hub ── rule: from A, to B, as it comes from A ──► detour, which has B's address, and the proxy listens there
//!               ◄── the proxy's own connection to B, from the detour's own address ──┘
//! ```
//!
//! The detour is a namespace that has the addresses of all who serve. What comes in to one of them stays; what goes out is
//! routed as if it had none. A way that begins to be diverted loses the connections that it has at both ends: who serves
//! would wait for ever for the next request of one. A way that ends to be diverted is closed by the proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};

use super::{CLIENTS, LIMIT, Machine, NAMES, Network, in_shell, ip, within};
use crate::proc;
use crate::proxy::{Counts, Door, Order, Proxy, Way};

/// A namespace on the hub that has the addresses of others, and how packets come to it.
struct Aside {
    /// Of its namespace, after the network's prefix, and of the hub's link to it.
    name: &'static str,
    /// The last byte of its own address.
    address: u8,
    /// Of the rules that lead there.
    table: &'static str,
    preference: &'static str,
}

/// What is cut is not diverted, and what is refused is not either.
const PROXY: Aside = Aside { name: "detour", address: 253, table: "100", preference: "200" };
/// Where nobody listens: who connects is refused, and who is connected is reset.
const WALL: Aside = Aside { name: "wall", address: 252, table: "101", preference: "150" };

pub struct Detour {
    proxy: Proxy,
    ways: BTreeSet<(Machine, Machine)>,
    walls: BTreeSet<(Machine, Machine)>,
    /// Where who serves at an address serves.
    ports: BTreeMap<String, String>,
}

impl Network {
    /// Makes ready for ways to who serves at these addresses, `HOST:PORT`. None is diverted yet.
    pub fn prepare_detour(&mut self, serving: &[String]) -> Result<()> {
        if self.detour.is_some() {
            return Ok(());
        }
        let addresses: Vec<SocketAddr> =
            serving.iter().map(|address| address.parse().with_context(|| address.clone())).collect::<Result<_>>()?;
        let hosts: BTreeSet<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        let namespace = self.stand(&PROXY, &hosts)?;
        self.stand(&WALL, &hosts)?;
        let doors: Vec<Door> = addresses.iter().map(|&at| Door { at, to: at }).collect();
        let proxy = Proxy::start(Some(Path::new(NAMES).join(&namespace)), &doors)?;
        let ports = addresses.iter().map(|at| (at.ip().to_string(), at.port().to_string())).collect();
        self.detour = Some(Detour { proxy, ports, ways: BTreeSet::new(), walls: BTreeSet::new() });
        Ok(())
    }

    /// Hangs it on the hub, with the addresses of these hosts. The name of its namespace.
    fn stand(&self, aside: &Aside, hosts: &BTreeSet<IpAddr>) -> Result<String> {
        let Aside { name, address, table, .. } = *aside;
        let (namespace, own) = (format!("{}-{name}", self.prefix), self.address(address));
        self.hang(&namespace, &own, name).with_context(|| format!("hang the {name} on the hub"))?;
        self.in_hub(&["route", "add", "default", "via", &own, "dev", name, "onlink", "table", table])?;
        // What it sends has the addresses of others.
        let trusting =
            |links: &str| format!("cd /proc/sys/net/ipv4/conf; for link in {links}; do echo 0 > $link/rp_filter; done");
        in_shell(&self.hub(), &trusting(&format!("all default {name}")))?;
        in_shell(&namespace, &trusting("all default eth0"))?;
        let inside = |words: &[&str]| ip(&[&["-n", &namespace], words].concat());
        for host in hosts {
            inside(&["addr", "add", &host.to_string(), "dev", "lo"])?;
        }
        inside(&["rule", "add", "pref", "10", "iif", "eth0", "lookup", "local"])?;
        inside(&["rule", "add", "pref", "20", "lookup", "main"])?;
        inside(&["rule", "del", "pref", "0"])?;
        Ok(namespace)
    }

    fn detour(&mut self) -> Result<&mut Detour> {
        self.detour.as_mut().context("no detour is prepared")
    }

    /// Adds or deletes the rule that leads a way there.
    fn rule(&self, act: &str, aside: &Aside, from: &Machine, to: &Machine) -> Result<()> {
        let port = if from.host() == self.address(CLIENTS) { "clients".to_owned() } else { self.port_of(from)? };
        let Aside { table, preference, .. } = *aside;
        let served = self.served_at(to)?;
        let (from, to) = (from.host(), to.host());
        // Answers to connections that are made the other way are none of its business.
        let way = ["from", from, "to", to, "iif", &port, "ipproto", "tcp", "dport", served];
        self.in_hub(&[&["rule", act][..], &way, &["lookup", table, "pref", preference]].concat())
    }

    /// From now on `from` reaches `to` through the proxy.
    pub fn divert(&mut self, from: &Machine, to: &Machine) -> Result<()> {
        if self.detour()?.ways.insert((from.clone(), to.clone())) {
            self.order(from, to, Order::calm)?;
            self.rule("add", &PROXY, from, to)?;
            self.end(from, to)?;
        }
        Ok(())
    }

    /// Ends what `from` has connected to `to`, at `to`.
    fn end(&self, from: &Machine, to: &Machine) -> Result<()> {
        let Some(namespace) = &to.namespace else { return Ok(()) };
        let port = self.served_at(to)?;
        let words = ["-K", "-t", "state", "connected", "dst", from.host(), "sport", "=", port];
        let output = proc::run(within(namespace).arg("ss").args(words), b"", LIMIT)?;
        output.ok().map(|_| ()).with_context(|| format!("ss {}", words.join(" ")))
    }

    /// The port that serves there.
    fn served_at(&self, to: &Machine) -> Result<&str> {
        let served = self.detour.as_ref().and_then(|detour| detour.ports.get(to.host()));
        served.map(String::as_str).with_context(|| format!("nobody serves at {}", to.host()))
    }

    /// What [`Network::divert`] has done is undone.
    pub fn straighten(&mut self, from: &Machine, to: &Machine) -> Result<()> {
        if self.detour()?.ways.remove(&(from.clone(), to.clone())) {
            self.rule("del", &PROXY, from, to)?;
            self.order(from, to, |order| order.resets += 1)?;
        }
        Ok(())
    }

    /// From now on `to` seems to refuse `from`: who connects is answered with a reset, and so is who has connected. Who is
    /// connected the other way notices nothing.
    pub fn refuse(&mut self, from: &Machine, to: &Machine) -> Result<()> {
        if self.detour()?.walls.insert((from.clone(), to.clone())) {
            self.rule("add", &WALL, from, to)?;
        }
        Ok(())
    }

    /// What [`Network::refuse`] has done is undone.
    pub fn admit(&mut self, from: &Machine, to: &Machine) -> Result<()> {
        if self.detour()?.walls.remove(&(from.clone(), to.clone())) {
            self.rule("del", &WALL, from, to)?;
        }
        Ok(())
    }

    /// Changes what is ordered of a way.
    pub fn order(&self, from: &Machine, to: &Machine, change: impl FnOnce(&mut Order)) -> Result<()> {
        self.detour.as_ref().context("no detour is prepared")?.proxy.order(way(from, to)?, change);
        Ok(())
    }

    pub fn counts(&self, from: &Machine, to: &Machine) -> Result<Counts> {
        Ok(self.detour.as_ref().context("no detour is prepared")?.proxy.counts(way(from, to)?))
    }
}

fn way(from: &Machine, to: &Machine) -> Result<Way> {
    let address = |machine: &Machine| machine.host().parse::<IpAddr>().with_context(|| machine.host().to_owned());
    Ok(Way { from: address(from)?, to: address(to)? })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::super::tests::only;
    use super::*;
    use crate::wait::until;

    const PATIENCE: Duration = Duration::from_secs(60);
    /// Answers each connection with the address it comes from.
    const SERVER: &str = "import socket, sys\n\
        door = socket.create_server((sys.argv[1], int(sys.argv[2])))\n\
        while True:\n    \
            peer, address = door.accept()\n    \
            peer.sendall(address[0].encode() + b'\\n')\n    \
            peer.close()\n";
    const PORT: &str = "7000";
    /// Says when somebody has connected, and what became of that; nothing is asked.
    const HOLDER: &str = "import socket, sys\n\
        door = socket.create_server((sys.argv[1], int(sys.argv[2])))\n\
        print('serves', flush=True)\n\
        peer, _ = door.accept()\n\
        print('held', flush=True)\n\
        peer.settimeout(20)\n\
        try: peer.recv(1) and print('asked')\n\
        except TimeoutError: print('not told')\n\
        except OSError: print('ended')\n";

    /// The machine serves by a Python script.
    fn serving(machine: &Machine, script: &str) -> Command {
        let mut python = Command::new("python3");
        python.args(["-c", script, machine.host(), PORT]);
        machine.run(python)
    }

    /// Who the server at `host` takes the machine for.
    fn seen_from(machine: &Machine, host: &str) -> Result<String> {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec 3<>/dev/tcp/{host}/{PORT}; cat <&3")]);
        let said = crate::proc::run(&mut machine.run(command), b"", Duration::from_secs(5))?.ok()?;
        Ok(said.out().trim().to_owned())
    }

    #[test]
    fn who_serves_a_connection_is_told_of_its_end_when_its_way_is_diverted() {
        if crate::proc::tool("python3").is_err() {
            return;
        }
        let Some(mut one) = only(2) else { return };
        let network = &mut one.network;
        let machines = network.machines().to_vec();
        let [first, second] = machines.as_slice() else { panic!("two machines") };
        let mut server = serving(second, HOLDER).stdout(Stdio::piped()).spawn().expect("a server");
        let mut said = BufReader::new(server.stdout.take().expect("its output")).lines();
        let mut next = || said.next().expect("a line").expect("words");
        assert_eq!(next(), "serves");
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec 3<>/dev/tcp/{}/{PORT}; exec sleep 60", second.host())]);
        let mut client = first.run(bash).spawn().expect("a client");
        assert_eq!(next(), "held");
        network.prepare_detour(&[format!("{}:{PORT}", second.host())]).expect("a detour");
        network.divert(first, second).expect("a rule");
        assert_eq!(next(), "ended");
        for process in [&mut server, &mut client] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    #[test]
    fn a_way_leads_through_the_proxy_and_its_ends_do_not_know() {
        if crate::proc::tool("python3").is_err() {
            return;
        }
        let Some(mut one) = only(2) else { return };
        let network = &mut one.network;
        let machines = network.machines().to_vec();
        let [first, second] = machines.as_slice() else { panic!("two machines") };
        let mut servers: Vec<_> = machines
            .iter()
            .map(|machine| serving(machine, SERVER).stdin(Stdio::null()).spawn().expect("a server"))
            .collect();
        for machine in &machines {
            until("it serves", PATIENCE, || seen_from(machine, machine.host())).expect("it serves");
        }
        let serving: Vec<String> = machines.iter().map(|machine| format!("{}:{PORT}", machine.host())).collect();
        network.prepare_detour(&serving).expect("a detour");
        // Both directions at once: what is diverted is who connects to whom, and not the answers.
        network.divert(first, second).expect("a rule");
        network.divert(second, first).expect("a rule");
        let proxy = network.address(PROXY.address);
        assert_eq!(seen_from(first, second.host()).expect("an answer"), proxy);
        assert_eq!(seen_from(second, first.host()).expect("an answer"), proxy);
        assert_eq!(network.counts(first, second).expect("counts").connections, 1);
        // This machine is not on the way.
        let mut direct = std::net::TcpStream::connect(&serving[1]).expect("a connection");
        let mut said = String::new();
        direct.write_all(b"").and_then(|()| direct.read_to_string(&mut said)).expect("an answer");
        assert_eq!(said.trim(), network.clients().host());
        network.cut(first, second).expect("a rule");
        assert!(seen_from(first, second.host()).is_err(), "what is cut is not diverted");
        network.mend(first, second).expect("no rule");
        network.straighten(first, second).expect("no rule");
        assert_eq!(seen_from(first, second.host()).expect("an answer"), first.host());
        assert_eq!(network.counts(first, second).expect("counts").connections, 1);
        network.refuse(first, second).expect("a rule");
        let refused = seen_from(first, second.host()).expect_err("it is refused");
        assert!(format!("{refused:#}").contains("refused"), "{refused:#}");
        assert_eq!(seen_from(second, first.host()).expect("an answer"), proxy, "the other way is as it was");
        network.admit(first, second).expect("no rule");
        assert_eq!(seen_from(first, second.host()).expect("an answer"), first.host());
        network.vanish(second).expect("no route");
        let vanished = seen_from(first, second.host()).expect_err("nobody has the address");
        assert!(format!("{vanished:#}").contains("No route to host"), "{vanished:#}");
        network.appear(second).expect("a route");
        assert_eq!(seen_from(first, second.host()).expect("an answer"), first.host());
        for server in &mut servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
