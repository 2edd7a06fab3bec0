//! The event loop of the guard: it receives orders from the host, reaps ended processes, and stops process trees.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, WaitOptions, kill_process, waitpid},
};

use super::{
    super::{process_table, wire, wire::GuardReport},
    mark::TreeMark,
    tree::{Orphan, ServerTree},
};
use crate::process::guard::launch;

/// Serves the host until it has closed its socket and no server is left.
pub(super) fn run_event_loop(host: OwnedFd) -> io::Result<()> {
    let (signals, wake) = UnixStream::pair()?;
    signals.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(libc::SIGCHLD, wake)?;
    let mut serving = GuardLoop {
        host: Some(host),
        signals,
        trees: Vec::new(),
        started: 0,
        has_ended_children: false,
    };
    while serving.host.is_some() || !serving.trees.is_empty() {
        serving.wait_for_event();
        serving.advance();
    }
    Ok(())
}

struct GuardLoop {
    /// Where orders come from; `None` once the host has closed it.
    host: Option<OwnedFd>,
    /// Readable whenever a child has ended.
    signals: UnixStream,
    trees: Vec<ServerTree>,
    /// How many orders there were so far.
    started: u32,
    /// Whether a child has ended since the last look at orphans.
    has_ended_children: bool,
}

impl GuardLoop {
    /// Waits until something happens, and deals with it.
    fn wait_for_event(&mut self) {
        let deadline = self.trees.iter().filter_map(ServerTree::deadline).min();
        let limit = deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            .and_then(|limit| Timespec::try_from(limit).ok());
        let (children_ended, order_came, readable) = {
            let mut waiting = vec![PollFd::new(&self.signals, PollFlags::IN)];
            waiting.extend(
                self.host
                    .iter()
                    .map(|host| PollFd::new(host, PollFlags::IN)),
            );
            let with_host = waiting.len();
            let speaking = || {
                let trees = self.trees.iter().enumerate();
                trees.filter_map(|(index, tree)| Some((index, tree.host()?)))
            };
            waiting.extend(speaking().map(|(_, host)| PollFd::new(host, PollFlags::IN)));
            if poll(&mut waiting, limit.as_ref()).is_err() {
                return;
            }
            let ready = |waiting: &PollFd<'_>| !waiting.revents().is_empty();
            let readable: Vec<usize> = speaking()
                .zip(&waiting[with_host..])
                .filter_map(|((index, _), waiting)| ready(waiting).then_some(index))
                .collect();
            (
                ready(&waiting[0]),
                waiting[1..with_host].iter().any(ready),
                readable,
            )
        };
        if children_ended {
            self.check_servers();
        }
        for index in readable {
            self.trees[index].read_host();
        }
        if order_came {
            self.receive_order();
        }
    }

    /// Takes one order: the guard's end of a socket over which the host says what to start.
    fn receive_order(&mut self) {
        let Some(host) = &self.host else { return };
        let mut order = wire::NEW_SERVER_BYTE;
        match wire::receive_with_files(host.as_fd(), &mut order) {
            Ok((1.., sockets)) => {
                for socket in sockets {
                    self.start(UnixStream::from(socket));
                }
            }
            Ok(_) | Err(_) => self.host = None,
        }
    }

    fn start(&mut self, mut host: UnixStream) {
        self.started = self.started.wrapping_add(1);
        let mark = TreeMark::new(self.started);
        match launch::launch_server(&mut host, mark) {
            Ok(server) => self.trees.push(ServerTree::new(host, server, mark)),
            Err(error) => {
                // The host may have gone away, and then nobody needs to know.
                let _ = host.write_all(&GuardReport::from_error(&error).to_line());
            }
        }
    }

    /// Takes note of ended servers. All that ended since the last look are seen at once, however many signals came.
    fn check_servers(&mut self) {
        while matches!((&self.signals).read(&mut [0; 64]), Ok(1..)) {}
        for tree in &mut self.trees {
            tree.check_server();
        }
        self.has_ended_children = true;
    }

    /// Reaps what has ended besides servers, and takes trees that are to end a step further. The process table is read
    /// once for all of them, and not at all while they are only waited for.
    fn advance(&mut self) {
        for tree in &mut self.trees {
            tree.check_time();
        }
        let now = Instant::now();
        let has_ended_children = std::mem::take(&mut self.has_ended_children);
        if !has_ended_children && !self.trees.iter().any(|tree| tree.is_due(now)) {
            return;
        }
        let strays = self.reap_orphans();
        if has_ended_children {
            kill_foreign_orphans(&strays);
        }
        for tree in &mut self.trees {
            tree.advance(now, &strays);
        }
        self.trees.retain(|tree| !tree.is_gone());
    }

    /// Reaps the children that are not servers, and returns those that are left.
    ///
    /// The list is read after ended servers were noted, and again if any child was reaped: whoever ended has left its
    /// children to the guard before, but perhaps after the list was read.
    fn reap_orphans(&mut self) -> Vec<Orphan> {
        let mut children = self.other_children();
        let mut has_reaped = false;
        for pid in &children {
            if matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_))) {
                has_reaped = true;
                for tree in &mut self.trees {
                    tree.forget(*pid);
                }
            }
        }
        if has_reaped {
            children = self.other_children();
        }
        let with_mark = |pid| Orphan {
            pid,
            mark: TreeMark::read_from(pid),
        };
        children.into_iter().map(with_mark).collect()
    }

    /// The children that are not servers.
    fn other_children(&self) -> Vec<Pid> {
        let mut children = process_table::own_children();
        children.retain(|pid| self.trees.iter().all(|tree| tree.server() != *pid));
        children
    }
}

/// A server may be a host with a guard of its own. If that one was killed, nobody asks for what it guarded.
fn kill_foreign_orphans(strays: &[Orphan]) {
    let own = TreeMark::new(0);
    for stray in strays {
        if stray.mark.is_some_and(|mark| !mark.same_guard(own)) {
            let _ = kill_process(stray.pid, Signal::KILL);
        }
    }
}
