//! Machines of one's own: a network namespace each, and a hub between them that forwards what it is not told to drop.
//!
//! ```text
//!  machine (eth0) ══ veth ══ hub ══ veth ══ this machine, where the clients are
//! ```
//!
//! All links end in the hub, which is a namespace too: it routes, and a cut is a rule of its routing that leads nowhere, so
//! that packets of one direction vanish without a word to their sender. iproute2 and `nsenter` are all it takes; nothing
//! of the machine's own network is touched but for one link and its route. What a rule cannot do, a proxy does that hangs on
//! the hub as well ([`detour`]).

mod detour;

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

use crate::lane::skip;
use crate::proc::{self, tool};
use detour::Detour;

/// For one command that changes the network.
const LIMIT: Duration = Duration::from_secs(30);
/// Where `ip` keeps the names of namespaces.
const NAMES: &str = "/run/netns";
/// What all names begin with, before the id of the process they belong to.
const PREFIX: &str = "klamm-";

/// Where a process runs, and under what name it is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    host: String,
    namespace: Option<String>,
}

impl Machine {
    /// The one this program runs on, by its loopback address.
    pub fn this() -> Machine {
        Machine::at("127.0.0.1")
    }

    /// The one this program runs on, or a foreign one that nothing is started on.
    pub fn at(host: &str) -> Machine {
        Machine { host: host.to_owned(), namespace: None }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// The command as it is run there. The process id stays that of the program.
    pub fn run(&self, command: Command) -> Command {
        let Some(namespace) = &self.namespace else { return command };
        let mut inside = within(namespace);
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            inside.current_dir(dir);
        }
        inside
    }
}

/// The hub and what hangs on it. Gone when dropped, with all its machines; what runs on them is to end before.
pub struct Network {
    /// Of all names of this network.
    prefix: String,
    /// The first three bytes of all its addresses.
    subnet: [u8; 3],
    machines: Vec<Machine>,
    /// From and to.
    cuts: BTreeSet<(Machine, Machine)>,
    detour: Option<Detour>,
}

/// The last bytes of addresses that are not a machine's.
const CLIENTS: u8 = 1;
const HUB: u8 = 254;
const FIRST: u8 = 11;

impl Network {
    /// A network of `count` machines. A skip where the machine does not permit it.
    pub fn new(count: u8) -> Result<Network> {
        if !geteuid().is_root() {
            return skip("only root may make network namespaces");
        }
        tool("ip")?;
        tool("nsenter")?;
        sweep();
        let pid = std::process::id();
        let mut network = Network {
            prefix: format!("{PREFIX}{pid}"),
            subnet: free_subnet(pid)?,
            machines: Vec::new(),
            cuts: BTreeSet::new(),
            detour: None,
        };
        if let Err(error) = ip(&["netns", "add", &network.hub()]) {
            return skip(format!("no network namespaces here: {error:#}"));
        }
        network.join_clients().context("link the hub")?;
        for number in 0..count {
            network.add_machine(number).with_context(|| format!("machine {}", number + 1))?;
        }
        Ok(network)
    }

    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// This machine, as the others see it.
    pub fn clients(&self) -> Machine {
        Machine::at(&self.address(CLIENTS))
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }

