//! Configurations that users already have: every example of the published documentation loads as it says.

use std::time::Duration;

use hermes_config::{AuditLevel, Auth, CallOrder, Server, Settings, TransportSettings, Variables};

/// Loads a text in which every server must be usable and nothing is warned of.
fn load(text: &str) -> Settings {
    let settings = Settings::parse(text, Variables::default()).unwrap();
    assert_eq!(settings.warnings, [], "{text}");
    for entry in &settings.servers {
        assert_eq!(entry.server.as_ref().err(), None, "{text}");
    }
    settings
}

fn server(text: &str, name: &str) -> Server {
    load(text).server(name).unwrap().server.clone().unwrap()
}

fn names(text: &str) -> Vec<String> {
    let settings = load(text);
    settings
        .servers
        .iter()
        .map(|entry| entry.name.to_string())
        .collect()
}

#[test]
fn the_root_shape_with_either_transport() {
    let common = "    enabled: true
    timeout: 120
    connect_timeout: 60
    supports_parallel_tool_calls: false
    tools:
      include: []
      exclude: []
      resources: true
      prompts: true
";
    let local = format!(
        "mcp_servers:\n  s:\n    command: \"run\"      # stdio servers\n    args: []\n    env: {{}}\n\n{common}"
    );
    let remote = format!(
        "mcp_servers:\n  s:\n    url: \"https://x.example\"          # HTTP servers\n    headers: {{}}\n\n{common}"
    );
    for (text, kind) in [(local, "stdio"), (remote, "http")] {
        let server = server(&text, "s");
        assert_eq!(server.transport.kind(), kind);
        assert_eq!(server.timeout, Duration::from_mins(2));
        assert_eq!(server.tools.include, Some(vec![]));
    }
}

#[test]
fn safe_github_allowlist() {
    let server = server(
        r#"
mcp_servers:
  github:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-github"]
    env:
      GITHUB_PERSONAL_ACCESS_TOKEN: "***"
    tools:
      include: [list_issues, create_issue, update_issue, search_code]
      resources: false
      prompts: false
"#,
        "github",
    );
    assert_eq!(server.tools.include.unwrap().len(), 4);
    assert!(!server.tools.resources && !server.tools.prompts);
    let TransportSettings::Stdio(stdio) = server.transport else {
        panic!()
    };
    assert_eq!(stdio.args, ["-y", "@modelcontextprotocol/server-github"]);
    assert_eq!(
        stdio.env,
        [("GITHUB_PERSONAL_ACCESS_TOKEN".into(), "***".into())]
    );
}

#[test]
fn stripe_blacklist_and_resource_only_docs() {
    let text = r#"
mcp_servers:
  stripe:
    url: "https://mcp.stripe.com"
    headers:
      Authorization: "Bearer ***"
    tools:
      exclude: [delete_customer, refund_payment]
  docs:
    url: "https://mcp.docs.example.com"
    tools:
      include: []
      resources: true
      prompts: false
"#;
    let stripe = server(text, "stripe");
    assert_eq!(
        stripe.tools.exclude.unwrap(),
        ["delete_customer", "refund_payment"]
    );
    assert_eq!(stripe.tools.include, None);
    let docs = server(text, "docs");
    assert_eq!(docs.tools.include, Some(vec![]));
    assert!(docs.tools.resources && !docs.tools.prompts);
}

#[test]
fn both_filters_at_once() {
    let server = server(
        "mcp_servers:\n  s:\n    command: x\n    tools:\n      include: [create_issue]\n      exclude: [create_issue, delete_issue]\n",
        "s",
    );
    assert_eq!(server.tools.include.unwrap(), ["create_issue"]);
    assert_eq!(server.tools.exclude.unwrap().len(), 2);
}

#[test]
fn a_disabled_server_is_kept() {
    let text =
        "mcp_servers:\n  legacy:\n    url: \"https://mcp.legacy.internal\"\n    enabled: false\n";
    assert!(!server(text, "legacy").enabled);
}

#[test]
fn oauth_needs_one_line() {
    let text = "mcp_servers:\n  protected_api:\n    url: \"https://mcp.example.com/mcp\"\n    auth: oauth\n";
    assert_eq!(server(text, "protected_api").auth, Some(Auth::OAuth));
}

#[test]
fn parallel_calls() {
    let text = "mcp_servers:\n  docs:\n    command: \"docs-server\"\n    supports_parallel_tool_calls: true\n";
    assert_eq!(server(text, "docs").calls, CallOrder::Parallel);
}

