//! Self-test of the isolation: of two temporary tenants, one tries to reach the other's files and processes and those
//! of the Hub. Each attempt is a process that confines itself as an agent does.

use std::{
    fs, io,
    os::{
        fd::AsFd,
        unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use hermes_hub::{
    TenantId,
    tenants::runtime::{AgentLaunch, Directives, ResourceLimits},
};

use super::{
    environment, handover,
    handover::AgentKeys,
    isolation::{ConfinementMode, IsolationDecision, LaunchPaths, decide_isolation},
    process_runtime::ProcessRuntimeSetup,
    socket::{AgentSockets, listen_private_routes},
    users,
    users::TenantUsers,
};
use crate::embedded_hub::runtime::launcher::ProcessRights;

/// Timeout of an attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What must not be read.
const SECRET: &str = "must-not-be-seen";

/// Seen from a tenant's home, since the paths of sockets must be short: where the other agent listens, and the Hub.
const OTHER_AGENT_SOCKET: &str = "../../../run/other.sock";
const HUB_SOCKET: &str = "../../../internal/hub.sock";

/// The first version of Landlock that covers sockets in the file system.
const SOCKET_ABI: u32 = 9;

/// What was tried, and whether it worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelftestAttempt {
    pub what: String,
    pub outcome: AttemptOutcome,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A tenant can do what it must be able to do.
    Allowed,
    Denied,
    /// It reached a socket that this kernel cannot close to it. Nothing is said there without a key.
    ProtectedByKey,
    /// It reached something that is not its own.
    Breached,
    /// It cannot even use its own home.
    Unusable,
}

impl AttemptOutcome {
    /// Whether this is as it should be.
    pub fn is_expected(self) -> bool {
        matches!(self, Self::Allowed | Self::Denied | Self::ProtectedByKey)
    }
}

/// Tries everything, with these settings, in a directory of the Hub's that is empty.
pub fn run_selftest(
    setup: &ProcessRuntimeSetup,
    directory: &Path,
) -> io::Result<Vec<SelftestAttempt>> {
    let base = SelftestDir::create(directory)?;
    let sockets = SelftestSockets::open(setup, directory)?;
    let intruder = base.tenant(setup, "intruder", &sockets)?;
    let other = base.tenant(setup, "other", &sockets)?;
    let mut victim = VictimProcess::start(setup, &other)?;
    let own_home = "cat secret.txt && echo new > made.txt".to_owned();
    let mut attempts = Vec::new();
    for (what, way) in [
        ("use its own home", AttemptMethod::Script(own_home)),
        ("ask the Hub", AttemptMethod::Connect(HUB_SOCKET.into())),
    ] {
        let outcome = if intruder.succeeds(setup, &way)? {
            AttemptOutcome::Allowed
        } else {
            AttemptOutcome::Unusable
        };
        let what = what.to_owned();
        attempts.push(SelftestAttempt { what, outcome });
    }
    let scripts = base.attempts(&other.home, victim.pid());
    let scripts = scripts
        .into_iter()
        .map(|(what, script)| (what, AttemptMethod::Script(script)));
    for (what, way) in scripts.chain(sockets.attempts()) {
        let outcome = if !intruder.succeeds(setup, &way)? {
            AttemptOutcome::Denied
        } else if way == AttemptMethod::Connect(OTHER_AGENT_SOCKET.into())
            && cannot_close_sockets(setup)
        {
            AttemptOutcome::ProtectedByKey
        } else {
            AttemptOutcome::Breached
        };
        let what = what.to_owned();
        attempts.push(SelftestAttempt { what, outcome });
    }
    victim.kill();
    Ok(attempts)
}

/// Whether tenants of one user cannot be kept from each other's sockets: Landlock covers them only of late.
fn cannot_close_sockets(setup: &ProcessRuntimeSetup) -> bool {
    setup.isolation.mode != ConfinementMode::Off
        && setup
            .support
            .landlock
            .is_none_or(|level| level < SOCKET_ABI)
}

/// Something that is tried. It worked if its process ends well.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AttemptMethod {
    /// Commands of a shell.
    Script(String),
    /// Connecting to a socket.
    Connect(String),
}

/// Sockets as a Hub has them, and one without a path.
struct SelftestSockets {
    private: PathBuf,
    #[cfg(target_os = "linux")]
    name: String,
    _listeners: Vec<UnixListener>,
    _sockets: AgentSockets,
}

