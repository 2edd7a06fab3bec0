//! A directory like a Hub's with two tenants: one that tries things, and one whose agent runs.

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
    tenants::runtime::{AgentLaunch, ResourceLimits},
};
use hermes_protocol::{Directives, Policy};

use super::{
    super::{
        environment, handover,
        handover::AgentKeys,
        isolation::{IsolationDecision, LaunchPaths, decide_isolation},
        launcher,
        launcher::ProcessRights,
        process_runtime::ProcessRuntimeSetup,
        socket::{AgentSockets, listen_private_routes},
        users,
        users::TenantUsers,
    },
    CONNECT_ARGUMENT,
    probes::{HUB_VARIABLE, OTHER_VARIABLE, PID_VARIABLE, ProbeMethod},
};

/// Timeout of an attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What must not be read.
const SECRET: &str = "must-not-be-seen";

pub(super) struct TemporaryHub<'a> {
    setup: &'a ProcessRuntimeSetup,
    root: &'a Path,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux has sockets without a path")
    )]
    sockets: TemporarySockets,
    intruder: TemporaryTenant,
    other: TemporaryTenant,
    /// The other tenant's agent, as far as others can tell.
    agent: Child,
}

impl<'a> TemporaryHub<'a> {
    pub(super) fn start(setup: &'a ProcessRuntimeSetup, root: &'a Path) -> io::Result<Self> {
        create_files(root)?;
        let sockets = TemporarySockets::open(setup, root)?;
        let intruder = TemporaryTenant::create(setup, root, "intruder", &sockets)?;
        let other = TemporaryTenant::create(setup, root, "other", &sockets)?;
        let agent = other
            .command(setup, "/bin/sh".into(), &["-c", "exec sleep 300"])?
            .stderr(Stdio::null())
            .spawn()?;
        let hub = Self {
            setup,
            root,
            sockets,
            intruder,
            other,
            agent,
        };
        hub.wait_for_agent()?;
        Ok(hub)
    }

    /// Before it has confined itself it is not what an agent is.
    fn wait_for_agent(&self) -> io::Result<()> {
        let deadline = Instant::now() + ATTEMPT_TIMEOUT;
        let name = format!("/proc/{}/comm", self.agent.id());
        while Path::new("/proc/self").exists()
            && !fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")
        {
            if Instant::now() > deadline {
                return Err(io::Error::other("a tenant's process does not start"));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Whether the first tenant can do that.
    pub(super) fn succeeds(&self, method: ProbeMethod) -> io::Result<bool> {
        let (program, arguments) = match method {
            ProbeMethod::Script(script) => ("/bin/sh".into(), ["-c", script]),
            ProbeMethod::Socket(path) => (self.setup.agent.clone(), [CONNECT_ARGUMENT, path]),
            #[cfg(target_os = "linux")]
            ProbeMethod::AbstractSocket => {
                let address = self.sockets.abstract_address.as_str();
                (self.setup.agent.clone(), [CONNECT_ARGUMENT, address])
            }
        };
        let mut child = self
            .intruder
            .command(self.setup, program, &arguments)?
            .env(OTHER_VARIABLE, &self.other.home)
            .env(PID_VARIABLE, self.agent.id().to_string())
            .env(HUB_VARIABLE, self.root)
            .spawn()?;
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

impl Drop for TemporaryHub<'_> {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

/// Sockets as a Hub has them, and one without a path.
struct TemporarySockets {
    private: PathBuf,
    #[cfg(target_os = "linux")]
    abstract_address: String,
    _listeners: Vec<UnixListener>,
    _sockets: AgentSockets,
}

impl TemporarySockets {
    fn open(setup: &ProcessRuntimeSetup, root: &Path) -> io::Result<Self> {
        let sockets = AgentSockets::in_directory(root.join("run"))?;
        let other = TenantId::parse("other").map_err(io::Error::other)?;
        let (agents, _) = sockets.listen(&other)?;
        let (hubs, private) = listen_private_routes(root, setup.callers())?;
        let mut listeners = vec![agents, hubs];
        #[cfg(target_os = "linux")]
        let abstract_address = {
            use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
            let name = format!("hermes-selftest-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name)?;
            listeners.push(UnixListener::bind_addr(&address)?);
            format!("@{name}")
        };
        Ok(Self {
            private,
            #[cfg(target_os = "linux")]
            abstract_address,
            _listeners: listeners,
            _sockets: sockets,
        })
    }
}

/// Files of a Hub.
fn create_files(root: &Path) -> io::Result<()> {
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
    Ok(())
}

/// As the Hub makes its own.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

struct TemporaryTenant {
    home: PathBuf,
    decided: IsolationDecision,
}

impl TemporaryTenant {
    fn create(
        setup: &ProcessRuntimeSetup,
        root: &Path,
        name: &str,
        sockets: &TemporarySockets,
    ) -> io::Result<Self> {
        let home = root.join("tenants").join(name).join("home");
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
            directives: Directives::new(Policy::closed()),
        };
        // The last numbers of the range: the first ones may be those of real tenants.
        let last = *setup.isolation.users.end();
        let range = last.saturating_sub(1)..=last;
        let paths = LaunchPaths {
            program: &setup.agent,
            arguments: &[],
            data_dir: &setup.data_dir,
            sockets: std::slice::from_ref(&sockets.private),
            users: &TenantUsers::new(root.join("users.json"), range),
        };
        let decided = decide_isolation(&setup.isolation, &setup.support, &launch, &paths)
            .map_err(|error| io::Error::other(error.to_string()))?;
        if let ProcessRights::Own(user) = decided.plan.rights {
            users::chown_tree(&home, user)?;
        }
        Ok(Self { home, decided })
    }

    /// A process of this tenant, confined as its agent would be.
    fn command(
        &self,
        setup: &ProcessRuntimeSetup,
        program: PathBuf,
        arguments: &[&str],
    ) -> io::Result<Command> {
        // An agent gets the socket it listens on; here any socket does.
        let (socket, _) = UnixStream::pair()?;
        let keys = AgentKeys {
            runtime_key: SECRET.to_owned(),
            ..AgentKeys::default()
        };
        let handed = handover::send_files(socket.as_fd(), &keys.into_file()?)?;
        let mut plan = self.decided.plan.clone();
        plan.program = program;
        plan.arguments = arguments.iter().map(ToString::to_string).collect();
        let mut command = Command::new(&setup.program);
        command
            .arg(launcher::ARGUMENT)
            .arg(serde_json::to_string(&plan)?)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HERMES_SELFTEST", SECRET)
            .current_dir(&self.home)
            .stdin(Stdio::from(handed))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Ok(command)
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
