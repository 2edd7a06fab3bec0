//! A cluster in a temporary directory.

#![allow(
    clippy::expect_used,
    reason = "a test without its equipment ends here, and says which part of it"
)]

use std::{
    fs::{self, File},
    io,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::fs::{FlockOperation, flock};

use crate::ReservedPort;

/// Where the programs of PostgreSQL are.
const PROGRAMS_VARIABLE: &str = "HERMES_TEST_POSTGRES";
const PROGRAMS_18_VARIABLE: &str = "HERMES_TEST_POSTGRES18";
/// The user that runs it where tests are root, who must not.
const SERVER_USER: &str = "postgres";
/// How long the cluster stays without users: tests come one after the other.
const GRACE_SECONDS: u32 = 10;

/// Waits until nobody holds the lock for a while, then ends the cluster: `$1` the directory, `$2` the programs.
const STOPPER: &str = r#"
    while :; do
        flock -x "$1/users.lock" true
        sleep "$3"
        exec 9<"$1/users.lock" || exit
        if flock -n -x 9; then
            "$2/pg_ctl" -D "$1/data" -m immediate -w stop
            rm -rf "$1/data" "$1/ready"
            exit
        fi
        exec 9<&-
    done
"#;

/// A running cluster. It ends some seconds after the last value in any process is gone.
#[derive(Debug)]
pub struct PostgresCluster {
    directory: PathBuf,
    programs: PathBuf,
    /// For a cluster of one user: removes the directory with the value.
    own: Option<tempfile::TempDir>,
    _user: File,
}

impl PostgresCluster {
    /// The cluster that all tests of this machine share.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed, or does not start.
    pub fn shared() -> Self {
        let directory = shared_directory("hermes-test-postgres");
        Self::use_cluster(directory, Programs::Installed(find_programs()), None, &[])
    }

    /// The same of PostgreSQL 18.
    ///
    /// # Panics
    ///
    /// If it is not installed, or does not start.
    pub fn shared_18() -> Self {
        let Some(installed) = std::env::var_os(PROGRAMS_18_VARIABLE) else {
            panic!(
                "{PROGRAMS_18_VARIABLE} is not set: `./test` installs PostgreSQL 18 and sets it; for a single test run \
                 `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`"
            );
        };
        let directory = shared_directory("hermes-test-postgres18");
        Self::use_cluster(directory, Programs::Copied(installed.into()), None, &[])
    }

    /// A cluster for one test, which may stop it. The settings are those of `postgresql.conf`, as `name=value`.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed, or does not start.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with(find_programs(), settings)
    }

    /// The same with the programs of another version.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_with(programs: PathBuf, settings: &[&str]) -> Self {
        let own = tempfile::Builder::new()
            .prefix("hermes-postgres-")
            .tempdir()
            .expect("a temporary directory");
        give_to_server(own.path());
        let directory = own.path().to_path_buf();
        Self::use_cluster(
            directory,
            Programs::Installed(programs),
            Some(own),
            settings,
        )
    }

    fn use_cluster(
        directory: PathBuf,
        programs: Programs,
        own: Option<tempfile::TempDir>,
        settings: &[&str],
    ) -> Self {
        // First a user, then the look whether it runs: it is ended only while there is none.
        let user = open_lock(&directory.join("users.lock"));
        flock(&user, FlockOperation::LockShared).expect("a shared lock");
        let starting = open_lock(&directory.join("start.lock"));
        flock(&starting, FlockOperation::LockExclusive).expect("a lock");
        let programs = programs.place_in(&directory);
        let cluster = Self {
            directory,
            programs,
            own,
            _user: user,
        };
        if !cluster.directory.join("ready").exists() || !cluster.is_running() {
            cluster.make(settings);
        }
        cluster
    }

    #[expect(
        clippy::zombie_processes,
        reason = "what stops the cluster outlives this process"
    )]
    fn make(&self, settings: &[&str]) {
        let _ = fs::remove_dir_all(self.data());
        let mut made = self.server_program("initdb");
        made.args(["-U", "hermes", "-A", "trust", "--no-sync", "-E", "UTF8"])
            .args(["--locale=C.UTF-8", "-D"])
            .arg(self.data());
        check(&made.output(), "initdb");
        let reserved = ReservedPort::reserve().expect("a port");
        let port = reserved.number();
        let mut lines = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
             max_connections = 400\nshared_buffers = 32MB\nfsync = off\nfull_page_writes = off\n\
             max_wal_size = 256MB\nlogging_collector = off\n",
            self.directory.display()
        );
        for setting in settings {
            lines.push_str(setting);
            lines.push('\n');
        }
        let configuration = self.data().join("postgresql.auto.conf");
        fs::write(&configuration, lines).expect("the configuration");
        give_to_server(&configuration);
        fs::write(self.directory.join("port"), port.to_string()).expect("the port");
        self.start_server();
        drop(reserved);
        fs::write(self.directory.join("ready"), "").expect("the mark of a cluster");
        let stopper = Command::new("setsid")
            .args(["sh", "-c", STOPPER, "stopper"])
            .arg(&self.directory)
            .arg(&self.programs)
            .arg(if self.own.is_some() {
                "1".to_owned()
            } else {
                GRACE_SECONDS.to_string()
            })
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .as_server()
            .spawn();
        stopper.expect("`setsid` and `flock` of util-linux");
    }

    /// Starts it after [`stop_server`](Self::stop_server).
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_server(&self) {
        let mut start = self.server_program("pg_ctl");
        start
            .args(["-w", "-t", "60", "start", "-D"])
            .arg(self.data())
            .arg("-l")
            .arg(self.directory.join("log"));
        // What it starts keeps the pipes open, so there are none.
        let status = start
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            status.as_ref().is_ok_and(std::process::ExitStatus::success),
            "PostgreSQL does not start ({status:?}): {}",
            fs::read_to_string(self.directory.join("log")).unwrap_or_default()
        );
    }

    /// Ends it at once, as a crash would.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn stop_server(&self) {
        let mut stop = self.server_program("pg_ctl");
        stop.args(["-m", "immediate", "-w", "stop", "-D"])
            .arg(self.data());
        check(&stop.output(), "pg_ctl stop");
    }

    fn is_running(&self) -> bool {
        let mut status = self.server_program("pg_ctl");
        status.arg("status").arg("-D").arg(self.data());
        status.output().is_ok_and(|done| done.status.success())
    }

    /// A database of it, over its socket.
    pub fn url(&self, database: &str) -> String {
        let socket = self.directory.display().to_string().replace('/', "%2F");
        format!("postgres://hermes@{socket}:{}/{database}", self.port())
    }

    /// # Panics
    ///
    /// If the cluster has never been started.
    pub fn port(&self) -> u16 {
        let port = fs::read_to_string(self.directory.join("port")).expect("the port");
        port.trim().parse().expect("a port")
    }

    /// What `psql` prints: the values alone.
    ///
    /// # Panics
    ///
    /// If the statement fails.
    pub fn run_sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same, with the error as text.
    pub fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        self.sql_at(&self.directory, database, sql)
    }

    /// The same at a server with its socket in another directory.
    pub(super) fn sql_at(
        &self,
        directory: &Path,
        database: &str,
        sql: &str,
    ) -> Result<String, String> {
        let psql = Command::new(psql_of(&self.programs))
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "hermes",
            ])
            .arg("-h")
            .arg(directory)
            .args(["-p", &self.port().to_string(), "-d", database, "-c", sql])
            .output()
            .map_err(|error| format!("psql: {error}"))?;
        if psql.status.success() {
            Ok(String::from_utf8_lossy(&psql.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&psql.stderr).into_owned())
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Where its socket is, and whatever belongs to it.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn server_program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir("/").as_server();
        command
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        if self.own.is_some() {
            let mut stop = self.server_program("pg_ctl");
            stop.args(["-m", "immediate", "-w", "stop", "-D"])
                .arg(self.data());
            // It may be stopped already.
            let _ = stop.output();
        }
    }
}