    fn address(&self, last: u8) -> String {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, last).to_string()
    }

    fn in_hub(&self, words: &[&str]) -> Result<()> {
        let hub = self.hub();
        ip(&[&["-n", &hub], words].concat())
    }

    fn join_clients(&self) -> Result<()> {
        let (hub, gateway, clients) = (self.hub(), self.address(HUB), self.address(CLIENTS));
        let link = link_of(std::process::id());
        let everybody = format!("{}/24", self.address(0));
        self.in_hub(&["link", "set", "lo", "up"])?;
        self.in_hub(&["addr", "add", &gateway, "dev", "lo"])?;
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        in_shell(&hub, forward)?;
        ip(&["link", "add", "name", &link, "type", "veth", "peer", "name", "clients", "netns", &hub])?;
        self.in_hub(&["link", "set", "clients", "up"])?;
        self.in_hub(&["route", "add", &clients, "dev", "clients"])?;
        ip(&["addr", "add", &clients, "dev", &link])?;
        ip(&["link", "set", &link, "up"])?;
        ip(&["route", "add", &gateway, "dev", &link])?;
        ip(&["route", "add", &everybody, "via", &gateway, "dev", &link, "src", &clients])
    }

    fn add_machine(&mut self, number: u8) -> Result<()> {
        let namespace = format!("{}-{}", self.prefix, number + 1);
        let host = self.address(FIRST + number);
        // Known from here on: what follows may fail, and then it is to be taken away.
        self.machines.push(Machine { host: host.clone(), namespace: Some(namespace.clone()) });
        self.hang(&namespace, &host, &port(number.into()))
    }

    /// A namespace of that address on the hub's link `port`.
    fn hang(&self, namespace: &str, host: &str, port: &str) -> Result<()> {
        let gateway = self.address(HUB);
        ip(&["netns", "add", namespace])?;
        self.in_hub(&["link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", namespace])?;
        self.in_hub(&["link", "set", port, "up"])?;
        self.in_hub(&["route", "add", host, "dev", port])?;
        let inside = |words: &[&str]| ip(&[&["-n", namespace], words].concat());
        inside(&["link", "set", "lo", "up"])?;
        inside(&["addr", "add", host, "dev", "eth0"])?;
        inside(&["link", "set", "eth0", "up"])?;
        inside(&["route", "add", &gateway, "dev", "eth0"])?;
        inside(&["route", "add", "default", "via", &gateway])
    }

    /// From now on nothing of what `from` sends reaches `to`.
    pub fn cut(&mut self, from: &Machine, to: &Machine) -> Result<()> {
        if self.cuts.insert((from.clone(), to.clone())) {
            self.in_hub(&["rule", "add", "from", from.host(), "to", to.host(), "blackhole", "pref", "100"])?;
        }
        Ok(())
    }

    /// What [`Network::cut`] has done is undone.
    pub fn mend(&mut self, from: &Machine, to: &Machine) -> Result<()> {
        if self.cuts.remove(&(from.clone(), to.clone())) {
            self.in_hub(&["rule", "del", "from", from.host(), "to", to.host(), "blackhole", "pref", "100"])?;
        }
        Ok(())
    }

    /// What goes to this machine goes at `rate` from now on, in words of `tc`, and waits 400 ms at most.
    pub fn slow(&self, machine: &Machine, rate: &str) -> Result<()> {
        let port = self.port_of(machine)?;
        let hub = self.hub();
        let words = ["qdisc", "add", "dev", &port, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"];
        iproute("tc", &[&["-n", &hub], &words[..]].concat())
    }

    /// What [`Network::slow`] has done is undone.
    pub fn swift(&self, machine: &Machine) -> Result<()> {
        let port = self.port_of(machine)?;
        iproute("tc", &["-n", &self.hub(), "qdisc", "del", "dev", &port, "root"])
    }

    /// As when nobody has the machine's address any more: who sends to it is told that it is not reached.
    pub fn vanish(&self, machine: &Machine) -> Result<()> {
        // Everybody who asks is told, as often as he asks.
        in_shell(&self.hub(), "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit")?;
        self.in_hub(&["route", "replace", "unreachable", machine.host()])
    }

    /// What [`Network::vanish`] has done is undone.
    pub fn appear(&self, machine: &Machine) -> Result<()> {
        self.in_hub(&["route", "replace", machine.host(), "dev", &self.port_of(machine)?])
    }

    fn port_of(&self, machine: &Machine) -> Result<String> {
        let number = self.machines.iter().position(|one| one == machine);
        Ok(port(number.with_context(|| format!("{} is not of this network", machine.host()))?))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Its sockets keep its namespace alive.
        self.detour = None;
        remove(&self.prefix);
    }
}

/// The hub's end of a machine's link.
fn port(number: usize) -> String {
    format!("to{}", number + 1)
}

/// The name of this machine's end of the link to the hub. The kernel allows 15 bytes.
fn link_of(pid: u32) -> String {
    format!("klamm{pid}")
}

fn ip(words: &[&str]) -> Result<()> {
    iproute("ip", words)
}

fn iproute(program: &str, words: &[&str]) -> Result<()> {
    let output = proc::run(Command::new(program).args(words), b"", LIMIT)?;
    output.ok().map(|_| ()).with_context(|| format!("{program} {}", words.join(" ")))
}

/// What follows is run in the namespace, and sees the files that everybody sees. `ip netns exec` gives it mounts of its own,
/// a copy that keeps each disk there is: one that is taken away and put back is still the old one for all others, too.
fn within(namespace: &str) -> Command {
    let mut inside = Command::new("nsenter");
    inside.arg(format!("--net={NAMES}/{namespace}")).arg("--");
    inside
}

fn in_shell(namespace: &str, line: &str) -> Result<()> {
    let output = proc::run(within(namespace).args(["sh", "-c", line]), b"", LIMIT)?;
    output.ok().map(|_| ()).with_context(|| format!("{namespace}: {line}"))
}

