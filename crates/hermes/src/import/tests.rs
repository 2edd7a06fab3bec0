//! Files as the products write them, and what becomes of them.

use std::path::Path;

use serde_json::{Value, json};

use super::{Candidate, ImportError, ImportSource, Imported, detect_source, read_servers};

macro_rules! fixture {
    ($file:literal) => {
        include_str!(concat!("../../tests/fixtures/import/", $file))
    };
}

/// Every fixture, as if found at this place.
const FIXTURES: [(ImportSource, &str, &str); 12] = [
    (
        ImportSource::ClaudeDesktop,
        "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json",
        fixture!("claude-desktop/claude_desktop_config.json"),
    ),
    (
        ImportSource::ClaudeCode,
        "/Users/ada/.claude.json",
        fixture!("claude-code/.claude.json"),
    ),
    (
        ImportSource::ClaudeCode,
        "/src/app/.mcp.json",
        fixture!("claude-code/.mcp.json"),
    ),
    (
        ImportSource::Cursor,
        "/src/app/.cursor/mcp.json",
        fixture!("cursor/mcp.json"),
    ),
    (
        ImportSource::Windsurf,
        "/home/ada/.codeium/windsurf/mcp_config.json",
        fixture!("windsurf/mcp_config.json"),
    ),
    (
        ImportSource::VsCode,
        "/src/app/.vscode/mcp.json",
        fixture!("vscode/mcp.json"),
    ),
    (
        ImportSource::VsCode,
        "/home/ada/.config/Code/User/settings.json",
        fixture!("vscode/settings.json"),
    ),
    (
        ImportSource::Codex,
        "/home/ada/.codex/config.toml",
        fixture!("codex/config.toml"),
    ),
    (
        ImportSource::OpenCode,
        "/home/ada/.config/opencode/opencode.jsonc",
        fixture!("opencode/opencode.jsonc"),
    ),
    (
        ImportSource::OpenCode,
        "/src/app/opencode.json",
        fixture!("opencode/opencode.json"),
    ),
    (
        ImportSource::Zed,
        "/home/ada/.config/zed/settings.json",
        fixture!("zed/settings.json"),
    ),
    (
        ImportSource::Goose,
        "/home/ada/.config/goose/config.yaml",
        fixture!("goose/config.yaml"),
    ),
];

/// The candidates of the fixture found at `path`.
fn candidates(path: &str) -> Vec<Candidate> {
    let (source, _, text) = FIXTURES
        .into_iter()
        .find(|(_, file, _)| *file == path)
        .unwrap();
    read_servers(source, text, Path::new(path)).unwrap()
}

fn usable(candidates: &[Candidate]) -> Vec<&Imported> {
    let usable = candidates.iter().filter_map(|candidate| match candidate {
        Candidate::Usable(imported) => Some(imported),
        Candidate::Skipped { .. } => None,
    });
    usable.collect()
}

fn server<'a>(candidates: &'a [Candidate], name: &str) -> &'a Imported {
    usable(candidates)
        .into_iter()
        .find(|imported| imported.name == name)
        .unwrap()
}

/// All entries by name.
fn entries(candidates: &[Candidate]) -> Value {
    let entries = usable(candidates)
        .into_iter()
        .map(|imported| (imported.name.clone(), imported.entry.clone()));
    Value::Object(entries.collect())
}

fn skipped(candidates: &[Candidate]) -> Vec<(&str, &str)> {
    let skipped = candidates.iter().filter_map(|candidate| match candidate {
        Candidate::Skipped { name, reason } => Some((name.as_str(), reason.as_str())),
        Candidate::Usable(_) => None,
    });
    skipped.collect()
}

fn variables(imported: &Imported) -> Vec<(&str, &str)> {
    imported
        .variables
        .iter()
        .map(|variable| (variable.name.as_str(), variable.value.as_str()))
        .collect()
}

#[test]
fn every_fixture_gives_usable_servers_without_a_secret_in_sight() {
    for (source, path, text) in FIXTURES {
        let candidates = read_servers(source, text, Path::new(path)).unwrap();
        assert!(!usable(&candidates).is_empty(), "{path}");
        for imported in usable(&candidates) {
            let shown = format!("{imported:?}");
            assert!(!shown.contains("fixture"), "{path}: {shown}");
            let entry = imported.entry.as_object().unwrap();
            assert_ne!(
                entry.contains_key("command"),
                entry.contains_key("url"),
                "{path}: {shown}"
            );
            for variable in &imported.variables {
                assert!(
                    shown.contains(&variable.reference()),
                    "{path}: {}",
                    variable.name
                );
            }
        }
    }
}

