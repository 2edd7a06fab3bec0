//! One server with all that it has started, and the steps by which it ends.
//!
//! Nothing is signalled but unreaped children of the guard and groups whose leader is unreaped, so a number that was
//! given to another process is never hit.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, kill_process, kill_process_group,
    test_kill_process_group, waitid, waitpid,
};

use super::{
    super::{
        ServerExit,
        deadline::MachineTime,
        process_table,
        wire::{GuardReport, HostOrder},
    },
    KILL_INTERVAL,
    mark::TreeMark,
};

/// How long each step of the ladder waits when the host asked for the stop or the server ended by itself.
const STOP_STEP: Duration = Duration::from_secs(2);

/// The same when the host is dead: all must be gone five seconds later.
const STOP_STEP_WITHOUT_HOST: Duration = Duration::from_secs(1);

/// A server and its descendants.
pub(super) struct ServerTree {
    /// `None` once the host is gone.
    host: Option<UnixStream>,
    server: Pid,
    mark: TreeMark,
    /// How the server ended. It stays unreaped until the end, so that its group's number stays taken.
    exit: Option<ServerExit>,
    phase: TreePhase,
    step: Duration,
    /// When all of it is killed, whatever its phase is.
    kill_at: Option<MachineTime>,
    /// Children of the guard outside the server's group that have had their SIGTERM.
    terminated: Vec<Pid>,
}

#[derive(Clone, Copy)]
enum TreePhase {
    /// The server runs and is wanted.
    Running,
    /// It may leave by itself, since its stdin is closed.
    Exiting {
        until: Instant,
    },
    /// All have had SIGTERM.
    Terminating {
        until: Instant,
    },
    /// All have had SIGKILL, and so will those who turn up.
    Killing {
        again: Instant,
    },
    Gone,
}

/// A child of the guard that is not a server: its parent has ended, or it has detached itself.
pub(super) struct Orphan {
    pub(super) pid: Pid,
    pub(super) mark: Option<TreeMark>,
}

impl ServerTree {
    /// The tree of a server that has just been started for `host`.
    pub(super) fn new(host: UnixStream, server: Pid, mark: TreeMark) -> Self {
        let mut tree = Self {
            host: Some(host),
            server,
            mark,
            exit: None,
            phase: TreePhase::Running,
            step: STOP_STEP,
            kill_at: None,
            terminated: Vec::new(),
        };
        let pid = server.as_raw_nonzero().get().unsigned_abs();
        tree.report(&GuardReport::Started {
            pid,
            start_time: process_table::start_time(pid).unwrap_or(0),
        });
        tree
    }

    pub(super) fn host(&self) -> Option<&UnixStream> {
        self.host.as_ref()
    }

    pub(super) fn server(&self) -> Pid {
        self.server
    }

