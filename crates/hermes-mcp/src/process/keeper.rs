//! The keeper: parent of one server, and the one who sees to it that nothing of its tree stays behind.
//!
//! It is forked by the guard and talks to the host over a socket of its own. It signals nothing but its own unreaped
//! children and the group whose leader it has not reaped, so a number that was given to another process is never hit.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, kill_process, kill_process_group,
        wait, waitid, waitpid,
    },
};

use super::{
    Exit, guard, process_table,
    wire::{self, Report, Request},
};

/// How long each step of the ladder waits when the host asked for the stop or the server ended by itself.
const STEP: Duration = Duration::from_secs(2);

/// The same when the host is dead: all must be gone five seconds later.
const STEP_WITHOUT_HOST: Duration = Duration::from_secs(1);

/// How long to wait between two rounds of SIGKILL.
const KILL_ROUND: Duration = Duration::from_millis(20);

/// Starts the server that `host` describes and stays until nothing of its tree is left.
pub(super) fn run(mut host: UnixStream) -> io::Result<()> {
    guard::name_process(c"mcp-keeper");
    // Its own group: whatever is sent to the guard's group is not for keepers.
    let _ = rustix::process::setpgid(None, None);
    let (request, files) = receive_request(&mut host)?;
    match start(&request, files) {
        Ok((server, signals)) => {
            let pid = server.as_raw_nonzero().get();
            let mut keeper = Keeper {
                host: Some(host),
                signals,
                server,
                exit: None,
                asked: Vec::new(),
            };
            keeper.report(&Report::Started {
                pid: pid.cast_unsigned(),
                start_time: process_table::start_time(pid.cast_unsigned()).unwrap_or(0),
            });
            keeper.keep();
            Ok(())
        }
        Err(error) => host.write_all(&Report::failed(&error).line()),
    }
}

fn receive_request(host: &mut UnixStream) -> io::Result<(Request, [OwnedFd; wire::STDIO_COUNT])> {
    let mut length = wire::RequestLength::default();
    let (count, files) = wire::receive_with_files(host.as_fd(), &mut length)?;
    let stdio = <[OwnedFd; wire::STDIO_COUNT]>::try_from(files)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    host.read_exact(&mut length[count..])?;
    let length = usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX);
    let mut body = vec![0; length];
    host.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, stdio))
}

/// Starts the server; the socket becomes readable whenever a child ends.
fn start(request: &Request, files: [OwnedFd; wire::STDIO_COUNT]) -> io::Result<(Pid, UnixStream)> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (signals, wake) = UnixStream::pair()?;
    signals.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(libc::SIGCHLD, wake)?;

    let [stdin, stdout, stderr] = files.map(Stdio::from);
    let mut command = Command::new(&request.program);
    command
        .args(&request.args)
        .env_clear()
        .envs(request.environment.iter().map(|(key, value)| (key, value)))
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    if let Some(cwd) = &request.cwd {
        command.current_dir(cwd);
    }
    prepare_child(&mut command);
    // Leaving this function drops `command`, and with it the keeper's copies of stdin, stdout and stderr.
    let server = command.spawn()?;
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or(io::ErrorKind::InvalidData)?, signals))
}

