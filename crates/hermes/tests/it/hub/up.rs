//! The Hub that `hermes up` runs, with the user's own home in it.

mod browser;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    program::run,
    screen_terminal::ScreenTerminal,
    test_home::{BackgroundProcess, TestHome, signal_process, wait_until},
};

fn up(home: &TestHome) -> (BackgroundProcess, String) {
    let mut up = home.start(&["up", "--no-open"]);
    let line = up.wait_for("Hub: http://");
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
        .unwrap()
        .to_owned();
    (up, url)
}

fn ask(home: &TestHome, url: &str, args: &[&str]) -> Value {
    home.run(&[args, &["--hub", url, "--json"]].concat())
        .ok()
        .json()
}

#[test]
fn on_an_empty_machine_the_home_is_a_tenant_that_is_ready() {
    let home = TestHome::fresh();
    let (mut up, url) = up(&home);
    up.wait_for("demo: ready");
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let main = ask(&home, &url, &["tenant", "get", "main"]);
    assert_eq!(main["status"], "ready");
    assert_eq!(main["storage"]["linked"], true);
    wait_until("the agent is awake", || {
        let shown = home.run(&["tenant", "get", "main", "--hub", &url]).ok();
        ["running", "idle"]
            .iter()
            .any(|state| shown.stdout.contains(&format!("agent.state: {state}")))
    });
    let first = page(&url, "/");
    assert!(first.starts_with("HTTP/1.1 303"), "{first}");
    assert!(first.contains("location: /sign-in\r\n"), "{first}");
    let sign_in = page(&url, "/sign-in");
    assert!(sign_in.starts_with("HTTP/1.1 200"), "{sign_in}");
    let reference = page(&url, "/docs");
    assert!(reference.contains("list_tenants"), "{reference}");
    assert_eq!(listeners_off_loopback(up.pid()), Vec::<String>::new());

    signal_process(up.pid(), Signal::TERM);
    assert_eq!(up.wait(), Some(0));
    assert!(home.config().exists(), "the home stays");
}

/// What a browser is given.
fn page(url: &str, path: &str) -> String {
    exchange(url, &format!("GET {path} HTTP/1.1"), "", "")
}

fn exchange(url: &str, first_line: &str, headers: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{first_line}\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Signs in as a browser does that has opened a link. Returns the cookie.
fn sign_in(link: &str) -> Option<String> {
    let (url, code) = link.split_once("/sign-in#code=").unwrap();
    let headers = format!("origin: {url}\r\ncontent-type: application/x-www-form-urlencoded\r\n");
    let answer = exchange(
        url,
        "POST /sign-in HTTP/1.1",
        &headers,
        &format!("code={code}&token=&next=/"),
    );
    let cookie = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))?;
    Some(cookie.split(';').next().unwrap().to_owned())
}

#[test]
fn on_a_terminal_the_first_start_gives_a_link_that_signs_in_once_and_the_next_one_finds_it_done() {
    let home = TestHome::fresh();
    let start = || ScreenTerminal::start(home.command(&["up", "--no-open"]), 200, 40);
    let first = start();
    let text = first.wait_for("link", |text| text.contains("/sign-in#code="));
    let link = text
        .split_whitespace()
        .find(|word| word.contains("/sign-in#code="))
        .unwrap();
    let cookie = sign_in(link).unwrap();
    assert_eq!(sign_in(link), None, "it works once");
    let url = link.split("/sign-in").next().unwrap();
    let headers = format!("cookie: {cookie}\r\n");
    let console = exchange(url, "GET / HTTP/1.1", &headers, "");
    assert!(console.starts_with("HTTP/1.1 200"), "{console}");
    assert!(console.contains("/tenants/main/mcp"), "{console}");
    // Words of one person: nobody else is there.
    assert!(console.contains("Your servers"), "{console}");

    drop(first);
    let second = start();
    let text = second.wait_for("address", |text| text.contains("hermes hub login-link"));
    assert!(!text.contains("#code="), "somebody is signed in: {text}");
}

