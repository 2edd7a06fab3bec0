//! An authorization server, an MCP server, middleware and a browser that others wrote; and Hermes Agent in Python, which
//! shares the files.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::*;
use crate::harness::program::installed;

fn script(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    directory.join("tests/it/mcp/login/real_servers").join(name)
}

/// Both servers, and a home that knows the MCP server as `remote`.
struct RealOAuthServers {
    servers: Child,
    issuer: String,
    hermes: Hermes,
    node: PathBuf,
}

impl RealOAuthServers {
    /// With access tokens that last so many seconds.
    fn start(lifetime: u32) -> Option<Self> {
        let node = installed("HERMES_TEST_OAUTH", "node/bin/node")?;
        installed("HERMES_TEST_NPM", "mcp-server-everything")?;
        installed("HERMES_TEST_BROWSER", "")?;
        let mut servers = Command::new(&node)
            .arg(script("place.mjs"))
            .arg(lifetime.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(servers.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let addresses: Value = serde_json::from_str(&line).unwrap();
        let entry = json!({ "url": addresses["mcp"], "auth": "oauth" });
        let config = json!({ "mcp_servers": { "remote": entry } });
        Some(Self {
            servers,
            issuer: addresses["issuer"].as_str().unwrap().to_owned(),
            hermes: Hermes::with_config(&config.to_string()),
            node,
        })
    }

    /// Somebody opens an address in a real browser, signs in and decides.
    fn person(&self, address: &str, decision: &str) -> Value {
        self.person_with(&[address, decision])
    }

    fn person_with(&self, arguments: &[&str]) -> Value {
        let output = Command::new(&self.node)
            .arg(script("person.mjs"))
            .args(arguments)
            .output()
            .unwrap();
        let problem = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{problem}"))
    }

    /// Logs in at a terminal: its exit code, its screen, and what the person saw.
    fn log_in(&self, decision: &str) -> (i32, String, Value) {
        let mut terminal = Terminal::start(self.hermes.command(&["mcp", "login", "remote"]));
        let address = terminal.word_with(&format!("{}/auth?", self.issuer));
        let seen = self.person(&address, decision);
        let (code, screen) = terminal.end();
        (code, screen, seen)
    }

    fn echo(&self) -> CommandOutput {
        let arguments = r#"{"message":"hello"}"#;
        self.hermes
            .run(&["mcp", "call", "remote", "echo", arguments, "--json"])
    }

    fn tokens(&self) -> Value {
        serde_json::from_str(&self.hermes.read("mcp-tokens/remote.json")).unwrap_or_default()
    }
}

impl Drop for RealOAuthServers {
    fn drop(&mut self) {
        // The end of stdin ends them.
        drop(self.servers.stdin.take());
        let _ = self.servers.wait();
    }
}

#[test]
fn somebody_signs_in_and_consents_in_a_browser() {
    // Every call has to renew the token.
    let Some(place) = RealOAuthServers::start(45) else {
        return;
    };
    place.echo().exits_with(4);
    let (code, screen, seen) = place.log_in("consent");
    assert_eq!(code, 0, "{screen}\n{seen}");
    assert_eq!(seen["pages"], json!(["Sign-in", "Authorize"]), "{seen}");
    assert_eq!(seen["alerts"], json!([]));
    let first = place.tokens();
    for _ in 0..2 {
        let ran = place.echo().ok();
        assert!(ran.stdout.contains("Echo: hello"), "{ran:#?}");
    }
    let later = place.tokens();
    assert_ne!(later["access_token"], first["access_token"]);
    // This server rotates refresh tokens of clients without a secret.
    assert_ne!(later["refresh_token"], first["refresh_token"]);
    let gone = place.hermes.run(&["mcp", "logout", "remote"]).ok();
    gone.hides(&[later["access_token"].as_str().unwrap()]);
    place.echo().exits_with(4);
}

#[test]
fn somebody_who_does_not_consent_is_told_so_in_the_browser_and_here() {
    let Some(place) = RealOAuthServers::start(3600) else {
        return;
    };
    let (code, screen, seen) = place.log_in("refuse");
    assert_ne!(code, 0, "{screen}");
    assert!(screen.contains("access_denied"), "{screen}");
    assert!(
        seen["text"].as_str().unwrap().contains("access_denied"),
        "{seen}"
    );
    assert_eq!(place.tokens(), Value::Null);
}

#[test]
fn somebody_enters_the_code_of_a_device_in_a_browser() {
    let Some(place) = RealOAuthServers::start(3600) else {
        return;
    };
    let login = ["mcp", "login", "remote", "--flow", "device"];
    let mut terminal = Terminal::start(place.hermes.command(&login));
    let address = terminal.word_with(&format!("{}/device", place.issuer));
    // Two groups of capital letters.
    let mut code = String::new();
    assert!(hermes_testkit::wait_until(
        crate::harness::test_home::TIMEOUT,
        || {
            let screen = terminal.screen();
            let mut words = screen.split_whitespace();
            let is_code = |word: &&str| {
                word.contains('-') && word.chars().all(|c| c == '-' || c.is_ascii_uppercase())
            };
            code = words.find(is_code).unwrap_or_default().to_owned();
            !code.is_empty()
        }
    ));
    let seen = place.person_with(&[&address, "consent", &code]);
    let (ended, screen) = terminal.end();
    assert_eq!(ended, 0, "{screen}\n{seen}");
    let pages = json!(["Sign-in", "Confirm Device", "Sign-in", "Authorize"]);
    assert_eq!(seen["pages"], pages, "{seen}");
    let ran = place.echo().ok();
    assert!(ran.stdout.contains("Echo: hello"), "{ran:#?}");
}

#[test]
fn a_program_with_a_secret_needs_no_browser() {
    let Some(place) = RealOAuthServers::start(3600) else {
        return;
    };
    let mut entry = place.hermes.entry("remote");
    entry["oauth"] = json!({
        "grant": "client_credentials", "client_id": "robot", "client_secret": "a secret of the robot",
    });
    let config = json!({ "mcp_servers": { "remote": entry } });
    place.hermes.home.write_config(&config.to_string());
    let ran = place.echo().ok();
    assert!(ran.stdout.contains("Echo: hello"), "{ran:#?}");
}

/// What the agent in Python makes of the files: its answer, and what it says besides.
fn ask_python(python: &Path, place: &super::OAuthHome, arguments: [&str; 2]) -> (Value, String) {
    let output = Command::new(python)
        .arg(script("tokens.py"))
        .args(arguments)
        .env("HERMES_HOME", place.hermes.home.path())
        .env("HOME", place.hermes.user())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    (answer, said)
}

#[test]
fn hermes_agent_in_python_takes_a_token_bound_to_a_key_for_none() {
    let Some(python) = installed("HERMES_TEST_VENV_HERMES", "bin/python") else {
        return;
    };
    let proof = hermes_testkit::authorization::ProofOfPossession::Required;
    let setup = AuthorizationSetup::with(|setup| setup.proof = proof);
    let place = super::OAuthHome::new(setup, Resource::default());
    place.log_in().ok();
    let ours = place.tokens();
    let (read, said) = ask_python(&python, &place, ["read", ""]);
    // It would ask for a login, and finds client and metadata for it.
    assert_eq!(read["tokens"], Value::Null, "{read}");
    assert!(read["client"]["client_id"].is_string(), "{read}");
    assert!(read["metadata"]["token_endpoint"].is_string(), "{read}");
    for name in ["access_token", "refresh_token", "dpop_key"] {
        assert!(!said.contains(ours[name].as_str().unwrap()), "{name}");
    }
    // Nothing of the file is touched by that.
    assert_eq!(place.tokens(), ours);
    place.works();
}

#[test]
fn hermes_agent_in_python_reads_our_tokens_and_we_read_its() {
    let Some(python) = installed("HERMES_TEST_VENV_HERMES", "bin/python") else {
        return;
    };
    let place = super::OAuthHome::usual();
    place.log_in().ok();
    let ours = place.tokens();
    let ask = |verb: &str, argument: &str| ask_python(&python, &place, [verb, argument]).0;
    let read = ask("read", "");
    assert_eq!(read["tokens"]["access_token"], ours["access_token"]);
    assert_eq!(read["tokens"]["refresh_token"], ours["refresh_token"]);
    assert!(
        read["tokens"]["expires_in"].as_u64().unwrap() > 3000,
        "{read}"
    );
    assert_eq!(
        read["metadata"]["token_endpoint"],
        format!("{}/token", place.server.issuer())
    );
    let registered = &read["client"]["client_id"];
    assert!(
        registered.as_str().unwrap().starts_with("client-"),
        "{read}"
    );
    // It renews the token by itself and writes what it got; ours must go on from there.
    let renewed = ask("renew", &place.mcp.url());
    assert_ne!(renewed["access_token"], ours["access_token"]);
    place.works();
    assert_eq!(place.tokens()["access_token"], renewed["access_token"]);
    place.server.expire_access_tokens();
    place.works();
}
