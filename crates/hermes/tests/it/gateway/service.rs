//! The gateway as a service: a systemd whose commands run the unit, the socket it is told over, and the background.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    program::{CommandOutput, run},
    test_home::{BackgroundProcess, TIMEOUT, is_running, wait_until},
};

/// Does what the unit says: `start` runs its command with its environment, `stop` ends that.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> "$FAKE/calls"
verb=$2
unit="$HOME/.config/systemd/user/hermes-gateway.service"
pid() { sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$HOME/.hermes/gateway.pid" 2>/dev/null; }
stop() { kill -TERM "$(pid)"; while [ -e "$HOME/.hermes/gateway.pid" ]; do sleep 0.05; done; echo inactive > "$FAKE/state"; }
start() {
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  environment=$(sed -n 's/^Environment=\(.*\)/\1/p' "$unit" | tr '\n' ' ')
  eval "exec env -i HOME=\"$HOME\" $environment $command" > "$FAKE/out" 2>&1 &
  echo active > "$FAKE/state"
}
case "$verb" in
  show)
    [ "$3" = --property=Version ] && { echo Version=257; exit 0; }
    echo "ActiveState=$(cat "$FAKE/state" 2>/dev/null || echo inactive)"
    echo UnitFileState=enabled ;;
  start) start ;;
  stop) stop ;;
  restart) stop; start ;;
  disable) [ -e "$HOME/.hermes/gateway.pid" ] && stop; exit 0 ;;
esac
"#;

/// A user with a home directory, and a `systemctl` of the test's own.
struct ServiceUser {
    directory: TempDir,
}