#[test]
fn without_a_terminal_no_link_is_printed_and_login_link_makes_one() {
    let home = TestHome::fresh();
    let (mut up, url) = up(&home);
    up.wait_for("hermes hub login-link");
    assert!(
        up.seen.iter().all(|line| !line.contains("#code=")),
        "{:?}",
        up.seen
    );
    let made = home.run(&["hub", "login-link", "--hub", &url]).ok();
    let link = made.stdout.trim();
    assert!(link.starts_with(&format!("{url}/sign-in#code=")), "{link}");
    assert!(sign_in(link).is_some());
    let made = ask(&home, &url, &["hub", "login-link"]);
    assert!(made["url"].as_str().unwrap().contains("#code="), "{made}");

    let sessions = ask(&home, &url, &["hub", "session", "list"]);
    let session = sessions["sessions"][0]["sessionId"].as_str().unwrap();
    home.run(&["hub", "session", "end", session, "--yes", "--hub", &url])
        .ok();
    let sessions = ask(&home, &url, &["hub", "session", "list"]);
    assert_eq!(sessions["sessions"], json!([]));
}

#[test]
fn the_next_step_comes_first_and_once_and_the_address_of_the_api_last() {
    let home = TestHome::fresh();
    let (up, _) = up(&home);
    let place = |part: &str| {
        let found = up.seen.iter().position(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("`{part}` is not in {:?}", up.seen))
    };
    let next = place("Next, in another terminal: `hermes mcp call demo.add a=1 b=2`");
    assert!(place("built-in one is started") < next);
    assert!(next < place("Admin token: ") && place("Admin token: ") < place("Hub: http://"));
    let tells_next = |line: &&String| line.to_lowercase().contains("next");
    assert_eq!(
        up.seen.iter().filter(tells_next).count(),
        1,
        "{:?}",
        up.seen
    );
}

/// The command line for another home of the same user.
fn another(home: &TestHome, name: &str, arguments: &[&str]) -> std::process::Command {
    let mut command = home.command(arguments);
    command.env("HERMES_HOME", home.beside(name));
    command
}