/// Between fork and exec: all signals as a program expects them, and death together with the keeper.
#[expect(unsafe_code, reason = "pre_exec and signal have no safe form")]
fn prepare_child(command: &mut Command) {
    #[cfg(target_os = "linux")]
    let keeper = rustix::process::getpid();
    let prepare = move || {
        for signal in 1..=last_signal() {
            // SAFETY: SIG_DFL is a valid disposition; numbers that cannot be set are refused without effect.
            let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(keeper) {
                return Err(rustix::io::Errno::SRCH.into());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes plain system calls only, and neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(target_os = "linux")]
fn last_signal() -> i32 {
    libc::SIGRTMAX()
}

#[cfg(not(target_os = "linux"))]
fn last_signal() -> i32 {
    31
}

struct Keeper {
    /// `None` once the host is gone.
    host: Option<UnixStream>,
    signals: UnixStream,
    server: Pid,
    /// How the server ended. It stays unreaped until the end, so that its group's number stays taken.
    exit: Option<Exit>,
    /// Children outside the server's group that have had their SIGTERM.
    asked: Vec<Pid>,
}

enum Event {
    StopAsked,
    HostGone,
    ChildEnded,
    TimeUp,
}

impl Keeper {
    /// Runs until nothing is left of the tree.
    fn keep(&mut self) {
        let step = loop {
            match self.next_event(None) {
                Event::HostGone => break STEP_WITHOUT_HOST,
                Event::StopAsked => break STEP,
                Event::ChildEnded if self.exit.is_some() => break STEP,
                Event::ChildEnded | Event::TimeUp => {}
            }
        };
        self.wait_until(step, |keeper| keeper.exit.is_some());
        self.terminate(step);
        self.kill();
        self.report(&Report::Gone);
    }

    /// Asks the group, and whatever fell to the keeper from outside it, to end.
    fn terminate(&mut self, step: Duration) {
        if self.tree_has_ended() {
            return;
        }
        let _ = kill_process_group(self.server, Signal::TERM);
        self.wait_until(step, |keeper| {
            keeper.terminate_strays();
            keeper.tree_has_ended()
        });
    }

    fn terminate_strays(&mut self) {
        for pid in self.other_children() {
            let in_group = getpgid(Some(pid)) == Ok(self.server);
            if !in_group && !self.asked.contains(&pid) {
                let _ = kill_process(pid, Signal::TERM);
                self.asked.push(pid);
            }
        }
    }

    /// Kills until there is no child left. Each round may turn further descendants into children.
    fn kill(&mut self) {
        let _ = kill_process_group(self.server, Signal::KILL);
        loop {
            for pid in process_table::own_children() {
                let _ = kill_process(pid, Signal::KILL);
            }
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if pid == self.server => {
                        self.note_exit(Exit::from_wait(
                            status.exit_status(),
                            status.terminating_signal(),
                        ));
                    }
                    Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            self.sleep(KILL_ROUND);
        }
    }

    /// Handles events until `done`, but no longer than `limit`.
    fn wait_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + limit;
        while !done(self) {
            if matches!(self.next_event(Some(deadline)), Event::TimeUp) {
                return;
            }
        }
    }

    fn next_event(&mut self, deadline: Option<Instant>) -> Event {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Event::TimeUp;
            }
            match self.poll(left) {
                Ready::Signals => {
                    self.reap();
                    return Event::ChildEnded;
                }
                Ready::Host => return self.hear_host(),
                Ready::Nothing => {}
            }
        }
    }

    fn poll(&self, limit: Option<Duration>) -> Ready {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut waiting = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(host) = &self.host {
            waiting.push(PollFd::new(host, PollFlags::IN));
        }
        if poll(&mut waiting, limit.as_ref()).is_err() {
            return Ready::Nothing;
        }
        let ready = |index: usize| waiting.get(index).is_some_and(|w| !w.revents().is_empty());
        match (ready(0), ready(1)) {
            (true, _) => Ready::Signals,
            (false, true) => Ready::Host,
            (false, false) => Ready::Nothing,
        }
    }

    fn hear_host(&mut self) -> Event {
        let heard = self.host.as_ref().map(|mut host| host.read(&mut [0; 1]));
        if let Some(Ok(1..)) = heard {
            Event::StopAsked
        } else {
            self.host = None;
            Event::HostGone
        }
    }

    /// Takes note of ended children. The server is looked at but not reaped.
    fn reap(&mut self) {
        self.drain_signals();
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.server), look) {
            self.note_exit(Exit::from_wait(
                status.exit_status(),
                status.terminating_signal(),
            ));
        }
        for pid in self.other_children() {
            if matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))) {
                self.asked.retain(|asked| *asked != pid);
            }
        }
    }

    fn note_exit(&mut self, exit: Exit) {
        if self.exit.is_none() {
            self.exit = Some(exit);
            self.report(&Report::Exited(exit));
        }
    }

    fn report(&mut self, report: &Report) {
        if let Some(host) = &mut self.host {
            // A host that is gone shows on the next read.
            let _ = host.write_all(&report.line());
        }
    }

    fn other_children(&self) -> Vec<Pid> {
        let mut children = process_table::own_children();
        children.retain(|pid| *pid != self.server);
        children
    }

    /// Whether the server has ended and nobody else is left.
    fn tree_has_ended(&self) -> bool {
        // Without a subreaper the group is all that can be asked about.
        #[cfg(not(target_os = "linux"))]
        let others = rustix::process::test_kill_process_group(self.server).is_ok();
        #[cfg(target_os = "linux")]
        let others = !self.other_children().is_empty();
        self.exit.is_some() && !others
    }

    fn sleep(&self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let _ = poll(
            &mut [PollFd::new(&self.signals, PollFlags::IN)],
            limit.as_ref(),
        );
        self.drain_signals();
    }

    fn drain_signals(&self) {
        while matches!((&self.signals).read(&mut [0; 64]), Ok(1..)) {}
    }
}

enum Ready {
    Signals,
    Host,
    Nothing,
}
