use std::{
    fs,
    path::{Path, PathBuf},
};

use hermes::import::{Candidate, ImportSource, detect_source, read_servers};
use hermes_config::{Home, Settings, Variables};
use serde_json::{Value, json};

use crate::harness::program::{Hermes, assert_private};

/// Every secret that stands in a fixture begins so.
const SECRET_MARK: &str = "fixture-";

fn fixtures() -> Vec<(ImportSource, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    let mut files = Vec::new();
    for source in ImportSource::ALL {
        for file in fs::read_dir(root.join(source.name())).unwrap() {
            files.push((source, file.unwrap().path()));
        }
    }
    assert!(files.len() >= ImportSource::ALL.len());
    files
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_fixture_is_imported_and_loads() {
    for (source, path) in fixtures() {
        let hermes = Hermes::new();
        let line = [
            "mcp",
            "import",
            source.name(),
            "--file",
            text(&path),
            "--json",
        ];
        let ran = hermes.run(&line).ok().hides(&[SECRET_MARK]);
        let json = ran.json();
        let imported = json["imported"].as_array().unwrap();
        assert!(!imported.is_empty(), "{}: {json}", path.display());

        let settings = Settings::load(&Home::at(hermes.home.path())).unwrap();
        assert_eq!(settings.warnings, [], "{}", path.display());
        let names: Vec<Value> = settings
            .servers
            .iter()
            .map(|entry| json!(entry.name))
            .collect();
        assert_eq!(&names, imported, "{}", path.display());
        for entry in &settings.servers {
            assert!(entry.server.is_ok(), "{}: {entry:?}", path.display());
        }
        assert!(!hermes.config().contains(SECRET_MARK), "{}", path.display());
        if !hermes.env().is_empty() {
            assert_private(&hermes.home.path().join(".env"));
        }
    }
}

#[test]
fn every_candidate_of_a_fixture_parses_without_problems() {
    for (_, path) in fixtures() {
        let content = fs::read_to_string(&path).unwrap();
        let Some(source) = detect_source(&path, &content) else {
            panic!("{} is not recognised", path.display())
        };
        for candidate in read_servers(source, &content, &path).unwrap() {
            let Candidate::Usable(server) = candidate else {
                continue;
            };
            let document = json!({"mcp_servers": {server.name.as_str(): server.entry}});
            let variables = server.variables.iter().map(|v| (&v.name[..], &v.value[..]));
            let variables = Variables::from_pairs(variables);
            let settings = Settings::parse(&document.to_string(), variables).unwrap();
            assert_eq!(settings.warnings, [], "{}: {document}", path.display());
            assert!(
                settings.servers[0].server.is_ok(),
                "{}: {document}",
                path.display()
            );
        }
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/import")
        .join(name)
}

#[test]
fn secrets_move_to_env_and_notes_say_what_is_left() {
    let hermes = Hermes::new();
    let path = fixture("cursor/mcp.json");
    let ran = hermes
        .run(&["mcp", "import", "cursor", "--file", text(&path)])
        .ok();
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, ran.stderr), @r"
    NAME    FROM    TARGET
    tasks   Cursor  uv run --directory ${workspaceFolder}/tools/tasks tasks-server
    notion  Cursor  https://mcp.notion.com/mcp
    crm     Cursor  https://crm.example.com/mcp
    old     Cursor  old-server
    ---
    tasks: `envFile` (${workspaceFolder}/.env) is not read: copy what the server needs to `.env` and name it under `env`
    tasks: `${workspaceFolder}` means nothing here: put a value in its place
    old: not carried over: `autoApprove`
    `MCP_CRM_X_API_KEY` (fixt***-crm) is kept in `.env`
    `MCP_CRM_CLIENT_SECRET` (fixt***ient) is kept in `.env`
    Imported tasks, notion, crm, old. `hermes mcp test --all` tries them.
    ");
    let crm = hermes.entry("crm");
    assert_eq!(crm["headers"]["X-API-Key"], "${MCP_CRM_X_API_KEY}");
    assert!(hermes.env().contains("MCP_CRM_X_API_KEY=fixture-crm\n"));
}

#[test]
fn a_dry_run_writes_nothing() {
    let hermes = Hermes::new();
    let path = fixture("claude-desktop/claude_desktop_config.json");
    let line = [
        "mcp",
        "import",
        "--file",
        text(&path),
        "--dry-run",
        "--json",
    ];
    let json = hermes.run(&line).ok().hides(&[SECRET_MARK]).json();
    assert_eq!(
        json["imported"],
        json!(["filesystem", "brave-search", "linear"])
    );
    assert_eq!(json["skipped"][0]["name"], "unfinished");
    assert_eq!(hermes.config() + &hermes.env(), "");
}

#[test]
fn only_selected_servers_are_imported() {
    let hermes = Hermes::new();
    let path = fixture("claude-desktop/claude_desktop_config.json");
    let line = ["mcp", "import", "--file", text(&path), "--json", "--select"];
    let json = hermes.run(&[&line[..], &["linear"]].concat()).ok().json();
    assert_eq!(json["imported"], json!(["linear"]));
    assert_eq!(json["skipped"], json!([]));
    let mistyped = hermes.run(&[&line[..], &["lienar"]].concat());
    let json = mistyped.refused(3, "not_found").json();
    assert_eq!(json["error"]["hints"], json!(["did you mean `linear`?"]));
}

#[test]
fn servers_that_exist_stay_unless_overwritten() {
    let config = "# mine\nmcp_servers:\n  filesystem: {command: mine} # keep\n";
    let hermes = Hermes::with_config(config);
    let path = fixture("claude-desktop/claude_desktop_config.json");
    let line = [
        "mcp",
        "import",
        "--file",
        text(&path),
        "--select",
        "filesystem",
        "--json",
    ];
    let json = hermes.run(&line).ok().json();
    assert_eq!(json["imported"], json!([]));
    assert_eq!(json["skipped"][0]["name"], "filesystem");
    assert_eq!(hermes.config(), config);
    hermes.run(&[&line[..], &["--overwrite"]].concat()).ok();
    assert_eq!(hermes.entry("filesystem")["command"], "npx");
    assert!(hermes.config().starts_with("# mine\n"));
}

#[test]
fn a_default_does_not_replace_what_is_set() {
    let hermes = Hermes::new();
    hermes.home.write_env("LOG_LEVEL=debug\n");
    let path = fixture("claude-code/.mcp.json");
    hermes
        .run(&["mcp", "import", "claude-code", "--file", text(&path)])
        .ok();
    let env = hermes.env();
    assert!(env.starts_with("LOG_LEVEL=debug\n"), "{env}");
    assert!(
        env.contains("API_BASE_URL=https://api.example.com\n"),
        "{env}"
    );
    assert!(!env.contains("info"), "{env}");
    assert_eq!(hermes.entry("local")["args"][2], "${LOG_LEVEL}");
}

/// Files of two programs in their usual places, one of them for a project.
fn usual_places() -> Hermes {
    let hermes = Hermes::new();
    for (place, servers) in [
        (
            ".cursor/mcp.json",
            json!({"a": {"command": "one"}, "b": {"command": "two"}}),
        ),
        (
            ".codeium/windsurf/mcp_config.json",
            json!({"b": {"command": "other"}, "c": {"command": "three"}}),
        ),
    ] {
        let path = hermes.user().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json!({"mcpServers": servers}).to_string()).unwrap();
    }
    hermes
}

