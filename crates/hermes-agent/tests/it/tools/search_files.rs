//! Searching files.

use hermes_agent::{approval::Decision, tools::SearchFilesTool};
use serde_json::{Value, json};

use crate::tool_session::ToolSession;

fn project() -> ToolSession {
    let session = ToolSession::new();
    session.write("src/main.rs", "fn main() {\n    needle();\n}\n");
    session.write(
        "src/lib.rs",
        "// one\nfn needle() {}\nfn other() { needle() }\n",
    );
    session.write("docs/guide.md", "a needle in a haystack\n");
    session.write(".github/workflow.yml", "needle: true\n");
    session.write(".gitignore", "target\n");
    session.write("target/out.rs", "needle\n");
    session.write(".git/config", "needle\n");
    session.write("image.png", b"needle\0needle\n");
    session
}

async fn search(session: &ToolSession, arguments: Value) -> Vec<String> {
    let text = session.succeed(&SearchFilesTool, arguments).await;
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn matching_lines_come_in_the_order_of_paths_without_ignored_files() {
    let found = search(&project(), json!({"pattern": r"nee\w+e"})).await;
    let expected = [
        ".github/workflow.yml:1:needle: true",
        "docs/guide.md:1:a needle in a haystack",
        "src/lib.rs:2:fn needle() {}",
        "src/lib.rs:3:fn other() { needle() }",
        "src/main.rs:2:    needle();",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_search_is_narrowed_by_path_and_glob() {
    let session = project();
    let found = search(
        &session,
        json!({"pattern": "needle", "path": "src", "file_glob": "*.rs", "output_mode": "files_only"}),
    );
    assert_eq!(found.await, ["src/lib.rs", "src/main.rs"]);
    let found = search(
        &session,
        json!({"pattern": "needle", "path": "src/main.rs"}),
    )
    .await;
    assert_eq!(found, ["src/main.rs:2:    needle();"]);
    let found = search(
        &session,
        json!({"pattern": "needle", "file_glob": "**/*.{md,yml}", "output_mode": "count"}),
    )
    .await;
    assert_eq!(found, [".github/workflow.yml:1", "docs/guide.md:1"]);
    let counts = search(
        &session,
        json!({"pattern": "needle", "path": "src", "output_mode": "count"}),
    )
    .await;
    assert_eq!(counts, ["src/lib.rs:2", "src/main.rs:1"]);
}

#[tokio::test]
async fn lines_around_a_match_are_shown() {
    let found = search(
        &project(),
        json!({"pattern": "needle", "path": "src/main.rs", "context": 1}),
    )
    .await;
    assert_eq!(
        found,
        [
            "src/main.rs-1-fn main() {",
            "src/main.rs:2:    needle();",
            "src/main.rs-3-}"
        ]
    );
}

#[tokio::test]
async fn results_come_in_pages() {
    let session = ToolSession::new();
    session.write("a.txt", "x\n".repeat(10));
    let found = search(&session, json!({"pattern": "x", "limit": 3, "offset": 3})).await;
    let expected = [
        "a.txt:4:x",
        "a.txt:5:x",
        "a.txt:6:x",
        "[3 matches shown, there are more; go on with offset=6]",
    ];
    assert_eq!(found, expected);
    let last = search(&session, json!({"pattern": "x", "limit": 3, "offset": 9})).await;
    assert_eq!(last, ["a.txt:10:x"]);
    let beyond = search(&session, json!({"pattern": "x", "offset": 20})).await;
    assert_eq!(beyond, ["[there are only 10 matches]"]);
    assert_eq!(
        search(&session, json!({"pattern": "nothing"})).await,
        ["[no matches found]"]
    );
}

#[tokio::test]
async fn files_are_found_by_glob_by_part_and_by_expression() {
    let session = project();
    for (pattern, expected) in [
        ("*.rs", vec!["src/lib.rs", "src/main.rs"]),
        ("src/*.rs", vec!["src/lib.rs", "src/main.rs"]),
        ("GUIDE", vec!["docs/guide.md"]),
        (r"(lib|main)\.rs$", vec!["src/lib.rs", "src/main.rs"]),
    ] {
        assert_eq!(
            search(&session, json!({"pattern": pattern, "target": "files"})).await,
            expected,
            "{pattern}"
        );
    }
    let below = search(
        &session,
        json!({"pattern": "*.rs", "target": "files", "path": "src", "limit": 1}),
    )
    .await;
    assert_eq!(
        below,
        [
            "src/lib.rs",
            "[1 files shown, there are more; go on with offset=1]"
        ]
    );
}

#[tokio::test]
async fn wrong_patterns_are_explained() {
    let session = project();
    for arguments in [
        json!({"pattern": "("}),
        json!({"pattern": "x", "file_glob": "{a"}),
        json!({"pattern": "x", "path": "missing"}),
        json!({"pattern": ""}),
    ] {
        session.fail(&SearchFilesTool, arguments).await;
    }
}

#[tokio::test]
async fn secrets_of_the_home_are_neither_searched_nor_listed() {
    let session = ToolSession::new();
    session.person.set_decision(Decision::Always);
    let found = search(
        &session,
        json!({"pattern": "very-secret-value|model", "path": ".."}),
    )
    .await;
    assert_eq!(
        found,
        ["[no matches found]", "[3 protected files were left out]"]
    );
    let listed = search(
        &session,
        json!({"pattern": "*", "path": "../home", "target": "files"}),
    )
    .await;
    assert_eq!(
        listed,
        ["[no files found]", "[3 protected files were left out]"]
    );
    let inside = session
        .fail(
            &SearchFilesTool,
            json!({"pattern": "very", "path": "../home/mcp-tokens"}),
        )
        .await;
    assert!(inside.contains("cannot be accessed"), "{inside}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../home", session.path("link")).unwrap();
        std::fs::hard_link(session.root.join("home/.env"), session.path("hard")).unwrap();
        let found = search(&session, json!({"pattern": "very-secret-value"})).await;
        assert_eq!(
            found,
            [
                "[no matches found]",
                "[1 files or directories could not be read]"
            ]
        );
        let through = search(
            &session,
            json!({"pattern": "very-secret-value", "path": "link"}),
        )
        .await;
        assert_eq!(through[0], "[no matches found]");
    }
}

#[tokio::test]
async fn long_lines_are_cut() {
    let session = ToolSession::new();
    session.write("min.js", format!("needle{}", "x".repeat(1_000_000)));
    let found = search(&session, json!({"pattern": "needle"})).await;
    assert!(found[0].len() < 600, "{}", found[0].len());
}
