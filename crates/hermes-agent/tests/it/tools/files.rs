//! Reading, writing and patching files.

use std::fs;

use hermes_agent::{
    approval::Decision,
    tools::{
        PatchTool, ReadFileTool, WriteFileTool,
        tool::{Concurrency, Tool},
    },
};
use serde_json::json;

use crate::tool_session::ToolSession;

#[tokio::test]
async fn lines_are_numbered_and_read_in_pages() {
    let session = ToolSession::new();
    let lines: Vec<String> = (1..=1200).map(|number| format!("line {number}")).collect();
    session.write("a.txt", lines.join("\n") + "\n");
    let first = session
        .succeed(&ReadFileTool, json!({"path": "a.txt"}))
        .await;
    assert!(
        first.starts_with("     1|line 1\n     2|line 2\n"),
        "{first}"
    );
    assert!(
        first.ends_with("   500|line 500\n\n[lines 1-500 of 1200; go on with offset=501]"),
        "{first}"
    );
    let last = session
        .succeed(
            &ReadFileTool,
            json!({"path": "a.txt", "offset": "1199", "limit": 10}),
        )
        .await;
    assert_eq!(last, "  1199|line 1199\n  1200|line 1200\n");
    let beyond = session
        .succeed(&ReadFileTool, json!({"path": "a.txt", "offset": 5000}))
        .await;
    assert!(beyond.contains("no line 5000"), "{beyond}");
}

#[tokio::test]
async fn what_is_read_is_limited() {
    let session = ToolSession::new();
    session.write("long.txt", format!("{}\nshort\n", "ä".repeat(1_000_000)));
    let text = session
        .succeed(&ReadFileTool, json!({"path": "long.txt"}))
        .await;
    assert!(
        text.contains("[line cut]") && text.contains("     2|short"),
        "cut"
    );
    assert!(text.chars().count() < 2100, "{}", text.chars().count());

    session.write("wide.txt", format!("{}\n", "x".repeat(1500)).repeat(300));
    let output = session
        .call(&ReadFileTool, json!({"path": "wide.txt"}))
        .await;
    assert!(
        output.text.chars().count() < 100_100,
        "{}",
        output.text.chars().count()
    );
    assert!(output.text.contains("of 300; go on with offset="), "a note");
    assert!(!output.may_be_persisted);

    session.write("many.txt", "x\n".repeat(5000));
    let text = session
        .succeed(&ReadFileTool, json!({"path": "many.txt", "limit": 100_000}))
        .await;
    assert!(
        text.contains("[lines 1-2000 of 5000; go on with offset=2001]"),
        "a note"
    );
}

#[tokio::test]
async fn what_is_not_text_is_refused_with_a_reason() {
    let session = ToolSession::new();
    session.write("binary", b"\x7fELF\0\0");
    session.write("Config.toml", "");
    let binary = session.fail(&ReadFileTool, json!({"path": "binary"})).await;
    assert!(binary.contains("binary"), "{binary}");
    let missing = session
        .fail(&ReadFileTool, json!({"path": "config.tml"}))
        .await;
    assert!(
        missing.contains("does not exist") && missing.contains("Config.toml"),
        "{missing}"
    );
    let directory = session.fail(&ReadFileTool, json!({"path": "."})).await;
    assert!(directory.contains("search_files"), "{directory}");
    let empty = session
        .succeed(&ReadFileTool, json!({"path": "Config.toml"}))
        .await;
    assert!(empty.contains("is empty"), "{empty}");
}

#[tokio::test]
async fn secrets_of_the_home_are_out_of_reach_of_every_file_tool() {
    let session = ToolSession::new();
    session.person.set_decision(Decision::Always);
    for path in [
        "../home/.env",
        "../home/mcp-tokens/server.json",
        "../home/./mcp-tokens/new.json",
    ] {
        let read = session.fail(&ReadFileTool, json!({"path": path})).await;
        let write = session
            .fail(&WriteFileTool, json!({"path": path, "content": "x"}))
            .await;
        let replace = json!({"mode": "replace", "path": path, "old_string": "very-secret-value", "new_string": "x"});
        let replace = session.fail(&PatchTool, replace).await;
        let patch =
            format!("*** Begin Patch\n*** Update File: {path}\n*** Move to: mine\n*** End Patch");
        let patch = session
            .fail(&PatchTool, json!({"mode": "patch", "patch": patch}))
            .await;
        for error in [read, write, replace, patch] {
            assert!(error.contains("cannot be accessed"), "{error}");
            assert!(!error.contains("very-secret-value"), "{error}");
        }
    }
    assert!(session.person.asked().is_empty(), "nobody can allow it");
    assert!(!session.path("mine").exists());
}

#[tokio::test]
async fn settings_of_the_home_need_an_approval() {
    let session = ToolSession::new();
    let denied = session
        .fail(&ReadFileTool, json!({"path": "../home/config.yaml"}))
        .await;
    assert!(denied.contains("not approved"), "{denied}");
    session.person.set_decision(Decision::Once);
    session
        .succeed(&ReadFileTool, json!({"path": "../home/config.yaml"}))
        .await;
    session
        .succeed(
            &WriteFileTool,
            json!({"path": "../home/config.yaml", "content": "model: y\n"}),
        )
        .await;
    let asked = session.person.asked();
    assert_eq!(asked.len(), 3);
    assert!(
        asked[2].subject.starts_with("write /"),
        "{}",
        asked[2].subject
    );
}

