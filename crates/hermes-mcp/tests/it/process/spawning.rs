//! Starting servers: what goes wrong, and what it costs.

use std::os::unix::fs::PermissionsExt;

use futures::future::{join_all, try_join_all};
use hermes_mcp::process::SpawnError;

use super::*;

#[tokio::test]
async fn a_missing_program_is_named_with_advice() {
    let guard = guard();
    let marked = MarkedProcess::new("missing");
    let error = guard
        .spawn(marked.program("/nowhere/npx", &[]))
        .await
        .unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { .. }));
    let message = error.to_string();
    assert!(message.contains("`/nowhere/npx` does not exist") && message.contains("Node.js"));
    assert!(children(below_watchdog(&guard)).is_empty());
}

#[tokio::test]
async fn a_missing_working_directory_is_not_blamed_on_the_program() {
    let mut request = MarkedProcess::new("no-cwd").program("/bin/cat", &[]);
    request.cwd = Some("/nowhere".into());
    let error = guard().spawn(request).await.unwrap_err();
    assert!(matches!(error, SpawnError::BadWorkingDirectory { .. }));
    assert!(error.to_string().contains("`/nowhere` does not exist"));
}

#[tokio::test]
async fn a_program_that_may_not_run_and_a_script_without_interpreter_differ() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server");
    std::fs::write(&file, "#!/nowhere/node --flag\n").unwrap();
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    let guard = guard();
    let request = MarkedProcess::new("script").program(file.to_str().unwrap(), &[]);

    mode(0o644);
    let error = guard.spawn(request.clone()).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotPermitted { .. }));

    mode(0o755);
    let error = guard.spawn(request).await.unwrap_err();
    assert!(
        matches!(&error, SpawnError::NoInterpreter { interpreter, .. } if interpreter == "/nowhere/node")
    );
}

#[tokio::test]
async fn arguments_that_are_too_long_are_the_program_s_trouble_not_the_guard_s() {
    let guard = guard();
    let marked = MarkedProcess::new("long");
    let huge = "x".repeat(200 * 1024);
    let error = guard
        .spawn(marked.program("/bin/echo", &[&huge]))
        .await
        .unwrap_err();
    assert!(matches!(error, SpawnError::Refused { .. }), "{error}");

    // More than a socket holds at once, but each argument within the system's limit.
    let large = "x".repeat(100 * 1024);
    let mut child = guard
        .spawn(marked.program("/bin/echo", &[large.as_str(); 8]))
        .await
        .unwrap();
    assert_eq!(output(&mut child).await.len(), 8 * (large.len() + 1));
}

#[tokio::test]
async fn a_guard_that_is_missing_or_no_guard_is_reported_as_such() {
    let marked = MarkedProcess::new("no-guard");
    let with = |path: &str| {
        GuardHandle::new(GuardProgram {
            path: path.into(),
            args: Vec::new(),
        })
    };
    let missing = with("/nowhere/guard");
    let error = missing.spawn(marked.program("cat", &[])).await.unwrap_err();
    assert!(matches!(error, SpawnError::NoGuard { .. }));

    let stranger = with("/bin/true");
    let error = stranger
        .spawn(marked.program("cat", &[]))
        .await
        .unwrap_err();
    assert!(matches!(error, SpawnError::GuardLost { .. }));
}

#[test]
fn a_guard_without_a_host_ends_at_once() {
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_hermes-mcp-guard"))
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!ended.success());
}

#[tokio::test]
async fn three_hundred_servers_at_once_all_start_and_stop() {
    let marked = MarkedProcess::new("many");
    let guard = guard();
    let spawns = (0..300).map(|_| guard.spawn(marked.program("cat", &[])));
    let started = try_join_all(spawns).await.unwrap();
    assert_eq!(marked.pids().len(), 300);
    join_all(started.into_iter().map(|child| {
        drop(child.stdin);
        child.process.stop()
    }))
    .await;
    assert!(marked.pids().is_empty());
}