    pub(super) fn is_ending(&self) -> bool {
        !matches!(self.phase, TreePhase::Running)
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.phase, TreePhase::Gone)
    }

    /// When to look at it again, even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let killed_at = self.kill_at.map(|time| Instant::now() + time.remaining());
        match self.phase {
            TreePhase::Exiting { until } | TreePhase::Terminating { until } => {
                Some(killed_at.map_or(until, |killed_at| killed_at.min(until)))
            }
            TreePhase::Killing { again } => Some(again),
            TreePhase::Running => killed_at,
            TreePhase::Gone => None,
        }
    }

    /// Begins to kill the tree if its time is over.
    pub(super) fn check_time(&mut self) {
        if self.kill_at.is_some_and(|time| time <= MachineTime::now()) {
            self.begin_kill();
        }
    }

    /// Reads from the host's socket, which is ready: an order, or the host's end.
    pub(super) fn read_host(&mut self) {
        match self.host.as_ref().map(HostOrder::receive) {
            Some(Ok(HostOrder::Stop)) => self.begin_stop(STOP_STEP),
            Some(Ok(HostOrder::Kill)) => self.begin_kill(),
            Some(Ok(HostOrder::KillAt(time))) => self.kill_at = Some(time),
            Some(Err(_)) | None => {
                self.host = None;
                self.begin_stop(STOP_STEP_WITHOUT_HOST);
            }
        }
    }

    /// Takes note if the server has ended. It is looked at but not reaped.
    pub(super) fn check_server(&mut self) {
        if self.exit.is_some() {
            return;
        }
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.server), look) {
            let exit = ServerExit::from_wait(status.exit_status(), status.terminating_signal());
            self.exit = Some(exit);
            self.report(&GuardReport::Exited(exit));
            self.begin_stop(STOP_STEP);
        }
    }

    /// Begins to end the tree, unless that has begun.
    fn begin_stop(&mut self, step: Duration) {
        if !self.is_ending() {
            self.step = step;
            self.phase = TreePhase::Exiting {
                until: Instant::now() + step,
            };
        }
    }

    /// Begins to kill the tree, unless that has begun.
    fn begin_kill(&mut self) {
        if !matches!(self.phase, TreePhase::Killing { .. } | TreePhase::Gone) {
            self.phase = TreePhase::Killing {
                again: Instant::now(),
            };
        }
    }

    /// Whether it can go a step further, or has to look for processes to signal. Not while its server may leave by
    /// itself.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        match self.phase {
            TreePhase::Exiting { until } => self.exit.is_some() || now >= until,
            TreePhase::Terminating { .. } | TreePhase::Killing { .. } => true,
            TreePhase::Running | TreePhase::Gone => false,
        }
    }

    /// Goes as far towards the end as can be done without waiting.
    pub(super) fn advance(&mut self, now: Instant, strays: &[Orphan]) {
        if !self.is_due(now) {
            return;
        }
        let has_ended = self.has_ended(strays);
        loop {
            self.phase = match self.phase {
                TreePhase::Exiting { .. } if has_ended => TreePhase::Killing { again: now },
                TreePhase::Exiting { .. } => {
                    let _ = kill_process_group(self.server, Signal::TERM);
                    TreePhase::Terminating {
                        until: now + self.step,
                    }
                }
                TreePhase::Terminating { until } if !has_ended && now < until => {
                    return self.terminate(strays);
                }
                TreePhase::Terminating { .. } => TreePhase::Killing { again: now },
                TreePhase::Killing { .. } if has_ended => {
                    self.reap();
                    TreePhase::Gone
                }
                TreePhase::Killing { again } if now < again => return,
                TreePhase::Killing { .. } => {
                    self.kill(strays);
                    self.phase = TreePhase::Killing {
                        again: now + KILL_INTERVAL,
                    };
                    return;
                }
                TreePhase::Running | TreePhase::Gone => return,
            };
        }
    }

    /// Asks those outside the group to end, once each.
    fn terminate(&mut self, strays: &[Orphan]) {
        for pid in self.own_orphans(strays) {
            let in_group = getpgid(Some(pid)) == Ok(self.server);
            if !in_group && !self.terminated.contains(&pid) {
                let _ = kill_process(pid, Signal::TERM);
                self.terminated.push(pid);
            }
        }
    }

    fn kill(&self, strays: &[Orphan]) {
        let _ = kill_process_group(self.server, Signal::KILL);
        for pid in self.own_orphans(strays) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Frees the server's pid, once whoever is left in its group has been killed.
    fn reap(&mut self) {
        let _ = kill_process_group(self.server, Signal::KILL);
        let _ = waitpid(Some(self.server), WaitOptions::NOHANG);
        self.report(&GuardReport::Gone);
    }

    /// Forgets a child that was reaped: its pid may be given to another one.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.terminated.retain(|child| *child != pid);
    }

    /// Whether the server has ended and nobody else is left.
    fn has_ended(&self, strays: &[Orphan]) -> bool {
        let others = if cfg!(target_os = "linux") {
            !self.own_orphans(strays).is_empty()
        } else {
            // Without marks the group is all that can be asked about.
            test_kill_process_group(self.server).is_ok()
        };
        self.exit.is_some() && !others
    }

    /// Strays of this tree. Those that another guard has marked may be, if the server was a host itself.
    fn own_orphans(&self, strays: &[Orphan]) -> Vec<Pid> {
        let is_own = |mark: TreeMark| mark == self.mark || !mark.same_guard(self.mark);
        strays
            .iter()
            .filter(|stray| stray.mark.is_some_and(is_own))
            .map(|stray| stray.pid)
            .collect()
    }

    fn report(&mut self, report: &GuardReport) {
        if let Some(host) = &mut self.host {
            // A host that is gone shows on the next read.
            let _ = host.write_all(&report.to_line());
        }
    }
}