impl SelftestSockets {
    fn open(setup: &ProcessRuntimeSetup, root: &Path) -> io::Result<Self> {
        let sockets = AgentSockets::in_directory(root.join("run"))?;
        let other = TenantId::parse("other").map_err(io::Error::other)?;
        let (agents, _) = sockets.listen(&other)?;
        let (hubs, private) = listen_private_routes(root, setup.callers())?;
        let mut listeners = vec![agents, hubs];
        #[cfg(target_os = "linux")]
        let name = {
            use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
            let name = format!("hermes-trial-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name)?;
            listeners.push(UnixListener::bind_addr(&address)?);
            name
        };
        Ok(Self {
            private,
            #[cfg(target_os = "linux")]
            name,
            _listeners: listeners,
            _sockets: sockets,
        })
    }

    fn attempts(&self) -> Vec<(&'static str, AttemptMethod)> {
        vec![
            (
                "reach another agent's socket",
                AttemptMethod::Connect(OTHER_AGENT_SOCKET.into()),
            ),
            #[cfg(target_os = "linux")]
            (
                "reach a socket without a path",
                AttemptMethod::Connect(format!("@{}", self.name)),
            ),
        ]
    }
}

/// A directory that looks like a Hub's.
struct SelftestDir {
    root: PathBuf,
}

impl SelftestDir {
    fn create(root: &Path) -> io::Result<Self> {
        for directory in ["tenants", "shares", "shares/division"] {
            fs::create_dir(root.join(directory))?;
            set_mode(&root.join(directory), 0o700)?;
        }
        for file in [
            "hub.db",
            "secret.key",
            "admin.token",
            "shares/division/a.md",
        ] {
            fs::write(root.join(file), SECRET)?;
            set_mode(&root.join(file), 0o600)?;
        }
        Ok(Self { root: root.into() })
    }

    fn tenant(
        &self,
        setup: &ProcessRuntimeSetup,
        name: &str,
        sockets: &SelftestSockets,
    ) -> io::Result<SelftestTenant> {
        let home = self.root.join("tenants").join(name).join("home");
        for directory in environment::directories(&home) {
            fs::create_dir_all(directory)?;
        }
        set_mode(&home, 0o700)?;
        fs::write(home.join("secret.txt"), SECRET)?;
        set_mode(&home.join("secret.txt"), 0o600)?;
        let launch = AgentLaunch {
            tenant: TenantId::parse(name).map_err(io::Error::other)?,
            home: home.clone(),
            runtime_key: SECRET.to_owned().into(),
            env: std::collections::BTreeMap::new(),
            teams: Vec::new(),
            timezone: "UTC".into(),
            limits: ResourceLimits {
                memory_bytes: 1 << 30,
                pids: 256,
                cpu: 1.0,
            },
            directives: Directives::default(),
        };
        // The last numbers of the range: the first ones may be those of real tenants.
        let last = *setup.isolation.users.end();
        let range = last.saturating_sub(1)..=last;
        let paths = LaunchPaths {
            program: &setup.agent,
            arguments: &[],
            data_dir: &setup.data_dir,
            sockets: std::slice::from_ref(&sockets.private),
            users: &TenantUsers::new(self.root.join("users.json"), range),
        };
        let decided = decide_isolation(&setup.isolation, &setup.support, &launch, &paths)
            .map_err(|error| io::Error::other(error.to_string()))?;
        if let ProcessRights::Own(user) = decided.plan.rights {
            users::chown_tree(&home, user)?;
        }
        Ok(SelftestTenant { home, decided })
    }

