//! `hermes model`.

mod real_servers;

use hermes_testkit::model::{ModelScript, ModelServer};
use serde_json::json;

use crate::harness::{
    program::{CommandOutput, Hermes, assert_private},
    terminal::Terminal,
};

const KEY: &str = "sk-test-0123456789abcdef";

/// A provider with a key and three models, one of which does not talk.
fn team() -> ModelServer {
    let models = ["small-1", "text-embedding-9", "large-2"];
    ModelServer::start(ModelScript::echo().with_key(KEY).with_models(models))
}

fn with_team(server: &ModelServer, more: &str) -> Hermes {
    Hermes::with_config(&format!(
        "# My models.\nproviders:\n  team: {{base_url: '{}', key_env: TEAM_KEY}}   # ours\n{more}",
        server.base_url()
    ))
}

fn shown(hermes: &Hermes) -> serde_json::Value {
    hermes.run(&["model", "--json"]).ok().json()
}

#[test]
fn without_a_model_it_says_what_was_looked_for() {
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    let ran = hermes.run(&["model", "--show"]).ok();
    for part in [
        "model     none\nprovider  none\nbase      none\nkey       missing: put `OPENAI_API_KEY=…` into ",
        "hermes secret set OPENAI_API_KEY",
        "No model is chosen.",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    let json = shown(&hermes);
    assert_eq!(json["model"], json!(null));
    assert_eq!(json["local"], json!([]));
    assert_eq!(json["providers"][0]["name"], "openai");
    assert_eq!(json["providers"][0]["key"], "missing");
}

#[test]
fn a_server_of_this_machine_is_found() {
    let script = ModelScript {
        ollama: true,
        loaded: vec!["qwen3:8b".into()],
        ..ModelScript::echo().with_models(["qwen3:8b", "gemma3"])
    };
    let server = ModelServer::start(script);
    let hermes = Hermes::new();
    hermes
        .home
        .write_env(&format!("OLLAMA_HOST=127.0.0.1:{}\n", server.port()));
    let json = shown(&hermes);
    assert_eq!(json["model"], "qwen3:8b");
    assert_eq!(json["origin"], "detection");
    assert_eq!(json["local"][0]["server"], "ollama");
    let ran = hermes.run(&["model", "--show"]).ok();
    assert!(ran.stdout.contains("found on this machine"), "{ran:?}");
}

#[test]
fn a_name_is_written_and_everything_else_stays() {
    let hermes = Hermes::with_config("# Mine.\nmodel: 'gpt-4o'   # was good\n\ntimezone: UTC\n");
    hermes.home.write_env(&format!("OPENAI_API_KEY={KEY}\n"));
    let ran = hermes.run(&["model", "gpt-5"]).ok().hides(&[KEY]);
    assert!(
        ran.stderr.contains("`gpt-5` from openai (api.openai.com)"),
        "{ran:?}"
    );
    insta::assert_snapshot!(hermes.config(), @r"
    # Mine.
    model: gpt-5   # was good

    timezone: UTC
    ");
    assert_eq!(shown(&hermes)["key"], "OPENAI_API_KEY");
}

#[test]
fn a_provider_is_written_beside_the_name() {
    let hermes = Hermes::new();
    let ran = hermes
        .run(&["model", "claude-sonnet-5", "--provider", "anthropic"])
        .ok();
    assert!(ran.stderr.contains("`ANTHROPIC_API_KEY`"), "{ran:?}");
    insta::assert_snapshot!(hermes.config(), @r"
    model:
      default: claude-sonnet-5
      provider: anthropic
    ");
    assert_private(&hermes.home.path().join("config.yaml"));

    hermes
        .run(&["model", "m", "--base-url", "http://127.0.0.1:9/v1"])
        .ok();
    insta::assert_snapshot!(hermes.config(), @r"
    model:
      default: m
      provider: custom
      base_url: http://127.0.0.1:9/v1
    ");
}

#[test]
fn what_leads_nowhere_is_not_written() {
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    let before = hermes.config();
    for args in [
        &["model", "mystery", "--json"][..],
        &["model", "x", "--provider", "nobody", "--json"],
        &["model", "x", "--base-url", "nowhere", "--json"],
        &["model", " ", "--json"],
    ] {
        hermes.run(args).refused(2, "usage");
    }
    assert_eq!(hermes.config(), before);
}

#[test]
fn without_a_terminal_nothing_is_asked() {
    let hermes = Hermes::new();
    let ran: CommandOutput = hermes.run(&["model"]).exits_with(5);
    assert!(ran.stderr.contains("hermes model NAME"), "{ran:?}");
}

#[test]
fn provider_key_and_model_are_asked_for() {
    let server = team();
    let hermes = with_team(&server, "model: {autodetect: false}   # none yet\n");
    let mut terminal = Terminal::start(hermes.command(&["model"]));
    terminal
        .wait_for("No model is chosen yet.")
        .wait_for("team")
        .wait_for("no key yet")
        .wait_for("another provider")
        .wait_for("another address")
        .wait_for("Provider [")
        .send("nobody\n")
        .wait_for("a number from 1 to")
        .send("team\n")
        .wait_for("TEAM_KEY")
        .send("wrong-key-000000000\n")
        .wait_for("rejected the key")
        .wait_for("TEAM_KEY")
        .send(&format!("{KEY}\n"))
        .wait_for("1  small-1")
        .wait_for("2  large-2")
        .wait_for("Model [small-1]: ")
        .send("large\n")
        .wait_for("1  large-2")
        .wait_for("Model")
        .send("1\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(
        !screen.contains(KEY) && !screen.contains("wrong-key"),
        "{screen}"
    );
    assert!(!screen.contains("embedding"), "{screen}");
    assert_eq!(hermes.env(), format!("TEAM_KEY={KEY}\n"));
    assert_private(&hermes.home.path().join(".env"));
    let config = hermes.config();
    assert!(config.starts_with("# My models.\n"), "{config}");
    assert!(
        config.contains("# ours") && !config.contains(KEY),
        "{config}"
    );
    let json = shown(&hermes);
    assert_eq!(json["model"], "large-2");
    assert_eq!(json["provider"], "team");
    assert_eq!(json["origin"], "configuration");
}

#[test]
fn what_can_be_used_is_offered_with_its_models_and_no_advice_to_run_this() {
    let server = team();
    let more = "model: {autodetect: false}\n";
    let hermes = with_team(&server, more);
    hermes.home.write_env(&format!(
        "TEAM_KEY={KEY}\nDEEPSEEK_API_KEY={KEY}\nDEEPSEEK_BASE_URL={}\n",
        server.base_url()
    ));
    let mut terminal = Terminal::start(hermes.command(&["model"]));
    terminal
        .wait_for("deepseek")
        .wait_for("has 2 models")
        .wait_for("team")
        .wait_for("another provider")
        .wait_for("Provider [")
        .send("another provider\n")
        .wait_for("openrouter, anthropic")
        .wait_for("Provider [")
        .send("deepseek\n")
        .wait_for("2  large-2")
        .wait_for("Model [small-1]: ")
        .send("2\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("`hermes model`"), "{screen}");
    let json = shown(&hermes);
    assert_eq!(json["model"], "large-2");
    assert_eq!(json["provider"], "deepseek");
    assert_eq!(json["sources"]["base_url"], "`DEEPSEEK_BASE_URL`");
    assert_eq!(
        json["sources"]["provider"],
        "`model.provider` in `config.yaml`"
    );

    let listed = hermes.run(&["model", "--list", "--json"]).ok().json();
    let offers = listed["offers"].as_array().unwrap();
    let names: Vec<_> = offers.iter().map(|offer| &offer["provider"]).collect();
    assert_eq!(names, ["deepseek", "team"]);
    assert_eq!(offers[1]["models"], json!(["small-1", "large-2"]));
    let listed = hermes.run(&["model", "--list"]).ok().hides(&[KEY]);
    assert!(listed.stdout.contains("\n  large-2\n"), "{listed:?}");
}

#[test]
fn a_missing_key_is_told_with_its_places() {
    let hermes = Hermes::with_config("model: {default: gpt-5, autodetect: false}\n");
    let ran = hermes.run(&["model", "--show"]).ok();
    for part in [
        "model     gpt-5 (`model` in `config.yaml`)",
        "provider  openai (the model's name)",
        "base      https://api.openai.com/v1 (built in)",
        "key       missing: put `OPENAI_API_KEY=…` into ",
        ".env, or keep it with `hermes secret set OPENAI_API_KEY`",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
}

#[test]
fn a_server_that_is_not_known_is_asked_by_its_address() {
    let server = team();
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    let mut terminal = Terminal::start(hermes.command(&["model"]));
    terminal
        .wait_for("Provider [")
        .send("another address\n")
        .wait_for("Address")
        .send(&format!("{}\n", server.base_url()))
        .wait_for("Key (not shown")
        .send(&format!("{KEY}\n"))
        .wait_for("Model [small-1]: ")
        .send("my-own\n")
        .wait_for("type it again")
        .wait_for("Model")
        .send("my-own\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(hermes.env(), format!("HERMES_MODEL_API_KEY={KEY}\n"));
    let json = shown(&hermes);
    assert_eq!(json["model"], "my-own");
    assert_eq!(json["key"], "HERMES_MODEL_API_KEY");
}

#[test]
fn leaving_changes_nothing() {
    let server = team();
    let hermes = with_team(&server, "");
    let before = hermes.config();
    for keys in [&["\x03"][..], &["team\n", "\x03"], &["team\n", "\n"]] {
        let mut terminal = Terminal::start(hermes.command(&["model"]));
        for (question, keys) in ["Provider [", "TEAM_KEY"].iter().zip(keys) {
            terminal.wait_for(question).send(keys);
        }
        let (code, screen) = terminal.end();
        assert_ne!(code, 0, "{screen}");
    }
    assert_eq!(hermes.config(), before);
    assert_eq!(hermes.env(), "");
}
