//! Real servers over Streamable HTTP that are killed and started again on the same port.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use hermes_mcp::{Era, LinkStatus};
use hermes_testkit::ReservedPort;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{installed, node};
use crate::setup::{Setup, eventually};

/// How soon after its return a server has to be called.
const SOON: Duration = Duration::from_secs(5);

/// What a busy machine is given for it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program that serves on a port.
struct Restarted {
    program: String,
    args: Vec<String>,
    port: ReservedPort,
    child: Option<Child>,
}

impl Restarted {
    fn new(program: String, args: &[&str]) -> Self {
        Self {
            program,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            port: ReservedPort::reserve().unwrap(),
            child: None,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port.number())
    }

    /// Starts it, and waits until it listens.
    async fn start(&mut self) {
        let port = self.port.number();
        let child = Command::new(&self.program)
            .args(&self.args)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        self.child = Some(child.unwrap());
        let is_up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually("the server listens", is_up).await;
    }

    /// Ends it as nobody can refuse.
    async fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().await.unwrap();
    }
}

/// How long it took after the return until a call was answered.
async fn called_after(setup: &Setup, tool: &str, arguments: &Value) -> Duration {
    let back = Instant::now();
    loop {
        let told = setup.call(tool, arguments.clone()).await;
        if told.get("error").is_none() {
            return back.elapsed();
        }
        assert!(back.elapsed() < TIMEOUT, "{told}");
    }
}

/// Kills and restarts a server in every way that there is to notice it.
async fn goes_and_comes_back(mut server: Restarted, era: Era, tool: &str, arguments: Value) {
    server.start().await;
    let setup = Setup::start(json!({ "s": { "url": server.url() } })).await;
    setup.assert_ready("s");
    assert_eq!(setup.status("s").era, Some(era));
    let tools = setup.status("s").tools;

    // Killed and back before anybody looked.
    server.kill().await;
    server.start().await;
    let delay = called_after(&setup, tool, &arguments).await;
    println!("at once: {delay:?}");

    // Gone for a while: a call finds out at the latest.
    server.kill().await;
    setup.call(tool, arguments.clone()).await;
    setup
        .until("s", |link| link.status != LinkStatus::Ready)
        .await;
    server.start().await;
    let delay = called_after(&setup, tool, &arguments).await;
    println!("after a call: {delay:?}");
    setup.assert_ready("s");
    assert_eq!(setup.status("s").tools, tools, "listed anew");

    // Gone and back, and nobody calls: a reload finds out.
    server.kill().await;
    setup.host.reload_from_home().await.unwrap();
    setup
        .until("s", |link| link.status != LinkStatus::Ready)
        .await;
    server.start().await;
    setup.host.reload_from_home().await.unwrap();
    setup
        .until("s", |link| link.status == LinkStatus::Ready)
        .await;
    let delay = called_after(&setup, tool, &arguments).await;
    println!("after a reload: {delay:?}");
}

fn everything() -> Option<Restarted> {
    let script = installed("HERMES_TEST_NPM", "mcp-server-everything")?;
    Some(Restarted::new(node()?, &[&script, "streamableHttp"]))
}

/// `FastMCP` of the Python SDK 1.x, which speaks the legacy era.
const FAST_MCP: &str = r#"
import os
from mcp.server.fastmcp import FastMCP
server = FastMCP("fast", port=int(os.environ["PORT"]))
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run(transport="streamable-http")
"#;

/// The same of 2.x, which speaks the stateless era.
const MCP_SERVER: &str = r#"
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("fast")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run(transport="streamable-http", port=int(os.environ["PORT"]))
"#;

fn python(variable: &str, script: &str) -> Option<Restarted> {
    let python = installed(variable, "bin/python")?;
    Some(Restarted::new(python, &["-c", script]))
}

#[tokio::test]
async fn server_everything_is_used_again_after_it_was_killed() {
    let Some(server) = everything() else {
        return;
    };
    let arguments = json!({ "message": "hi" });
    goes_and_comes_back(server, Era::Legacy, "mcp_s_echo", arguments).await;
}

#[tokio::test]
async fn fast_mcp_is_used_again_after_it_was_killed() {
    let Some(server) = python("HERMES_TEST_VENV_SQLITE", FAST_MCP) else {
        return;
    };
    let arguments = json!({ "a": 1, "b": 2 });
    goes_and_comes_back(server, Era::Legacy, "mcp_s_add", arguments).await;
}

#[tokio::test]
async fn a_server_of_the_stateless_python_sdk_is_used_again_after_it_was_killed() {
    let Some(server) = python("HERMES_TEST_VENV", MCP_SERVER) else {
        return;
    };
    let arguments = json!({ "a": 1, "b": 2 });
    goes_and_comes_back(server, Era::Stateless, "mcp_s_add", arguments).await;
}

/// By hand: `cargo test -p hermes-mcp --test it -- --ignored --nocapture a_hundred_returns`; nextest would end it after
/// three minutes. `HERMES_RESTARTS` is another number of rounds.
#[tokio::test]
#[ignore = "takes minutes; the short version is beside it"]
async fn a_real_server_is_called_within_five_seconds_of_each_of_a_hundred_returns() {
    let rounds = std::env::var("HERMES_RESTARTS").ok();
    let rounds: u32 = rounds.map_or(100, |text| text.parse().unwrap());
    let add = json!({ "a": 1, "b": 2 });
    let servers = [
        (everything(), "mcp_s_echo", json!({ "message": "hi" })),
        (
            python("HERMES_TEST_VENV_SQLITE", FAST_MCP),
            "mcp_s_add",
            add.clone(),
        ),
        (python("HERMES_TEST_VENV", MCP_SERVER), "mcp_s_add", add),
    ];
    for (server, tool, arguments) in servers {
        let mut server = server.unwrap();
        server.start().await;
        let setup = Setup::start(json!({ "s": { "url": server.url() } })).await;
        setup.assert_ready("s");
        let mut times = Vec::new();
        for round in 0..rounds {
            server.kill().await;
            tokio::time::sleep(Duration::from_millis(u64::from(round % 10) * 100)).await;
            server.start().await;
            times.push(called_after(&setup, tool, &arguments).await);
        }
        times.sort();
        let middle = times[times.len() / 2];
        let worst = times.last().unwrap();
        println!(
            "{}: {rounds} of {rounds}, median {middle:?}, worst {worst:?}",
            server.program
        );
        assert!(*worst < SOON, "{worst:?}");
    }
}
