//! Logins at MCP servers, with an authorization server that fails and lies on demand.

mod callback;
mod clients;
mod discovery;
mod faults;
mod files;
mod flow;
mod noninteractive;
mod processes;
mod real_servers;
mod secrecy;

use std::{fs, path::PathBuf, time::Duration};

use hermes_testkit::{
    HttpServer,
    authorization::{
        AuthorizationServer, AuthorizationSetup, CallbackFault, Endpoint, EndpointFault, Resource,
        VisitedPage, browse,
    },
};
use serde_json::{Value, json};

use crate::harness::{
    program::{CommandOutput, Hermes, assert_private},
    terminal::Terminal,
};

/// So short that every use of a token renews it first.
const SHORT_LIFETIME: Duration = Duration::from_secs(30);

/// A home with one server, `remote`, and everything that server needs.
struct OAuthHome {
    hermes: Hermes,
    server: AuthorizationServer,
    mcp: HttpServer,
}

/// How a login at a terminal ended.
struct LoginResult {
    code: i32,
    screen: String,
    /// What the browser showed last.
    page: VisitedPage,
}

impl LoginResult {
    #[track_caller]
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.screen);
        self
    }

    /// It failed and said these words, at its end: the address of the login above that has many words in it.
    #[track_caller]
    fn failed(self, words: &[&str]) -> Self {
        assert_eq!(self.code, 1, "{}", self.screen);
        let text = self.screen.replace("\r\n", " ");
        let (_, error) = text.rsplit_once("error:").unwrap_or_default();
        for word in words {
            assert!(error.contains(word), "no `{word}` in:\n{}", self.screen);
        }
        self
    }
}

impl OAuthHome {
    fn new(setup: AuthorizationSetup, resource: Resource) -> Self {
        let server = AuthorizationServer::start(setup);
        let mcp = server.protect(resource);
        let place = Self {
            hermes: Hermes::new(),
            server,
            mcp,
        };
        place.configure(json!({}));
        place
    }

    fn usual() -> Self {
        Self::new(AuthorizationSetup::default(), Resource::default())
    }

    /// Writes the entry of the server, with these settings under `oauth`.
    fn configure(&self, oauth: Value) {
        let mut entry = json!({ "url": self.mcp.url(), "auth": "oauth", "connect_timeout": 20 });
        if oauth.as_object().is_some_and(|keys| !keys.is_empty()) {
            entry["oauth"] = oauth;
        }
        let config = json!({ "mcp_servers": { "remote": entry } });
        self.hermes.home.write_config(&config.to_string());
    }

    /// Begins a login at a terminal: the terminal, and the address to open.
    fn begin(&self) -> (Terminal, String) {
        let mut terminal = Terminal::start(self.hermes.command(&["mcp", "login", "remote"]));
        let address = terminal.word_with("/authorize?");
        (terminal, address)
    }

    /// Logs in at a terminal, with a browser that goes where it is sent.
    fn log_in(&self) -> LoginResult {
        let (mut terminal, address) = self.begin();
        let page = browse(&address).unwrap();
        let (code, screen) = terminal.end();
        LoginResult { code, screen, page }
    }

    /// A login that fails before anybody is sent anywhere.
    fn refused_login(&self) -> CommandOutput {
        self.hermes.run(&["mcp", "login", "remote", "--no-browser"])
    }

    fn call(&self) -> CommandOutput {
        self.call_tool("echo")
    }

    fn call_tool(&self, tool: &str) -> CommandOutput {
        let arguments = r#"{"text":"hello","a":1,"b":2}"#;
        self.hermes
            .run(&["mcp", "call", "remote", tool, arguments, "--json"])
    }

    /// The call works.
    #[track_caller]
    fn works(&self) {
        let ran = self.call().ok();
        assert!(ran.stdout.contains("hello"), "{ran:#?}");
    }

    /// The call says that somebody has to log in, and how.
    #[track_caller]
    fn needs_login(&self) -> CommandOutput {
        let ran = self.call().wants_login();
        assert!(ran.stdout.contains("hermes mcp login remote"), "{ran:#?}");
        ran
    }

    fn token_file(&self) -> PathBuf {
        self.hermes.home.path().join("mcp-tokens/remote.json")
    }

    fn tokens(&self) -> Value {
        let text = fs::read_to_string(self.token_file()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The requests for tokens of this kind.
    fn grants(&self, kind: &str) -> usize {
        let requests = self.server.requests_to(Endpoint::Token).into_iter();
        let of_kind = requests.filter(|r| r.parameter("grant_type").as_deref() == Some(kind));
        of_kind.count()
    }
}
