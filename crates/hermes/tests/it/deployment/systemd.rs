//! The units for systemd, and the page that explains them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::Command,
};

use hermes_testkit::postgres::TestDatabase;
use rustix::process::Signal;

use super::{deploy, expect_success, load};
use crate::harness::{
    program::installed,
    test_home::{BackgroundProcess, TIMEOUT, TestHome, wait_until},
};

/// The two lines of settings that differ on this machine: the ports are taken, perhaps.
const PORTS: [(&str, &str); 2] = [
    ("HERMES_HUB_LISTEN", "127.0.0.1:0"),
    ("HERMES_HUB_METRICS__LISTEN", "off"),
];

fn guide() -> String {
    let path = deploy("../docs/guide/deploy-systemd.md");
    fs::read_to_string(path).unwrap()
}

fn unit(name: &str) -> String {
    fs::read_to_string(deploy("systemd").join(name)).unwrap()
}

/// The values of a key in a unit.
fn values(unit: &str, key: &str) -> Vec<String> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| value.to_owned())
        .collect()
}

/// The variables that the page writes into a file of `/etc/hermes-hub`.
fn variables(file: &str) -> BTreeMap<String, String> {
    let guide = guide();
    let start = format!("/etc/hermes-hub/{file} <<'END'\n");
    let (_, text) = guide.split_once(&start).unwrap();
    let (text, _) = text.split_once("END\n").unwrap();
    let lines = text.lines().map(|line| line.split_once('=').unwrap());
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What a unit gives a node: its directories, and the variables of its files.
fn node_variables(node: &str) -> BTreeMap<String, String> {
    let files = values(&unit("hermes-hub@.service"), "EnvironmentFile");
    let mut found = BTreeMap::new();
    for file in files {
        let file = file.replace("%i", node);
        found.extend(variables(file.strip_prefix("-/etc/hermes-hub/").unwrap()));
    }
    found
}

#[test]
fn systemd_accepts_the_units() {
    let Some(analyze) = installed("HERMES_TEST_SYSTEMD_ANALYZE", "") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    for (name, instance) in [
        ("hermes-hub.service", "hermes-hub.service"),
        ("hermes-hub@.service", "hermes-hub@one.service"),
    ] {
        // The program is not installed here, which is not what is asked.
        let text = unit(name).replace("/usr/local/bin/hermes", "/bin/true");
        let copy = directory.path().join(instance);
        fs::write(&copy, text).unwrap();
        let mut verify = Command::new(&analyze);
        verify.args(["verify", "--man=no"]).arg(&copy);
        expect_success(verify);
    }
}

#[test]
fn everything_that_a_node_writes_is_in_a_directory_that_its_unit_gives_it() {
    let given: Vec<PathBuf> = values(&unit("hermes-hub@.service"), "StateDirectory")[0]
        .split_whitespace()
        .map(|name| Path::new("/var/lib").join(name.replace("%i", "one")))
        .collect();
    let mut variables = node_variables("one");
    variables.insert(
        "HERMES_HUB_DATA_DIR".into(),
        "/var/lib/hermes-hub/one".into(),
    );
    let settings = load(None, variables);
    let objects = settings.objects.url.strip_prefix("file://").unwrap();
    for written in [settings.data_dir.as_path(), Path::new(objects)] {
        assert!(
            given.iter().any(|dir| written.starts_with(dir)),
            "{written:?} in {given:?}"
        );
    }
    // The first page has one node, whose variables are settings, too.
    let single = load(None, variables_of_one_node());
    assert_eq!(single.runs.max_concurrent, 8);
    // The stop waits for longer than the runs may take.
    for name in ["hermes-hub.service", "hermes-hub@.service"] {
        let most: u64 = values(&unit(name), "TimeoutStopSec")[0].parse().unwrap();
        assert!(most > settings.drain_seconds, "{name}");
        assert_eq!(values(&unit(name), "Type"), ["notify"]);
    }
}

fn variables_of_one_node() -> BTreeMap<String, String> {
    variables("environment")
}

#[test]
fn two_nodes_with_the_variables_of_the_page_are_one_hub() {
    let database = TestDatabase::create();
    let machine = TestHome::fresh();
    fs::create_dir(machine.path()).unwrap();
    let key = machine.beside("secret.key");
    fs::write(&key, "5a".repeat(32)).unwrap();
    let objects = machine.beside("objects");
    let mut nodes = Vec::new();
    for name in ["one", "two"] {
        let data = machine.beside(name);
        let mut command = machine.command(&["hub", "serve", "--set", "runtime=mock", "--data-dir"]);
        command
            .arg(&data)
            .envs(node_variables(name).into_iter().map(
                |(variable, value)| match variable.as_str() {
                    "HERMES_HUB_DATABASE__URL" => (variable, database.url()),
                    "HERMES_HUB_OBJECTS__URL" => {
                        (variable, format!("file://{}", objects.display()))
                    }
                    "HERMES_HUB_SECRETS__KEY_FILE" => (variable, key.display().to_string()),
                    _ => (variable, value),
                },
            ));
        command.envs(PORTS);
        let mut node = BackgroundProcess::start(command);
        let line = node.wait_for("listens on http://");
        let url = line.split_whitespace().last().unwrap().to_owned();
        nodes.push((node, url));
    }
    let token = ["one", "two"].map(|name| machine.beside(name).join("admin.token"));
    let token = token.iter().find(|file| file.exists()).unwrap();
    let token = fs::read_to_string(token).unwrap();
    wait_until("both nodes are listed", || {
        let mut list = machine.command(&["hub", "node", "list", "--json"]);
        list.env("HERMES_HUB_URL", &nodes[1].1)
            .env("HERMES_HUB_TOKEN", token.trim());
        let listed = crate::harness::program::run(list, "").ok().json();
        listed["nodes"].as_array().unwrap().len() == 2
    });
}

#[test]
fn the_service_manager_is_told_when_the_hub_answers_and_when_it_stops() {
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let address = home.beside("notify");
    let socket = UnixDatagram::bind(&address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let receive = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut command = home.command(&["hub", "serve", "--set", "runtime=mock"]);
    command.env("NOTIFY_SOCKET", &address);
    let mut hub = BackgroundProcess::start(command);
    let ready = format!("READY=1\nMAINPID={}", hub.pid());
    assert_eq!(receive(), ready);
    // What the page says to do next works at once.
    assert!(home.beside(".local/share/hermes-hub/admin.token").exists());
    hub.signal(Signal::HUP);
    hub.wait_for("SIGHUP: the settings are read again.");
    hub.signal(Signal::TERM);
    assert_eq!(receive(), "STOPPING=1");
    assert_eq!(hub.wait(), Some(0));
}