/// Private addresses that no route of this machine leads to.
fn free_subnet(pid: u32) -> Result<[u8; 3]> {
    for attempt in 0..u32::from(u8::MAX) {
        let [.., high, low] = pid.wrapping_add(attempt).to_be_bytes();
        let subnet = [10, 128 | high, low];
        let [a, b, c] = subnet;
        let within = format!("{a}.{b}.{c}.0/24");
        let routes = proc::run(Command::new("ip").args(["-4", "route", "show", "root", &within]), b"", LIMIT)?.ok()?;
        if routes.out().trim().is_empty() {
            return Ok(subnet);
        }
    }
    bail!("every private subnet has a route")
}

/// Takes away what a network of a process that was killed has left.
fn sweep() {
    for name in names() {
        let Some((pid, _)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else { continue };
        let alive = fs::exists(format!("/proc/{pid}")).unwrap_or(true);
        if !alive {
            remove(&format!("{PREFIX}{pid}"));
        }
    }
}

/// All namespaces of a network. Links go with them, but when the kernel finds time for it: the one that has a name on this
/// machine goes first, for the next network's has the same.
fn remove(prefix: &str) {
    let link = prefix.replace('-', "");
    let is_there = fs::exists(format!("/sys/class/net/{link}")).unwrap_or(false);
    if is_there && let Err(error) = ip(&["link", "del", &link]) {
        eprintln!("{error:#}");
    }
    let own = format!("{prefix}-");
    for name in names().iter().filter(|name| name.starts_with(&own)) {
        if let Err(error) = ip(&["netns", "del", name]) {
            eprintln!("{error:#}");
        }
    }
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Mutex, MutexGuard};

    use anyhow::ensure;

    use super::*;
    use crate::lane::Skip;
    use crate::wait::until;

    /// A network that is the only one of this process: all of one process have the same names.
    pub struct Only {
        pub network: Network,
        _turn: MutexGuard<'static, ()>,
    }

    pub fn only(machines: u8) -> Option<Only> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match Network::new(machines) {
            Ok(network) => Some(Only { network, _turn: turn }),
            Err(error) if error.is::<Skip>() => None,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Asks from the inside: what is cut there is cut for everything that the machine sends.
    fn reaches(machine: &Machine, address: &str) -> bool {
        let (host, port) = address.split_once(':').expect("an address");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec 3<>/dev/tcp/{host}/{port}")]);
        proc::run(&mut machine.run(command), b"", Duration::from_secs(2)).is_ok_and(|output| output.status.success())
    }

    #[test]
    fn a_cut_is_of_one_pair_and_can_be_mended() {
        let Some(Only { mut network, _turn }) = only(2) else { return };
        let clients = network.clients();
        let listener = TcpListener::bind((clients.host(), 0)).expect("an address that clients have");
        let address = listener.local_addr().expect("an address").to_string();
        let machines = network.machines().to_vec();
        assert!(machines.iter().all(|machine| reaches(machine, &address)));
        network.cut(&machines[0], &clients).expect("a rule");
        assert!(!reaches(&machines[0], &address), "it is cut");
        assert!(reaches(&machines[1], &address), "the other one is not");
        network.mend(&machines[0], &clients).expect("no rule");
        assert!(reaches(&machines[0], &address));
        let hub = network.hub();
        drop(network);
        assert!(!names().contains(&hub), "it is taken away");
        // The kernel takes a namespace apart after it is gone by name.
        let gone = || {
            ensure!(TcpStream::connect(&address).is_err(), "the link is there, with its address");
            Ok(())
        };
        until("the link is gone", Duration::from_secs(60), gone).expect("the link is gone with its address");
    }

    /// A disk that is taken away and put back is another one for all, then.
    #[test]
    fn who_runs_on_a_machine_has_its_network_and_everybodys_mounts() {
        let Some(Only { network, _turn }) = only(1) else { return };
        let machine = &network.machines()[0];
        for (kind, is_its_own) in [("net", true), ("mnt", false)] {
            let link = format!("/proc/self/ns/{kind}");
            let mut command = Command::new("readlink");
            command.arg(&link);
            let there = proc::run(&mut machine.run(command), b"", LIMIT).and_then(proc::Output::ok).expect("readlink");
            let here = fs::read_link(&link).expect("a link");
            assert_eq!(there.out().trim() != here.display().to_string(), is_its_own, "{kind}");
        }
    }

    #[test]
    fn what_a_dead_process_has_left_is_taken_away() {
        // Above the largest id that the kernel gives.
        let left = format!("{PREFIX}4194399-hub");
        if !geteuid().is_root() || ip(&["netns", "add", &left]).is_err() {
            return;
        }
        sweep();
        assert!(!names().contains(&left));
    }
}