impl ServiceUser {
    fn new(systemctl: &str) -> Self {
        let user = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(user.bin()).unwrap();
        fs::create_dir_all(user.path(".hermes")).unwrap();
        fs::write(user.path(".hermes/config.yaml"), "agent: {max_turns: 5}\n").unwrap();
        let program = user.bin().join("systemctl");
        fs::write(&program, systemctl).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    fn unit(&self) -> PathBuf {
        self.path(".config/systemd/user/hermes-gateway.service")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:{path}", self.bin().display()))
            .env("HOME", self.directory.path())
            .env("FAKE", self.directory.path())
            .env("OSV_ENDPOINT", "off")
            .env("NO_COLOR", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(self.command(arguments), "")
    }

    fn status(&self) -> Value {
        self.run(&["gateway", "status", "--json"]).ok().json()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

/// Whatever a test leaves running ends with it.
impl Drop for ServiceUser {
    fn drop(&mut self) {
        let record = fs::read_to_string(self.path(".hermes/gateway.pid")).unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        let pid = record["pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Says so where everybody sees it.
#[expect(clippy::print_stdout, reason = "a skipped test has to be loud")]
fn has_systemd_analyze() -> bool {
    let has = Command::new("systemd-analyze").arg("--version").output();
    let has = has.is_ok_and(|done| done.status.success());
    if !has {
        println!("!!! NO systemd-analyze HERE: the unit is NOT checked by systemd !!!");
    }
    has
}

#[test]
fn systemd_accepts_the_unit_and_it_keeps_the_authorities_but_no_secret() {
    let user = ServiceUser::new(SYSTEMCTL);
    fs::write(user.path(".hermes/.env"), "TELEGRAM_BOT_TOKEN=1:planted\n").unwrap();
    let mut install = user.command(&["gateway", "install", "--no-start"]);
    install
        .env("SSL_CERT_FILE", "/etc/100% own/ca.pem")
        .env("HTTPS_PROXY", "http://user:planted@proxy.test");
    run(install, "").ok();
    let text = fs::read_to_string(user.unit()).unwrap();
    let kept = "Environment=\"SSL_CERT_FILE=/etc/100%% own/ca.pem\"";
    assert!(text.contains(kept), "{text}");
    assert!(!text.contains("planted"), "{text}");
    if !has_systemd_analyze() {
        return;
    }
    let checked = Command::new("systemd-analyze")
        .args(["verify", "--user", "--man=no"])
        .arg(user.unit())
        .env("HOME", user.directory.path())
        .env("XDG_RUNTIME_DIR", user.directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    // Whatever else is installed on this machine is not our matter.
    let about_it = said.lines().filter(|line| line.contains("hermes-gateway"));
    assert_eq!(about_it.collect::<Vec<_>>(), Vec::<&str>::new(), "{text}");
}

#[test]
fn the_service_is_installed_started_restarted_stopped_and_removed() {
    let user = ServiceUser::new(SYSTEMCTL);
    let installed = user.run(&["gateway", "install"]).ok();
    assert!(
        installed.stderr.contains("hermes-gateway.service"),
        "{installed:?}"
    );
    let unit = fs::read_to_string(user.unit()).unwrap();
    for line in [
        "Type=notify",
        "RestartPreventExitStatus=78",
        "WatchdogSec=90",
    ] {
        assert!(unit.lines().any(|it| it == line), "{unit}");
    }
    assert!(
        !unit.contains("--replace") && !unit.contains("TOKEN"),
        "{unit}"
    );
    let calls = user.calls();
    for call in [
        "--user daemon-reload",
        "--user enable hermes-gateway.service",
        "--user start hermes-gateway.service",
    ] {
        assert!(calls.lines().any(|it| it == call), "{calls}");
    }
    wait_until("the service runs", || {
        user.status()["gateway_state"] == "running"
    });
    let status = user.status();
    assert_eq!(status["service"]["is_ours"], true);
    assert_eq!(status["service"]["state"], "active, enabled");
    let shown = user.run(&["gateway", "status"]).ok();
    assert!(
        shown
            .stdout
            .contains("service: hermes-gateway.service (active, enabled)"),
        "{shown:?}"
    );
    let again = user.run(&["gateway", "start"]).ok();
    assert!(again.stderr.contains("running already"), "{again:?}");

    let first = status["pid"].clone();
    let restarted = user.run(&["gateway", "restart", "--json"]).ok().json();
    assert_ne!(restarted["pid"], first);
    user.run(&["gateway", "stop"]).ok();
    assert!(user.calls().contains("--user stop hermes-gateway.service"));
    assert_eq!(user.status()["running"], false);
    let started = user.run(&["gateway", "start", "--json"]).ok().json();
    assert_eq!(started["started"], true);

    user.run(&["gateway", "uninstall"]).ok();
    assert!(!user.unit().exists());
    assert!(
        user.calls()
            .contains("--user disable --now hermes-gateway.service")
    );
    user.run(&["gateway", "uninstall"]).exits_with(3);
}

#[test]
fn a_unit_of_another_program_is_found_and_stays() {
    let user = ServiceUser::new(SYSTEMCTL);
    let python =
        "[Service]\nExecStart=/opt/venv/bin/python -m hermes_cli.main gateway run --replace\n";
    fs::create_dir_all(user.unit().parent().unwrap()).unwrap();
    fs::write(user.unit(), python).unwrap();
    let refused = user.run(&["gateway", "install"]).exits_with(1);
    assert!(
        refused.stderr.contains("was not written by this program"),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(user.unit()).unwrap(), python);
    let shown = user.run(&["gateway", "status"]).ok();
    assert!(
        shown.stdout.contains("written by another program"),
        "{shown:?}"
    );
    user.run(&["gateway", "uninstall"]).exits_with(1);

    // One under another name is told of.
    let other = user.unit().with_file_name("my-hermes.service");
    fs::rename(user.unit(), &other).unwrap();
    let installed = user.run(&["gateway", "install", "--no-start"]).ok();
    assert!(
        installed.stderr.contains("my-hermes.service"),
        "{installed:?}"
    );
    assert!(user.unit().exists() && other.exists());
    assert!(!user.calls().contains("--user start"), "{}", user.calls());
}

#[test]
fn without_systemd_it_runs_in_the_background_and_that_is_said() {
    let user = ServiceUser::new("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n");
    let refused = user.run(&["gateway", "install"]).exits_with(6);
    assert!(refused.stderr.contains("gateway run"), "{refused:?}");
    assert!(!user.unit().exists());

    let started = user.run(&["gateway", "start"]).ok();
    assert!(started.stderr.contains("logs/gateway.log"), "{started:?}");
    assert!(
        started.stderr.contains("It is not a service"),
        "{started:?}"
    );
    let first = user.status();
    assert_eq!(first["gateway_state"], "running");
    let log = fs::read_to_string(user.path(".hermes/logs/gateway.log")).unwrap();
    assert!(log.contains("The gateway is running"), "{log}");
    let restarted = user.run(&["gateway", "restart", "--json"]).ok().json();
    assert_ne!(restarted["pid"], first["pid"]);
    user.run(&["gateway", "stop"]).ok();
    let pid = restarted["pid"]
        .as_u64()
        .and_then(|pid| u32::try_from(pid).ok());
    assert!(!is_running(pid.unwrap()));
}

#[test]
fn a_background_start_that_fails_says_why() {
    let user = ServiceUser::new("#!/bin/sh\nexit 1\n");
    fs::write(user.path(".hermes/config.yaml"), "agent: [\n").unwrap();
    let failed = user.run(&["gateway", "start"]).exits_with(1);
    assert!(failed.stderr.contains("config.yaml"), "{failed:?}");
    let direct = user.run(&["gateway", "run"]).exits_with(78);
    assert!(direct.stderr.contains("config.yaml"), "{direct:?}");
}

#[test]
fn the_service_manager_is_told_that_it_is_ready_lives_and_stops() {
    let user = ServiceUser::new("#!/bin/sh\nexit 1\n");
    let address = user.path("notify");
    let socket = UnixDatagram::bind(&address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = user.command(&["gateway", "run"]);
    command.env("NOTIFY_SOCKET", &address).env(
        "WATCHDOG_USEC",
        Duration::from_millis(200).as_micros().to_string(),
    );
    let mut gateway = BackgroundProcess::start(command);
    let ready = format!("READY=1\nMAINPID={}", gateway.pid());
    let mut told = Vec::new();
    while told.iter().filter(|it| *it == "WATCHDOG=1").count() < 3 {
        told.push(receive(&socket));
    }
    assert!(told.contains(&ready), "{told:?}");
    gateway.signal(Signal::TERM);
    wait_until("it says that it stops", || receive(&socket) == "STOPPING=1");
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn an_abstract_socket_is_an_address_too_and_the_watchdog_of_another_process_is_not_fed() {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    let user = ServiceUser::new("#!/bin/sh\nexit 1\n");
    let name = format!("hermes-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = user.command(&["gateway", "run"]);
    command
        .env("NOTIFY_SOCKET", format!("@{name}"))
        .env("WATCHDOG_PID", "1")
        .env("WATCHDOG_USEC", "1000");
    let mut gateway = BackgroundProcess::start(command);
    assert!(receive(&socket).starts_with("READY=1"));
    gateway.signal(Signal::TERM);
    assert_eq!(receive(&socket), "STOPPING=1");
    assert_eq!(gateway.wait(), Some(0));
}

fn receive(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn tokens_without_a_gateway_are_told_plainly() {
    let user = ServiceUser::new("#!/bin/sh\nexit 1\n");
    let shown = user.run(&["gateway", "status"]).ok();
    assert!(shown.stdout.contains("`hermes gateway setup`"), "{shown:?}");
    fs::write(
        user.path(".hermes/.env"),
        "TELEGRAM_BOT_TOKEN=1:secret-token\nTELEGRAM_BOT_TOKEN_WORK=2:secret-token\n",
    )
    .unwrap();
    let shown = user
        .run(&["gateway", "status"])
        .ok()
        .hides(&["secret-token"]);
    for text in [
        "No gateway of this home is running",
        "telegram@work",
        "not running",
        "`hermes gateway start`",
    ] {
        assert!(shown.stdout.contains(text), "{shown:?}");
    }
    let status = user.status();
    let accounts: Vec<&Value> = status["accounts"].as_array().unwrap().iter().collect();
    assert_eq!(
        accounts.iter().map(|it| &it["label"]).collect::<Vec<_>>(),
        [&json!("telegram"), &json!("telegram@work")]
    );
    let doctor = user.run(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let telegram = checks
        .iter()
        .find(|check| check["id"] == "telegram")
        .unwrap();
    assert_eq!(telegram["level"], "warn");
    assert!(
        telegram["fix"]
            .as_str()
            .unwrap()
            .contains("hermes gateway start"),
        "{telegram}"
    );
    assert!(Path::new(&user.path(".hermes")).exists());
}