#[test]
fn small_local_servers() {
    for (text, name) in [
        (
            "mcp_servers:\n  time:\n    command: \"uvx\"\n    args: [\"mcp-server-time\"]\n",
            "time",
        ),
        (
            "mcp_servers:\n  codex:\n    command: \"codex\"\n    args: [\"mcp-server\"]\n",
            "codex",
        ),
        (
            "mcp_servers:\n  filesystem:\n    command: \"npx\"\n    args: [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/home/user/documents\"]\n    timeout: 30\n",
            "filesystem",
        ),
        (
            "mcp_servers:\n  slow_server:\n    command: \"npx\"\n    args: [\"-y\", \"heavy-server-package\"]\n    connect_timeout: 120   # default is 60\n",
            "slow_server",
        ),
    ] {
        assert_eq!(names(text), [name]);
    }
}

#[test]
fn a_remote_server_with_two_headers() {
    let server = server(
        r#"
mcp_servers:
  company_api:
    url: "https://mcp.mycompany.com/v1/mcp"
    headers:
      Authorization: "Bearer sk-xxxxxxxxxxxxxxxxxxxx"
      X-Team-Id: "engineering"
    timeout: 180
    connect_timeout: 30
"#,
        "company_api",
    );
    let TransportSettings::Http(http) = server.transport else {
        panic!()
    };
    assert_eq!(http.headers.len(), 2);
    assert_eq!(server.timeout, Duration::from_mins(3));
    assert_eq!(server.connect_timeout, Duration::from_secs(30));
    assert!(server.connect_timeout_is_set);
}

#[test]
fn many_servers_in_one_file() {
    let text = r#"
mcp_servers:
  # No API key needed
  filesystem:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/home/user/projects"]

  git:
    command: "uvx"
    args: ["mcp-server-git", "--repository", "/home/user/my-repo"]

  fetch:
    command: "uvx"
    args: ["mcp-server-fetch"]

  sqlite:
    command: "uvx"
    args: ["mcp-server-sqlite", "--db-path", "/home/user/data.db"]

  # Requires API key
  github:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-github"]
    env:
      GITHUB_PERSONAL_ACCESS_TOKEN: "ghp_xxxxxxxxxxxx"

  brave_search:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-brave-search"]
    env:
      BRAVE_API_KEY: "BSA_xxxxxxxxxxxx"

  # Remote database via HTTP
  company_db:
    url: "https://mcp.internal.company.com/db"
    headers:
      Authorization: "Bearer sk-xxxxxxxxxxxx"
    timeout: 180

  slow_database:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-postgres"]
    env:
      DATABASE_URL: "postgres://user:pass@localhost/mydb"
    timeout: 300          # Tool call timeout (default: 120s)
    connect_timeout: 90   # Initial connection timeout (default: 60s)
"#;
    assert_eq!(
        names(text),
        [
            "filesystem",
            "git",
            "fetch",
            "sqlite",
            "github",
            "brave_search",
            "company_db",
            "slow_database"
        ]
    );
}

#[test]
fn sampling_on_and_off() {
    let text = r#"
mcp_servers:
  analysis_server:
    command: "npx"
    args: ["-y", "my-analysis-server"]
    sampling:
      enabled: true            # default: true
      model: "gemini-3-flash"  # override model (optional)
      max_tokens_cap: 4096     # max tokens per request (default: 4096)
      timeout: 30              # LLM call timeout in seconds (default: 30)
      max_rpm: 10              # max requests per minute (default: 10)
      allowed_models: []       # model whitelist (empty = allow all)
      max_tool_rounds: 5       # max consecutive tool use rounds (0 = disable)
      log_level: "info"        # audit verbosity: debug, info, warning
  untrusted:
    command: "npx"
    args: ["-y", "untrusted-server"]
    sampling: { enabled: false }
"#;
    let sampling = server(text, "analysis_server").sampling;
    assert_eq!(sampling.model.as_deref(), Some("gemini-3-flash"));
    assert_eq!(sampling.max_tokens_cap, 4096);
    assert_eq!(sampling.log_level, AuditLevel::Info);
    assert!(sampling.allowed_models.is_empty());
    assert!(!server(text, "untrusted").sampling.enabled);
}

#[test]
fn json_of_another_product_is_pointed_to_the_right_key() {
    let text = r#"{"mcpServers": {"filesystem": {"command": "npx", "args": ["-y", "x"]}}}"#;
    let settings = Settings::parse(text, Variables::default()).unwrap();
    assert!(settings.servers.is_empty());
    assert!(settings.warnings[0].message.contains("`mcp_servers`"));
}