#[test]
fn a_second_home_of_the_same_user_runs_without_a_hub_and_says_so() {
    let home = TestHome::fresh();
    let (mut first, url) = up(&home);
    let mut second = BackgroundProcess::start(another(&home, "second", &["up", "--no-open"]));
    let told = second.wait_for("so this home runs without a Hub");
    assert!(told.contains(&format!("process {}", first.pid())), "{told}");
    second.wait_for("demo: ready");
    // It is a home as any other: its own jobs, its own gateway.
    let status = another(&home, "second", &["gateway", "status"]);
    let status = run(status, "");
    assert_eq!(status.code, 0, "{status:?}");
    assert!(
        status.stdout.contains(&second.pid().to_string()),
        "{status:?}"
    );
    assert_eq!(
        ask(&home, &url, &["tenant", "list"])["tenants"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // The Hub is the first one's, also when that has ended.
    signal_process(second.pid(), Signal::TERM);
    assert_eq!(second.wait(), Some(0));
    signal_process(first.pid(), Signal::TERM);
    assert_eq!(first.wait(), Some(0));
    let mut again = BackgroundProcess::start(another(&home, "second", &["up", "--no-open"]));
    again.wait_for("is the home");
    again.wait_for("demo: ready");
    signal_process(again.pid(), Signal::TERM);
    assert_eq!(again.wait(), Some(0));
}

#[test]
fn a_second_up_of_the_same_home_is_refused() {
    let home = TestHome::fresh();
    let (mut first, _) = up(&home);
    first.wait_for("demo: ready");
    let refused = home.run(&["up", "--no-open"]).exits_with(1);
    assert!(
        refused.stderr.contains("runs for this home already"),
        "{refused:?}"
    );
}

#[test]
fn a_run_of_the_home_goes_through_the_hub() {
    let home = TestHome::fresh();
    let (_up, url) = up(&home);
    // There is no model on an empty machine, and the run says so.
    let failed = home.run(&["tenant", "run", "main", "Hello", "--watch", "--hub", &url]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("the run failed"), "{failed:?}");
}

#[test]
fn another_gateway_of_the_home_is_told_and_not_driven_without_an_api() {
    let home = TestHome::fresh();
    let mut gateway = home.start(&["gateway", "run"]);
    gateway.wait_for("The gateway is running");
    let (up, url) = up(&home);
    let told = up.seen.join("\n");
    assert!(
        told.contains(&format!("process {}", gateway.pid())),
        "{told}"
    );
    assert!(told.contains("cannot drive it"), "{told}");
    assert_eq!(ask(&home, &url, &["tenant", "get", "main"])["id"], "main");
    let refused = home.run(&["tenant", "run", "main", "Hello", "--watch", "--hub", &url]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("API_SERVER_KEY"), "{refused:?}");
}

#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let home = TestHome::fresh();
    let refused = home.run(&["up", "--port", &port]).exits_with(1);
    assert!(
        refused.stderr.contains("is taken by another program"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("--port"), "{refused:?}");
}

#[test]
fn deleting_the_home_only_takes_it_off_the_hub() {
    let home = TestHome::fresh();
    let (mut first, url) = up(&home);
    home.run(&[
        "tenant", "delete", "main", "--purge", "--yes", "--hub", &url,
    ])
    .ok();
    assert!(home.config().exists());
    signal_process(first.pid(), Signal::TERM);
    first.wait();
    let (_again, url) = up(&home);
    assert_eq!(
        ask(&home, &url, &["tenant", "get", "main"])["status"],
        "ready"
    );
    assert!(home.config().exists());
}

/// A home whose model answers by script.
fn with_model(script: ModelScript) -> (TestHome, ModelServer) {
    let model = ModelServer::start(script);
    let home = TestHome::with_servers(&[]);
    home.write_config(&format!(
        "model: {{default: m, provider: custom, base_url: '{}'}}\nagent: {{api_max_retries: 0}}\n",
        model.base_url()
    ));
    (home, model)
}

#[test]
fn the_home_has_the_files_of_its_groups_and_keeps_to_the_policy() {
    let write = |text: &str| {
        let path = "teams/division1/a.md";
        ScriptedAnswer::call("write_file", &json!({"path": path, "content": text}))
    };
    let script = ModelScript::echo()
        .rule("alpha-1", write("from home"))
        .rule("beta-2", write("denied"))
        .rule("gamma-3", write("with another key"));
    let (home, _model) = with_model(script);
    let (_up, url) = up(&home);
    let hub = |args: &[&str]| home.run(&[args, &["--hub", &url]].concat());
    hub(&["group", "create", "division1"]).ok();
    let add = ["group", "member", "add", "division1", "main"];
    hub(&[&add[..], &["--access", "write"]].concat()).ok();
    let run = |what: &str| hub(&["tenant", "run", "main", what, "--watch"]).ok();
    let shared = || {
        let cat = ["share", "cat", "division1", "a.md", "--tenant", "main"];
        hub(&cat).ok().stdout
    };
    run("alpha-1");
    assert_eq!(shared(), "from home");

    let policy = home.beside("policy.json");
    let put = |document: &str| {
        fs::write(&policy, document).unwrap();
        hub(&["policy", "put", policy.to_str().unwrap(), "--yes"]).ok();
    };
    put(r#"{"tools": {"deny": ["write_file"]}}"#);
    run("beta-2");
    assert_eq!(shared(), "from home");

    put("{}");
    hub(&["tenant", "rotate-key", "main", "--yes"]).ok();
    wait_for_settings(&home, &url);
    run("gamma-3");
    assert_eq!(shared(), "with another key");
}

#[test]
fn jobs_of_the_home_are_the_hubs_as_soon_as_its_own_gateway_is_gone() {
    let home = TestHome::with_servers(&[]);
    home.write_config("api_server: {port: 0}\n");
    let by_hub = |url: &str| {
        let main = ask(&home, url, &["tenant", "get", "main"]);
        let conditions = main["conditions"].as_array().unwrap().iter();
        let mut found = conditions.filter(|condition| condition["type"] == "CronByHub");
        found.next().map(|condition| condition["status"] == "True")
    };
    let mut gateway = home.start(&["gateway", "run"]);
    gateway.wait_for("The gateway is running");
    wait_until("its ticker has given a sign", || {
        home.path().join("cron/ticker_heartbeat").exists()
    });
    {
        let (mut first, url) = up(&home);
        wait_until("the gateway is seen", || by_hub(&url) == Some(false));
        signal_process(first.pid(), Signal::TERM);
        first.wait();
    }
    signal_process(gateway.pid(), Signal::TERM);
    gateway.wait();
    let (_again, url) = up(&home);
    wait_until("the Hub has taken over", || by_hub(&url) == Some(true));
}

/// Waits until the home works with what the Hub knows of it.
fn wait_for_settings(home: &TestHome, url: &str) {
    wait_until("the home has taken up its settings", || {
        let main = ask(home, url, &["tenant", "get", "main"]);
        main["observedGeneration"] == main["generation"]
    });
}

#[test]
fn variables_that_the_hub_has_for_the_home_reach_its_commands_and_its_configuration() {
    let script = ModelScript::echo().rule(
        "alpha-1",
        ScriptedAnswer::call("terminal", &json!({"command": "echo greeting=$GREETING"})),
    );
    let model = ModelServer::start(script);
    let home = TestHome::with_servers(&[]);
    home.write_config(
        "model: {default: m, provider: custom, base_url: '${MODEL_ADDRESS}'}\nagent: {api_max_retries: 0}\n",
    );
    let (_up, url) = up(&home);
    let hub = |args: &[&str]| home.run(&[args, &["--hub", &url]].concat());
    let set = |name: &str, value: &str| {
        let args = ["tenant", "env", "set", "main", name, "--hub", &url];
        run(home.command(&args), value).ok();
    };
    set("MODEL_ADDRESS", &model.base_url());
    set("GREETING", "hello from the Hub");
    wait_for_settings(&home, &url);
    hub(&["tenant", "run", "main", "alpha-1", "--watch"]).ok();
    let received = || -> String {
        let calls = model.requests();
        calls.iter().map(|call| call.body.to_string()).collect()
    };
    let first = received();
    assert!(first.contains("greeting=hello from the Hub"), "{first}");

    hub(&["tenant", "env", "unset", "main", "GREETING", "--yes"]).ok();
    wait_for_settings(&home, &url);
    hub(&["tenant", "run", "main", "alpha-1 again", "--watch"]).ok();
    let all = received();
    let last = all.rsplit("alpha-1 again").next().unwrap();
    assert!(!last.contains("hello from the Hub"), "{last}");
}

#[test]
fn a_reload_that_is_asked_for_keeps_to_the_policy() {
    let home = TestHome::fresh();
    let (mut up, url) = up(&home);
    up.wait_for("demo: ready");
    home.write_config(&format!(
        "mcp_servers:\n  own: {{command: '{}', args: [mcp, demo]}}\n",
        env!("CARGO_BIN_EXE_hermes")
    ));
    up.wait_for("own: ready");
    let policy = home.beside("policy.json");
    fs::write(&policy, r#"{"features": {"enabled": []}}"#).unwrap();
    let put = ["policy", "put", policy.to_str().unwrap(), "--yes"];
    home.run(&[&put[..], &["--hub", &url]].concat()).ok();
    let servers = || {
        let status = home.run(&["mcp", "status", "--json"]).ok().json();
        status.to_string()
    };
    wait_until("the policy has taken the server away", || {
        !servers().contains("\"ready\"")
    });
    let reloaded = home.run(&["mcp", "reload"]).ok();
    assert!(!reloaded.stdout.contains("own"), "{reloaded:?}");
    assert!(!servers().contains("\"ready\""), "{}", servers());
}

/// Sockets of a process that listen beyond this machine.
fn listeners_off_loopback(pid: u32) -> Vec<String> {
    let mut open = Vec::new();
    for (table, loopback) in [
        ("tcp", "0100007F"),
        ("tcp6", "00000000000000000000000001000000"),
    ] {
        let path = format!("/proc/{pid}/net/{table}");
        let Ok(text) = fs::read_to_string(Path::new(&path)) else {
            continue;
        };
        let own = sockets(pid);
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (address, state, inode) = (words[1], words[3], words[9]);
            let is_listening = state == "0A" && own.iter().any(|socket| socket == inode);
            if is_listening && !address.starts_with(loopback) {
                open.push(address.to_owned());
            }
        }
    }
    open
}

/// The inodes of the sockets that a process has open.
fn sockets(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let inode = target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect()
}