    /// What is tried, as a script that ends well if it worked.
    fn attempts(&self, home: &Path, pid: u32) -> Vec<(&'static str, String)> {
        let (root, home) = (quoted(&self.root), quoted(home));
        vec![
            (
                "read another tenant's file",
                format!("cat {home}/secret.txt"),
            ),
            ("list another tenant's home", format!("ls {home}/")),
            (
                "write into another tenant's home",
                format!("echo x > {home}/planted.txt"),
            ),
            (
                "remove another tenant's file",
                format!("rm -f {home}/secret.txt && ! test -e {home}/secret.txt"),
            ),
            (
                "move a file into another tenant's home",
                format!("echo x > mine.txt && mv mine.txt {home}/moved.txt"),
            ),
            (
                "read through a link to another tenant's file",
                format!("ln -sf {home}/secret.txt soft && cat soft"),
            ),
            (
                "give another tenant's file a name of its own",
                format!("ln {home}/secret.txt hard && cat hard"),
            ),
            ("read the Hub's database", format!("cat {root}/hub.db")),
            (
                "read the Hub's secret key",
                format!("cat {root}/secret.key"),
            ),
            (
                "read the Hub's admin token",
                format!("cat {root}/admin.token"),
            ),
            (
                "write into the Hub's directory",
                format!("echo x > {root}/planted.txt"),
            ),
            ("list the tenants", format!("ls {root}/tenants")),
            (
                "read a share past the Hub",
                format!("cat {root}/shares/division/a.md"),
            ),
            (
                "write to a share past the Hub",
                format!("echo x > {root}/shares/division/b.md"),
            ),
            (
                "read another agent's environment",
                format!("cat /proc/{pid}/environ | grep -q ."),
            ),
            (
                "reach another agent's files through its process",
                format!("cat /proc/{pid}/cwd/../secret.txt"),
            ),
            (
                "see another agent's open files",
                // Their numbers can be listed where both have one user, and say nothing.
                format!("readlink /proc/{pid}/fd/* | grep -q ."),
            ),
            (
                "read another agent's memory",
                format!("head -c 1 /proc/{pid}/mem || cat /proc/{pid}/maps | grep -q ."),
            ),
            ("signal another agent", format!("kill -0 {pid}")),
        ]
    }
}

/// As the Hub makes its own.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// A path as a word of the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

struct SelftestTenant {
    home: PathBuf,
    decided: IsolationDecision,
}

impl SelftestTenant {
    /// A process of this tenant that tries something.
    fn command(&self, setup: &ProcessRuntimeSetup, way: &AttemptMethod) -> io::Result<Command> {
        // An agent gets the socket it listens on; here any socket does.
        let (socket, _) = UnixStream::pair()?;
        let keys = AgentKeys {
            runtime_key: SECRET.to_owned(),
            ..AgentKeys::default()
        };
        let handed = handover::send_files(socket.as_fd(), &keys.into_file()?)?;
        let mut plan = self.decided.plan.clone();
        plan.arguments = match way {
            AttemptMethod::Script(script) => {
                plan.program = "/bin/sh".into();
                vec!["-c".into(), script.clone()]
            }
            AttemptMethod::Connect(to) => {
                vec![
                    crate::embedded_hub::runtime::connect_check::ARGUMENT.into(),
                    to.clone(),
                ]
            }
        };
        let mut command = Command::new(&setup.program);
        command
            .arg(super::launcher::ARGUMENT)
            .arg(serde_json::to_string(&plan)?)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HERMES_TRIAL", SECRET)
            .current_dir(&self.home)
            .stdin(Stdio::from(handed))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Ok(command)
    }

    fn succeeds(&self, setup: &ProcessRuntimeSetup, way: &AttemptMethod) -> io::Result<bool> {
        let mut child = self.command(setup, way)?.spawn()?;
        let deadline = Instant::now() + ATTEMPT_TIMEOUT;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
            }
            thread::sleep(POLL_INTERVAL);
        }
        let output = child.wait_with_output()?;
        refuse_failed_launch(&output)?;
        Ok(output.status.success())
    }
}

/// A process that could not confine itself has tried nothing.
fn refuse_failed_launch(output: &Output) -> io::Result<()> {
    let told = String::from_utf8_lossy(&output.stderr);
    let steps = [
        "sandbox:",
        "user rights:",
        "resource limits:",
        "no_new_privs:",
        "`/",
    ];
    match told
        .lines()
        .find(|line| steps.iter().any(|step| line.starts_with(step)))
    {
        Some(line) => Err(io::Error::other(line.to_owned())),
        None => Ok(()),
    }
}

/// The other tenant's agent, as far as others can tell.
struct VictimProcess(Child);

impl VictimProcess {
    fn start(setup: &ProcessRuntimeSetup, tenant: &SelftestTenant) -> io::Result<Self> {
        let mut command = tenant.command(setup, &AttemptMethod::Script("exec sleep 300".into()))?;
        let victim = Self(command.stderr(Stdio::null()).spawn()?);
        let deadline = Instant::now() + ATTEMPT_TIMEOUT;
        let name = format!("/proc/{}/comm", victim.pid());
        // Before it has confined itself it is not what an agent is.
        while Path::new("/proc/self").exists()
            && !fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")
        {
            if Instant::now() > deadline {
                return Err(io::Error::other("a tenant's process does not start"));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(victim)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for VictimProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