#[test]
fn every_fixture_is_recognised_for_what_it_is() {
    for (source, path, text) in FIXTURES {
        assert_eq!(detect_source(Path::new(path), text), Some(source), "{path}");
    }
}

#[test]
fn claude_desktop_keeps_its_words() {
    let candidates =
        candidates("/Users/ada/Library/Application Support/Claude/claude_desktop_config.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "filesystem": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Documents", "/Users/ada/Desktop"],
            },
            "brave-search": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-brave-search"],
                "env": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
            },
            "linear": {
                "command": "npx",
                "args": [
                    "-y", "mcp-remote", "https://mcp.linear.app/sse", "--header",
                    "Authorization: Bearer ${MCP_LINEAR_AUTHORIZATION}",
                ],
            },
        })
    );
    assert_eq!(
        variables(server(&candidates, "brave-search")),
        [("BRAVE_API_KEY", "BSA-fixture-0001")]
    );
    assert_eq!(
        skipped(&candidates),
        [("unfinished", "it has neither a command nor a URL")]
    );
}

#[test]
fn claude_code_has_servers_for_all_and_for_projects() {
    let candidates = candidates("/Users/ada/.claude.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "github": {
                "url": "https://api.githubcopilot.com/mcp/",
                "headers": {"Authorization": "Bearer ${MCP_GITHUB_AUTHORIZATION}"},
            },
            "asana": {"url": "https://mcp.asana.com/sse", "transport": "sse"},
            "postgres": {"command": "npx", "args": ["-y", "@bytebase/dbhub", "--dsn", "${MCP_POSTGRES_DSN}"]},
            "postgres-shop": {"command": "./scripts/db-server", "cwd": "/Users/ada/src/shop"},
            "tickets": {
                "url": "https://tickets.example.com/mcp",
                "auth": "oauth",
                "oauth": {"client_id": "shop-client", "redirect_port": 8765},
            },
        })
    );
    assert_eq!(
        server(&candidates, "tickets").notes,
        ["was used in /Users/ada/src/shop only"]
    );
    assert_eq!(
        skipped(&candidates),
        [("in-process", "servers of type `sdk` are not supported")]
    );
}

#[test]
fn defaults_of_a_project_file_go_to_env() {
    let candidates = candidates("/src/app/.mcp.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "api": {
                "url": "${API_BASE_URL}/mcp",
                "headers": {"Authorization": "Bearer ${API_TOKEN}"},
                "timeout": 90,
            },
            "local": {
                "command": "node",
                "args": ["./tools/server.js", "--level", "${LOG_LEVEL}"],
                "env": {"CACHE_DIR": "", "SERVICE_SECRET": "${SERVICE_SECRET}"},
                "cwd": "/src/app",
            },
        })
    );
    assert_eq!(
        variables(server(&candidates, "api")),
        [("API_BASE_URL", "https://api.example.com")]
    );
    let expected = [("LOG_LEVEL", "info"), ("SERVICE_SECRET", "fixture-service")];
    assert_eq!(variables(server(&candidates, "local")), expected);
}

#[test]
fn cursor_keeps_env_references_and_knows_its_workspace() {
    let candidates = candidates("/src/app/.cursor/mcp.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "tasks": {
                "command": "uv",
                "args": ["run", "--directory", "/src/app/tools/tasks", "tasks-server"],
                "env": {"TASKS_TOKEN": "${env:TASKS_TOKEN}", "TASKS_ORG": "example"},
            },
            "notion": {"url": "https://mcp.notion.com/mcp"},
            "crm": {
                "url": "https://crm.example.com/mcp",
                "headers": {"X-API-Key": "${MCP_CRM_X_API_KEY}"},
                "auth": "oauth",
                "oauth": {
                    "client_id": "cursor-client",
                    "client_secret": "${MCP_CRM_CLIENT_SECRET}",
                    "scope": "read write",
                },
            },
            "old": {"command": "old-server", "enabled": false},
        })
    );
    assert!(server(&candidates, "tasks").notes[0].starts_with("`envFile`"));
    assert_eq!(
        server(&candidates, "old").notes,
        ["not carried over: `autoApprove`"]
    );
}

#[test]
fn windsurf_says_server_url() {
    let candidates = candidates("/home/ada/.codeium/windsurf/mcp_config.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "figma": {"url": "http://127.0.0.1:3845/mcp"},
            "remote-api": {
                "url": "https://api.example.com/mcp",
                "headers": {"API_KEY": "Bearer ${env:EXAMPLE_TOKEN}"},
                "tools": {"exclude": ["delete_everything"]},
            },
            "github-mcp-server": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-github"],
                "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}"},
                "enabled": false,
            },
        })
    );
}