#[tokio::test]
async fn writing_makes_directories_and_keeps_modes() {
    let session = ToolSession::new();
    let result = session
        .succeed(
            &WriteFileTool,
            json!({"path": "a/b/c.txt", "content": "one\ntwo\n"}),
        )
        .await;
    assert!(result.contains("\"created\":true"), "{result}");
    assert_eq!(session.read("a/b/c.txt"), "one\ntwo\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        fs::set_permissions(session.path("a/b/c.txt"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink("a/b/c.txt", session.path("link")).unwrap();
        session
            .succeed(&WriteFileTool, json!({"path": "link", "content": ""}))
            .await;
        assert_eq!(session.read("a/b/c.txt"), "");
        let mode = fs::metadata(session.path("a/b/c.txt"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o750);
        assert!(
            fs::symlink_metadata(session.path("link"))
                .unwrap()
                .is_symlink()
        );
    }
    let problem = session
        .fail(&WriteFileTool, json!({"path": "a", "content": ""}))
        .await;
    assert!(problem.contains("directory"), "{problem}");
    let problem = session.fail(&WriteFileTool, json!({"path": "x"})).await;
    assert!(problem.contains("`content` is required"), "{problem}");
}

#[tokio::test]
async fn a_replacement_returns_a_diff() {
    let session = ToolSession::new();
    session.write("a.rs", "fn a() {\n    one();\n}\n");
    let arguments =
        json!({"mode": "replace", "path": "a.rs", "old_string": "one()", "new_string": "two()"});
    let text = session.succeed(&PatchTool, arguments).await;
    assert!(text.starts_with("Replaced 1 place in a.rs."), "{text}");
    assert!(text.contains("--- a/a.rs\n+++ b/a.rs\n"), "{text}");
    assert!(text.contains("-    one();\n+    two();\n"), "{text}");
    assert_eq!(session.read("a.rs"), "fn a() {\n    two();\n}\n");
}

#[tokio::test]
async fn a_patch_changes_many_files() {
    let session = ToolSession::new();
    session.write("update.txt", "a\nb\nc\n");
    session.write("delete.txt", "gone\n");
    session.write("move.txt", "old\n");
    let patch = "*** Begin Patch\n*** Add File: new/add.txt\n+hello\n*** Update File: update.txt\n@@\n a\n-b\n+B\n\
                 *** Delete File: delete.txt\n*** Update File: move.txt\n*** Move to: moved.txt\n@@\n-old\n+new\n\
                 *** End Patch";
    let text = session
        .succeed(&PatchTool, json!({"mode": "patch", "patch": patch}))
        .await;
    for expected in [
        "Added new/add.txt",
        "Updated update.txt",
        "Deleted delete.txt",
        "+B\n",
        "Added moved.txt",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(session.read("new/add.txt"), "hello\n");
    assert_eq!(session.read("update.txt"), "a\nB\nc\n");
    assert_eq!(session.read("moved.txt"), "new\n");
    assert!(!session.path("delete.txt").exists() && !session.path("move.txt").exists());
}

#[tokio::test]
async fn a_patch_that_fails_changes_nothing() {
    let session = ToolSession::new();
    session.write("a.txt", "a\n");
    session.write("b.txt", "b\n");
    for bad in [
        "*** Update File: b.txt\n@@\n-missing\n+x",
        "*** Delete File: none.txt",
        "*** Add File: b.txt\n+x",
        "*** Update File: ../home/.env\n@@\n+x",
    ] {
        let patch = format!(
            "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Add File: c.txt\n+c\n{bad}\n*** End Patch"
        );
        session
            .fail(&PatchTool, json!({"mode": "patch", "patch": patch}))
            .await;
        assert_eq!(session.read("a.txt"), "a\n", "{bad}");
        assert!(!session.path("c.txt").exists(), "{bad}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn files_already_written_are_put_back_when_a_later_one_cannot_be() {
    let session = ToolSession::new();
    session.write("a.txt", "a\n");
    // A file where a directory would have to be: found only while writing.
    session.write("b", "in the way");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** Add File: a2.txt\n+x\n*** Add File: b/c.txt\n+c\n*** End Patch";
    let problem = session
        .fail(&PatchTool, json!({"mode": "patch", "patch": patch}))
        .await;
    assert!(problem.contains("nothing was changed"), "{problem}");
    assert_eq!(session.read("a.txt"), "a\n");
    assert!(!session.path("a2.txt").exists());
}

#[tokio::test]
async fn calls_on_different_files_run_side_by_side() {
    let session = ToolSession::new();
    let company = |tool: &dyn Tool, path: &str| {
        tool.concurrency(
            json!({"path": path, "mode": "replace"})
                .as_object()
                .unwrap(),
            &session.context,
        )
    };
    assert!(company(&ReadFileTool, "a").can_run_with(&company(&WriteFileTool, "b")));
    assert!(!company(&ReadFileTool, "x/../a").can_run_with(&company(&PatchTool, "a")));
    assert!(!company(&WriteFileTool, "a").can_run_with(&company(&ReadFileTool, "a/b")));
    let patch = json!({"mode": "patch", "patch": "…"});
    assert_eq!(
        PatchTool.concurrency(patch.as_object().unwrap(), &session.context),
        Concurrency::Exclusive
    );
}
