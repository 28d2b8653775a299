//! What holds after every step, and what has come about once all is calm.

use super::node::Node;
use super::{Pool, Seen, Verdict, ensure};
use crate::replication::isr::IsrState;
use crate::types::{BrokerId, Offset};

impl Pool {
    pub(super) fn look(&mut self) -> Verdict {
        for of in self.partitions() {
            if self.seen[of as usize].is_lost {
                continue;
            }
            for at in 0..self.nodes.len() {
                self.look_at(at, of).map_err(|what| format!("partition {of}: {what}"))?;
            }
        }
        Ok(())
    }

    fn look_at(&mut self, at: usize, of: i32) -> Verdict {
        let stored = self.store.at(of);
        let seen = &mut self.seen[of as usize];
        let Node { id, up, replicas, .. } = &mut self.nodes[at];
        let (id, replica) = (*id, &mut replicas[of as usize]);
        let log = &mut replica.log;
        note_written(seen, id, log)?;
        ensure(log.mark <= log.end(), || format!("the mark lies behind the log end on {id}"))?;
        let Some(leading) = replica.role.leading.as_ref().filter(|_| *up) else { return Ok(()) };
        let epoch = replica.role.leader_epoch;
        let first = *seen.leaders.entry(epoch).or_insert(id);
        ensure(first == id, || format!("{first} and {id} lead in epoch {epoch}"))?;
        let before = seen.marks.insert((id, epoch), log.mark).unwrap_or(Offset::ZERO);
        ensure(before <= log.mark, || format!("the mark of {id} falls from {before} in epoch {epoch}"))?;
        let membership = leading.membership();
        if let IsrState::Committed(isr) = &membership.isr {
            let written = self.store.history.get(&(of, membership.partition_epoch));
            ensure(written == Some(&(epoch, isr.clone())), || {
                format!("{id} takes {isr:?} for the ISR of {}, which is {written:?}", membership.partition_epoch)
            })?;
        }
        let shown = &log.records[..log.mark.0 as usize];
        let known = shown.len().min(seen.visible.len());
        ensure(shown[..known] == seen.visible[..known], || format!("committed records changed on leader {id}"))?;
        seen.visible.extend(&shown[known..]);
        if stored.state.leader == id && stored.state.leader_epoch == epoch {
            let (has, needs) = (log.records.len(), seen.visible.len());
            ensure(has >= needs, || format!("leader {id} of epoch {epoch} lacks committed records: {has} of {needs}"))?;
            ensure(log.records[..needs] == seen.visible, || format!("leader {id} of epoch {epoch} has other records"))?;
        }
        Ok(())
    }

    /// No more faults: everyone lives and every message arrives.
    pub(super) fn calm(&mut self) -> Verdict {
        self.messages.clear();
        for _ in 0..200 {
            self.now_ms += 60;
            let (now_ms, off) = (self.now_ms, self.off);
            for nth in 0..self.nodes.len() {
                self.start(nth);
                if self.nodes[nth].up && !self.store.registrations.contains_key(&self.nodes[nth].id) {
                    self.register_anew(nth);
                }
            }
            if self.has_alarms {
                self.hear_all();
            }
            self.controller.look();
            self.work(usize::MAX);
            self.deliver_all_control();
            for node in self.nodes.iter_mut().filter(|node| node.up) {
                let around = node.around(now_ms, off);
                for (of, replica) in (0..).zip(&mut node.replicas) {
                    self.messages.extend(replica.ask(&around, of));
                }
                self.messages.extend(node.alter());
            }
            for message in std::mem::take(&mut self.messages) {
                self.deliver(message);
                self.look().map_err(|what| format!("calm: {what}"))?;
            }
            self.note_losses();
            if self.has_converged() {
                return Ok(());
            }
        }
        Err(format!("no calm: {:?}, {:?}", self.store.states, self.nodes))
    }

    fn has_converged(&self) -> bool {
        let all: Vec<BrokerId> = self.nodes.iter().map(|node| node.id).collect();
        self.partitions().filter(|of| !self.seen[*of as usize].is_lost).all(|of| {
            let mut isr = self.store.at(of).state.isr.clone();
            isr.sort();
            let first = &self.nodes[0].replicas[of as usize].log;
            isr == all
                && self.nodes.iter().map(|node| &node.replicas[of as usize]).all(|replica| {
                    let log = &replica.log;
                    log.records == first.records && log.mark == log.end() && replica.proposed.is_none()
                })
        })
    }
}

/// Records since the last look: one by offset and epoch, in the epochs that are noted, which only rise.
fn note_written(seen: &mut Seen, id: BrokerId, log: &mut super::log::ModelLog) -> Verdict {
    for offset in log.checked..log.records.len() {
        let (epoch, value) = log.records[offset];
        let first = *seen.written.entry((offset, epoch)).or_insert(value);
        let noted = log.epochs.epoch_for(Offset(offset as i64));
        ensure(noted == Some(epoch), || format!("{offset} on {id} is of {epoch}, noted is {noted:?}"))?;
        ensure(first == value, || format!("offset {offset} of epoch {epoch}: {first}, and {value} on {id}"))?;
        let rises = offset == 0 || log.records[offset - 1].0 <= epoch;
        ensure(rises, || format!("epochs go back on {id}"))?;
    }
    log.checked = log.records.len();
    Ok(())
}
