//! The console in Chromium, judged by axe-core and html-validate, over a Hub with real agents and a real MCP server.
//!
//! What a person does is a script in Node, in the folder of this module: [`Visit`] runs one and answers its steps.

mod form_pages;
mod scenes;
mod walk;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use hermes_testkit::{
    ReservedPort,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    embedded_hub::real_hub::RealHub,
    harness::{program::installed, test_home::wait_until},
};

/// Markup, a script, a template and a mark that turns the direction of writing.
const HOSTILE: &str = "\"><script>globalThis.hacked=1</script><img src=x onerror=\"globalThis.hacked=1\">\u{202e}{{7*7}}</td></table>";

fn script(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    directory.join("tests/it/console/real_servers").join(name)
}

/// The Node that runs the scripts, if everything that they use is installed.
fn node() -> Option<PathBuf> {
    installed("HERMES_TEST_CONSOLE", "axe-core/axe.min.js")?;
    installed("HERMES_TEST_BROWSER", "")?;
    installed("HERMES_TEST_NPM", "mcp-server-everything")?;
    installed("HERMES_TEST_OAUTH", "node/bin/node")
}

/// A script that runs.
struct Visit {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Visit {
    fn start(node: &Path, name: &str, argument: &Value) -> Self {
        let mut child = Command::new(node)
            .arg(script(name))
            .arg(argument.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// The next line that it prints. It waits for an answer if it is not the last one.
    fn read_line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the script ended early: {line:?}"))
    }

    /// Waits for a step.
    #[track_caller]
    fn expect(&mut self, step: &str) -> Value {
        let said = self.read_line();
        assert_eq!(said["step"], step, "{said}");
        said
    }

    /// Lets it go on.
    fn answer(&mut self, value: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{value}").unwrap();
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // The end of its input ends it, and the browser with it.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// `mcp-server-everything`, which ends when dropped.
struct EverythingServer {
    child: Child,
    url: String,
    _port: ReservedPort,
}

impl EverythingServer {
    fn start() -> Self {
        let port = ReservedPort::reserve().unwrap();
        let packages = std::env::var_os("HERMES_TEST_NPM").unwrap();
        let child = Command::new(Path::new(&packages).join("mcp-server-everything"))
            .arg("streamableHttp")
            .env("PORT", port.number().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = ("127.0.0.1", port.number());
        wait_until("the server listens", || TcpStream::connect(address).is_ok());
        Self {
            child,
            url: format!("http://127.0.0.1:{}/mcp", port.number()),
            _port: port,
        }
    }
}

impl Drop for EverythingServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `oidc-provider`, with one person, who is signed in without being asked; it ends when dropped.
struct ProviderProcess {
    child: Child,
    issuer: String,
}

impl ProviderProcess {
    fn start(node: &Path, hub: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = "../hermes-hub/tests/it/console/real_servers/provider.mjs";
        let mut child = Command::new(node)
            .arg(directory.join(script))
            .arg(hub)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Self {
            child,
            issuer: told["issuer"].as_str().unwrap().to_owned(),
        }
    }
}

impl Drop for ProviderProcess {
    fn drop(&mut self) {
        // The end of stdin ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A Hub in which there is something of everything.
struct ConsoleSite {
    hub: RealHub,
    /// It answers as long as this lives.
    model: ModelServer,
}

fn model_script() -> ModelScript {
    let words: Vec<String> = (0..40).map(|number| format!("word{number} ")).collect();
    let slow =
        ScriptedAnswer::pieces(words.iter().map(String::as_str)).with(|reply| reply.pause_ms = 100);
    let command = |command: &str| ScriptedAnswer::call("terminal", &json!({ "command": command }));
    let thoughtful = command("rm -r old").with(|reply| {
        reply.text = words[..30].to_vec();
        reply.pause_ms = 100;
    });
    ModelScript::echo()
        .rule("clear up", command("rm -r old"))
        .rule("clear others", command("rm -r others"))
        .rule("think it over", thoughtful)
        .rule("say it slowly", slow)
        .rule(
            "fill it in",
            ScriptedAnswer::call("mcp_everything_trigger_elicitation_request", &json!({})),
        )
        .rule("say it hostile", ScriptedAnswer::text(&hostile_text()))
        .rule("fail", ScriptedAnswer::status(400, HOSTILE))
}

/// 100 KB without a place to break it.
fn hostile_text() -> String {
    format!("{HOSTILE}{}", "x".repeat(100_000))
}

impl ConsoleSite {
    /// With the tenant `acme`, whose model is scripted, and which asks before it deletes.
    async fn start() -> Self {
        Self::over(RealHub::start()).await
    }

    async fn over(hub: RealHub) -> Self {
        let model = hub
            .tenant("acme", json!({"displayName": "Acme"}), model_script())
            .await;
        let home = hub.tenant_home("acme");
        let config = fs::read_to_string(home.join("config.yaml")).unwrap();
        let config = config.replace("mode: 'off'", "mode: manual");
        fs::write(home.join("config.yaml"), config).unwrap();
        fs::create_dir_all(home.join("workspace/old")).unwrap();
        Self { hub, model }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let reply = self.hub.request(method, path, &body).await;
        assert!(reply.status < 300, "{path}: {reply:?}");
        reply.body
    }

    async fn token(&self, rights: Value) -> String {
        let minted = self.send(Method::POST, "/v1/tokens", rights).await;
        minted["token"].as_str().unwrap().to_owned()
    }

    /// The official server with a tool of every kind, over HTTP: a tenant may not start what is installed for us.
    async fn add_everything(&self) -> EverythingServer {
        let server = EverythingServer::start();
        let entry = json!({ "url": server.url });
        let path = "/v1/tenants/acme/mcp-servers/everything";
        self.send(Method::PUT, path, entry).await;
        server
    }

    async fn start_waiting_run(&self) -> String {
        let run = self.hub.start_run("acme", "clear up").await;
        let waits = |run: &Value| run["status"] == "waiting_for_approval";
        self.hub.wait_for(&run, waits).await;
        run
    }

    /// Something for every page, and hostile text wherever it can be written.
    async fn fill(&self) -> EverythingServer {
        let group = json!({"id": "team", "displayName": HOSTILE});
        self.send(Method::POST, "/v1/groups", group).await;
        let tenant = json!({"id": "hostile", "displayName": HOSTILE, "start": false,
            "groups": [{"id": "team", "access": "write"}]});
        self.send(Method::POST, "/v1/tenants", tenant).await;
        let blocked = json!({"status": "blocked", "reason": HOSTILE, "message": HOSTILE});
        self.send(Method::PUT, "/v1/tenants/hostile/access", blocked)
            .await;
        let member = json!({"access": "write"});
        self.send(Method::PUT, "/v1/groups/team/members/acme", member)
            .await;
        let library = format!("---\nname: minutes\ndescription: >-\n  {HOSTILE}\n---\n");
        let library = json!({"files": [{"path": "SKILL.md", "content": library}]});
        self.send(Method::PUT, "/v1/skills/minutes", library).await;
        let token = json!({"name": HOSTILE, "role": "viewer"});
        self.send(Method::POST, "/v1/tokens", token).await;
        for (path, content) in [
            ("notes/report.md", "# Report\n\nan invoice\n"),
            ("notes/<img src=x onerror=globalThis.hacked=1>.md", HOSTILE),
            ("long.txt", &hostile_text()),
        ] {
            let file = json!({"path": path, "content": content});
            let files = "/v1/tenants/acme/shares/team/files/content";
            self.send(Method::PUT, files, file).await;
        }
        // Not over the API, which refuses such a name.
        let share = self.hub.data().join("shares/team");
        fs::write(share.join("\u{202e}gnp.exe"), "turned").unwrap();
        let home = self.hub.tenant_home("acme");
        let skill = home.join("skills/content/writer");
        fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: writer\ndescription: '{HOSTILE}'\n---\n{HOSTILE}\n");
        fs::write(skill.join("SKILL.md"), text).unwrap();
        for path in ["SOUL.md", "memories/MEMORY.md", "workspace/note.md"] {
            fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            fs::write(home.join(path), HOSTILE).unwrap();
        }
        let job =
            json!({"id": "daily", "name": HOSTILE, "schedule": "0 9 * * *", "prompt": HOSTILE});
        self.send(Method::POST, "/v1/tenants/acme/agent-cron", job)
            .await;
        // Of events that never come: nothing is sent.
        let hook = json!({"url": "https://example.org/hook", "events": ["quota.near"],
            "tenants": ["hostile"]});
        self.send(Method::POST, "/v1/webhooks", hook).await;
        let server = self.add_everything().await;
        for input in ["hello", "say it hostile", "fail", &hostile_text()] {
            self.hub.run("acme", input).await;
        }
        self.start_waiting_run().await;
        server
    }
}