#[test]
fn vscode_inputs_become_variables() {
    let candidates = candidates("/src/app/.vscode/mcp.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "perplexity": {
                "command": "npx",
                "args": ["-y", "server-perplexity-ask"],
                "env": {"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}", "REGION": "${REGION}", "RETRIES": "3"},
            },
            "docs": {
                "url": "https://docs.example.com/mcp",
                "headers": {"Authorization": "Bearer ${MCP_DOCS_AUTHORIZATION}"},
            },
            "workspace": {
                "command": "/src/app/.venv/bin/python",
                "args": ["-m", "server", "--config", "${config:server.file}"],
                "cwd": "/src/app",
            },
        })
    );
    let perplexity = server(&candidates, "perplexity");
    assert!(
        perplexity
            .notes
            .contains(&"set `PERPLEXITY_KEY` in `.env`: Perplexity API Key".to_owned())
    );
    assert_eq!(variables(perplexity), [("REGION", "eu-west-1")]);
    assert_eq!(server(&candidates, "docs").notes, [""; 0]);
    let notes = &server(&candidates, "workspace").notes;
    assert!(notes[0].starts_with("`envFile`"), "{notes:?}");
    assert_eq!(notes[1], "`${workspaceFolder}` is now /src/app");
    assert_eq!(
        notes[2],
        "`${config:server.file}` means nothing here: put a value in its place"
    );
    assert_eq!(
        skipped(&candidates),
        [("socket", "`unix://` addresses are not supported")]
    );
}

#[test]
fn vscode_settings_have_servers_too() {
    assert_eq!(
        entries(&candidates("/home/ada/.config/Code/User/settings.json")),
        json!({
            "time": {
                "command": "python",
                "args": ["-m", "mcp_server_time", "--local-timezone=America/Los_Angeles"],
            },
            "events": {"url": "http://localhost:3001/sse", "transport": "sse"},
        })
    );
}

#[test]
fn codex_limits_lists_and_variables_are_translated() {
    let candidates = candidates("/home/ada/.codex/config.toml");
    assert_eq!(
        entries(&candidates),
        json!({
            "context7": {
                "command": "npx",
                "args": ["-y", "@upstash/context7-mcp"],
                "env": {
                    "CONTEXT7_API_KEY": "${CONTEXT7_API_KEY}",
                    "LOG_LEVEL": "warn",
                    "LOCAL_TOKEN": "${LOCAL_TOKEN}",
                    "REGION": "${REGION}",
                },
                "connect_timeout": 20,
            },
            "figma": {
                "url": "https://mcp.figma.com/mcp",
                "headers": {
                    "X-Figma-Region": "us-east-1",
                    "X-Team": "${FIGMA_TEAM}",
                    "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}",
                },
                "timeout": 45.5,
            },
            "chrome_devtools": {
                "command": "chrome-devtools-mcp",
                "cwd": "/home/ada/src/shop",
                "enabled": false,
                "connect_timeout": 15,
                "supports_parallel_tool_calls": true,
                "tools": {"include": ["open", "screenshot"]},
            },
            "tickets": {
                "url": "https://tickets.example.com/mcp",
                "tools": {"exclude": ["purge"]},
                "auth": "oauth",
                "oauth": {"client_id": "codex-client", "scope": "tickets.read tickets.write"},
            },
        })
    );
    assert_eq!(
        server(&candidates, "chrome_devtools").notes,
        ["not carried over: `required`"]
    );
}

#[test]
fn opencode_commands_are_split_and_references_rewritten() {
    let candidates = candidates("/home/ada/.config/opencode/opencode.jsonc");
    assert_eq!(
        entries(&candidates),
        json!({
            "playwright": {
                "command": "npx",
                "args": ["-y", "@playwright/mcp@latest"],
                "env": {"PLAYWRIGHT_TOKEN": "${PLAYWRIGHT_TOKEN}", "SERVICE_KEY": "${SERVICE_KEY}"},
                "timeout": 12.5,
            },
            "context7": {
                "url": "https://mcp.context7.com/mcp",
                "headers": {
                    "CONTEXT7_API_KEY": "${CONTEXT7_API_KEY}",
                    "X-Signing-Key": "${file:/home/ada/.config/opencode/signing.key}",
                },
                "enabled": false,
            },
            "sentry": {
                "url": "https://mcp.sentry.dev/mcp",
                "auth": "oauth",
                "oauth": {
                    "client_id": "opencode-client",
                    "client_secret": "${SENTRY_CLIENT_SECRET}",
                    "scope": "project:read event:read",
                },
            },
        })
    );
    assert_eq!(skipped(&candidates)[0].0, "from-the-organisation");
}