/// Lets a command run as the user of the server.
pub(super) trait AsServer {
    fn as_server(&mut self) -> &mut Self;
}

impl AsServer for Command {
    fn as_server(&mut self) -> &mut Self {
        match server_user() {
            Some((uid, gid)) => self.uid(uid).gid(gid).env("HOME", "/"),
            None => self,
        }
    }
}

/// User and group of the server, where tests are root.
fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let user = users
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{SERVER_USER}:")))
        .expect("a user `postgres`: root must not run PostgreSQL");
    let mut parts = user.split(':').skip(1);
    let mut number = || parts.next()?.parse().ok();
    Some((number().expect("a uid"), number().expect("a gid")))
}

pub(super) fn give_to_server(path: &Path) {
    if let Some((uid, gid)) = server_user() {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("chown");
    }
    if path.is_dir() {
        // The socket in it is for everybody.
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
}

fn open_lock(path: &Path) -> File {
    let mut options = File::options();
    let file = options.create(true).append(true).read(true).open(path);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    give_to_server(path);
    file
}

fn find_programs() -> PathBuf {
    if let Some(set) = std::env::var_os(PROGRAMS_VARIABLE) {
        return set.into();
    }
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .filter(|programs| programs.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| {
        panic!("PostgreSQL is not installed: `scripts/equipment install postgresql` does it")
    })
}

/// Where the programs come from.
enum Programs {
    Installed(PathBuf),
    /// From a place that the server's user cannot read, such as the home of root.
    Copied(PathBuf),
}

impl Programs {
    /// The directory to run them from. Called under a lock.
    fn place_in(self, directory: &Path) -> PathBuf {
        let installed = match self {
            Self::Installed(programs) => return programs,
            Self::Copied(installed) => installed,
        };
        let (copy, source) = (directory.join("programs"), directory.join("source"));
        let origin = installed.display().to_string();
        if fs::read_to_string(&source).is_ok_and(|known| known == origin) {
            return copy.join("bin");
        }
        let _ = fs::remove_dir_all(&copy);
        // With `lib` and `share`, which are beside them.
        let around = installed.parent().expect("a directory around `bin`");
        let copied = Command::new("cp").arg("-a").arg(around).arg(&copy).output();
        check(&copied, "cp");
        fs::write(source, origin).expect("a file");
        copy.join("bin")
    }
}

/// A directory that tests of this user share.
fn shared_directory(name: &str) -> PathBuf {
    let name = format!("{name}-{}", rustix::process::getuid().as_raw());
    let directory = std::env::temp_dir().join(name);
    match fs::create_dir(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            panic!("{}: {error}", directory.display())
        }
        _ => give_to_server(&directory),
    }
    directory
}

/// Some distributions of the server come without clients.
fn psql_of(programs: &Path) -> PathBuf {
    let beside = programs.join("psql");
    if beside.exists() {
        beside
    } else {
        "psql".into()
    }
}

pub(super) fn check(done: &io::Result<Output>, what: &str) {
    let done = done
        .as_ref()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        done.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}
