//! What an agent says, and what its tools tell, does not steer the terminal of whoever watches its run.

use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use serde_json::json;

use super::real_hub::RealHub;
use crate::harness::terminal::{NASTY, clean};

#[tokio::test(flavor = "multi_thread")]
async fn the_events_and_the_output_of_a_run_do_not_steer_the_terminal() {
    let hub = RealHub::start();
    let command = json!({"command": format!("echo '{NASTY}'")});
    let script = ModelScript::new([
        ScriptedAnswer::call("terminal", &command),
        ScriptedAnswer::text(NASTY),
        ScriptedAnswer::text(NASTY),
    ]);
    let _model = hub
        .tenant("acme", json!({"displayName": NASTY}), script)
        .await;
    let run = hub.run("acme", NASTY).await;
    assert_eq!(run["status"], "completed", "{run}");
    let id = run["runId"].as_str().unwrap();
    let commands = [
        &["tenant", "watch", "acme", id][..],
        &["tenant", "watch", "acme", id, "--json"],
        &["tenant", "runs", "acme"],
        &["tenant", "runs", "acme", id],
        &["tenant", "runs", "acme", id, "--json"],
        &["tenant", "run", "acme", NASTY, "--watch"],
    ];
    for arguments in commands {
        let command = hub.command(arguments);
        let shown = tokio::task::spawn_blocking(move || clean(command, 0))
            .await
            .unwrap();
        // JSON has escapes in the place of control characters.
        let is_json = arguments.contains(&"--json");
        let is_output = arguments.contains(&"watch") || arguments.contains(&"--watch");
        assert!(
            !is_output || is_json || shown.contains("ABCDE"),
            "{shown:?}"
        );
    }
}