#[test]
fn opencode_of_the_second_version_is_read_as_well() {
    assert_eq!(
        entries(&candidates("/src/app/opencode.json")),
        json!({
            "everything": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-everything"],
                "env": {"LOG_LEVEL": "debug"},
                "cwd": "/home/ada/src/shop",
                "enabled": false,
                "connect_timeout": 30,
                "timeout": 60,
            },
            "tickets": {
                "url": "https://tickets.example.com/mcp",
                "auth": "oauth",
                "oauth": {"client_id": "opencode-client"},
            },
        })
    );
}

#[test]
fn zed_commands_may_be_objects() {
    let candidates = candidates("/home/ada/.config/zed/settings.json");
    assert_eq!(
        entries(&candidates),
        json!({
            "local-notes": {
                "command": "uvx",
                "args": ["notes-server"],
                "env": {"NOTES_PASSWORD": "${NOTES_PASSWORD}"},
            },
            "postgres-context": {
                "command": "postgres-context-server",
                "args": ["--read-only"],
                "env": {"DATABASE_URL": "${DATABASE_URL}"},
            },
            "remote": {
                "url": "https://mcp.example.com/mcp",
                "headers": {"Authorization": "Bearer ${MCP_REMOTE_AUTHORIZATION}"},
            },
            "off": {"command": "off-server", "enabled": false},
        })
    );
    let reason = "it comes with a Zed extension, which only Zed can start";
    assert_eq!(skipped(&candidates), [("mcp-server-github", reason)]);
}

#[test]
fn goose_extensions_that_are_servers_are_taken() {
    let candidates = candidates("/home/ada/.config/goose/config.yaml");
    assert_eq!(
        entries(&candidates),
        json!({
            "tavily": {
                "command": "npx",
                "args": ["-y", "tavily-mcp"],
                "env": {
                    "TAVILY_DEPTH": "advanced",
                    "TAVILY_PROXY_PASSWORD": "${TAVILY_PROXY_PASSWORD}",
                    "TAVILY_API_KEY": "${TAVILY_API_KEY}",
                },
                "timeout": 300,
                "tools": {"include": ["tavily-search"]},
            },
            "kb": {
                "url": "https://kb.example.com/mcp",
                "headers": {"Authorization": "Bearer ${KB_TOKEN}", "X-Api-Key": "${MCP_KB_X_API_KEY}"},
                "enabled": false,
            },
            "legacy": {"url": "http://localhost:9000/sse", "transport": "sse"},
        })
    );
    let tavily = "set `TAVILY_API_KEY` in `.env`: Goose keeps it in its own secret store";
    assert_eq!(server(&candidates, "tavily").notes, [tavily]);
    let names: Vec<_> = skipped(&candidates)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["developer", "todo"]);
}

#[test]
fn a_file_without_servers_is_not_an_error() {
    for source in ImportSource::ALL {
        assert_eq!(
            read_servers(source, "", Path::new("/x")),
            Ok(Vec::new()),
            "{source:?}"
        );
    }
    assert_eq!(
        read_servers(ImportSource::Cursor, "{}", Path::new("/x")),
        Ok(Vec::new())
    );
}

#[test]
fn servers_that_are_not_a_mapping_are_an_error_that_names_the_key() {
    let error = read_servers(
        ImportSource::Cursor,
        r#"{"mcpServers": []}"#,
        Path::new("/x/mcp.json"),
    )
    .unwrap_err();
    assert!(matches!(error, ImportError::Shape { .. }));
    assert_eq!(
        error.to_string(),
        "/x/mcp.json: `mcpServers` should be a mapping of server names"
    );
}

#[test]
fn one_bad_server_does_not_hide_the_others() {
    let text = r#"{"mcpServers": {
        "list": [], "": {"command": "x"}, "both": {"command": "x", "url": "https://y"}, "good": {"command": "x"}
    }}"#;
    let candidates = read_servers(ImportSource::ClaudeDesktop, text, Path::new("/x")).unwrap();
    assert_eq!(entries(&candidates), json!({"good": {"command": "x"}}));
    assert_eq!(skipped(&candidates).len(), 3);
}

#[test]
fn equal_names_for_different_values_are_told_apart() {
    let text = r#"{"mcpServers": {
        "a": {"command": "x", "env": {"API_KEY": "one"}}, "b": {"command": "x", "env": {"API_KEY": "two"}}
    }}"#;
    let candidates = read_servers(ImportSource::ClaudeDesktop, text, Path::new("/x")).unwrap();
    assert_eq!(
        server(&candidates, "a").entry["env"]["API_KEY"],
        "${API_KEY}"
    );
    assert_eq!(
        server(&candidates, "b").entry["env"]["API_KEY"],
        "${MCP_B_API_KEY}"
    );
}
