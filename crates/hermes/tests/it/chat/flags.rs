//! What flags and variables change for one run.

use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};
use serde_json::json;

use super::Chat;
use crate::harness::program::Hermes;

fn clean_up() -> ModelScript {
    ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": "rm -r build"})),
        ScriptedAnswer::text("Done."),
    ])
}

/// What the model was told of its call, and whether the directory is still there.
fn cleaned(args: &[&str]) -> (String, bool) {
    let chat = Chat::new(clean_up());
    let build = chat.hermes.user().join("build");
    std::fs::create_dir(&build).unwrap();
    chat.run(args).ok();
    let result = chat.request_messages(1).pop().unwrap();
    (result["content"].to_string(), build.exists())
}

#[test]
fn without_a_terminal_approvals_are_refused_unless_nobody_is_to_be_asked() {
    for args in [["-q", "clean up"], ["-z", "clean up"]] {
        let (result, is_there) = cleaned(&args);
        assert!(result.contains("not approved"), "{result}");
        assert!(is_there, "{args:?}");
    }
    let (result, is_there) = cleaned(&["-z", "clean up", "--yolo"]);
    assert!(!is_there, "{result}");
}

#[test]
fn what_never_runs_does_not_run_with_yolo_either() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": "rm -rf /"})),
        ScriptedAnswer::text("Done."),
    ]));
    chat.run(&["-z", "clean up", "--yolo"]).ok();
    let result = chat.request_messages(1).pop().unwrap()["content"].to_string();
    assert!(result.contains("blocked"), "{result}");
}

#[test]
fn verbose_shows_what_tools_returned() {
    let script = || {
        ModelScript::new([
            ScriptedAnswer::call("terminal", &json!({"command": "echo heron-$((20+3))"})),
            ScriptedAnswer::text("Done."),
        ])
    };
    let ran = Chat::new(script()).run(&["-q", "go"]).ok();
    assert!(!ran.stderr.contains("heron-23"), "{ran:?}");
    let ran = Chat::new(script()).run(&["-q", "go", "-v"]).ok();
    assert!(ran.stderr.contains("heron-23"), "{ran:?}");
    assert_eq!(ran.stdout, "Done.\n");
}

#[test]
fn another_provider_answers_for_one_run() {
    let other = ModelServer::start(ModelScript::new([ScriptedAnswer::text("From the other.")]));
    let chat = Chat::with_config(
        ModelScript::echo(),
        json!({"providers": {"other": {"base_url": other.base_url(), "model": "theirs"}}}),
    );
    let ran = chat.run(&["--provider", "other", "-z", "hi"]).ok();
    assert_eq!(ran.stdout, "From the other.\n");
    assert_eq!(other.requests()[0].body["model"], "theirs");
    // A key goes to its own provider alone.
    assert_eq!(other.requests()[0].header("authorization"), None);
    assert_eq!(chat.run(&["-z", "hi"]).ok().stdout, "hi\n");
}

#[test]
fn a_profile_is_a_home_of_its_own() {
    let model = ModelServer::start(ModelScript::echo());
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    let config = json!({"model": {"default": "of-the-profile", "base_url": model.base_url()}});
    hermes
        .home
        .write("profiles/work/config.yaml", &config.to_string());
    let ran = hermes.run(&["-p", "work", "-z", "hi"]).ok();
    assert_eq!(ran.stdout, "hi\n");
    assert_eq!(model.requests()[0].body["model"], "of-the-profile");
    assert!(hermes.home.path().join("profiles/work/state.db").exists());
    assert!(!hermes.home.path().join("state.db").exists());
    hermes.run(&["-p", "../work", "-z", "hi"]).exits_with(2);
}

#[test]
fn safe_mode_can_be_a_variable() {
    let chat = Chat::new(ModelScript::echo());
    let ran = chat
        .run_with(&["-z", "hi"], &[("HERMES_SAFE_MODE", "1")])
        .exits_with(1);
    assert!(ran.stderr.contains("safe mode: config.yaml"), "{ran:?}");
    assert!(ran.stderr.contains("No model is chosen"), "{ran:?}");
    assert_eq!(chat.model.requests().len(), 0);
    let ran = chat.run_with(&["-z", "hi"], &[("HERMES_SAFE_MODE", "0")]);
    assert_eq!(ran.ok().stdout, "hi\n");
}