#[test]
fn the_usual_places_are_searched_and_named() {
    let hermes = usual_places();
    let ran = hermes.run(&["mcp", "import", "--dry-run"]).ok();
    insta::assert_snapshot!(ran.stdout, @r"
    NAME  FROM      TARGET
    a     Cursor    one
    b     Cursor    two
    c     Windsurf  three
    ");
    assert!(ran.stderr.contains("Windsurf: "), "{ran:?}");
    assert!(ran.stderr.contains("skipped `b`"), "{ran:?}");
    // What to take of it is for somebody to say.
    hermes
        .run(&["mcp", "import", "--json"])
        .refused(5, "answer_needed");
    let json = hermes
        .run(&["mcp", "import", "--yes", "--json"])
        .ok()
        .json();
    assert_eq!(json["imported"], json!(["a", "b", "c"]));
    assert_eq!(hermes.entry("b")["command"], "two");
}

#[test]
fn one_source_is_enough_said() {
    let hermes = usual_places();
    let json = hermes
        .run(&["mcp", "import", "windsurf", "--json"])
        .ok()
        .json();
    assert_eq!(json["imported"], json!(["b", "c"]));
}

#[test]
fn what_cannot_be_read_is_an_error_that_quotes_nothing() {
    let hermes = Hermes::new();
    hermes
        .run(&["mcp", "import", "--json", "--yes"])
        .refused(1, "failed");
    hermes
        .run(&["mcp", "import", "zed", "--json"])
        .refused(1, "failed");
    hermes
        .run(&["mcp", "import", "--file", "gone.json", "--json"])
        .refused(1, "failed");
    hermes.run(&["mcp", "import", "emacs"]).exits_with(2);
    let path = hermes.home.write("what.txt", "hello");
    hermes
        .run(&["mcp", "import", "--file", text(&path), "--json"])
        .refused(2, "usage");
    let path = hermes.home.write(
        "broken.json",
        "{\"mcpServers\": {\"a\": \"hunter22\" \"b\"}}",
    );
    let ran = hermes.run(&["mcp", "import", "cursor", "--file", text(&path), "--json"]);
    ran.refused(2, "usage").hides(&["hunter22"]);
}
