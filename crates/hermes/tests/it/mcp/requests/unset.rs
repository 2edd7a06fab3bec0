//! References without a value are told wherever servers are looked at.

use hermes_testkit::{Behaviour, HttpServer};
use serde_json::{Value, json};

use crate::harness::{
    program::{Hermes, entry},
    test_home::TestHome,
};

const SAID: &str = "`NOT_SET_HERE` is not set";

fn kit() -> Value {
    let mut kit = entry(&Behaviour::new());
    kit["env"] = json!({"X": "${NOT_SET_HERE}"});
    kit
}

#[track_caller]
fn warns(list: &Value) {
    let warnings = list.as_array().unwrap();
    let found = warnings
        .iter()
        .filter_map(Value::as_str)
        .filter(|text| text.contains(SAID));
    assert_eq!(found.count(), 1, "{list}");
}

#[test]
fn test_call_list_and_status_warn_of_an_unset_variable() {
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"kit": kit()}}).to_string());
    for arguments in [
        &["mcp", "test", "kit"][..],
        &["mcp", "call", "kit.environment"],
        &["mcp", "list"],
        &["mcp", "status"],
        &["mcp", "status", "kit"],
        &["mcp", "get", "kit"],
    ] {
        let ran = hermes.run(arguments).ok();
        assert_eq!(
            ran.stderr.matches(SAID).count(),
            1,
            "{arguments:?}: {ran:?}"
        );
        assert!(ran.stderr.contains("env.X"), "{arguments:?}: {ran:?}");
    }
    warns(&hermes.run(&["mcp", "test", "kit", "--json"]).ok().json()["warnings"]);
    warns(&hermes.run(&["mcp", "list", "--json"]).ok().server("kit")["warnings"]);
    warns(&hermes.run(&["mcp", "status", "--json"]).ok().server("kit")["warnings"]);
}

#[test]
fn a_running_process_tells_it_too() {
    let home = TestHome::with_servers(&[("kit", kit())]);
    let _up = home.up(&["kit: ready"]);
    warns(&home.run(&["mcp", "status", "--json"]).ok().server("kit")["warnings"]);
    let called = home.run(&["mcp", "call", "kit.echo", "text=a"]).ok();
    assert_eq!(called.stderr.matches(SAID).count(), 1, "{called:?}");
}

#[test]
fn without_a_connection_programs_get_the_members_of_a_call_that_failed() {
    let gone = json!({"command": "no-such-program-anywhere"});
    let server = HttpServer::start(Behaviour::new().http(|http| http.bearer = Some("x".into())));
    let wants = json!({"url": server.url()});
    let servers = json!({"mcp_servers": {"gone": gone, "wants": wants}});
    let hermes = Hermes::with_config(&servers.to_string());
    let failed = hermes
        .run(&["mcp", "call", "gone.x", "--json"])
        .exits_with(1)
        .json();
    assert_eq!(failed["ok"], false);
    let text = failed["error"].as_str().unwrap();
    assert!(text.contains("no-such-program-anywhere"), "{failed}");
    let login = hermes
        .run(&["mcp", "call", "wants.x", "--json"])
        .exits_with(4)
        .json();
    assert!(login["error"].is_string(), "{login}");
    assert_eq!(
        (&login["needs_reauth"], &login["server"]),
        (&json!(true), &json!("wants"))
    );
    // Wrong usage has the common shape.
    hermes
        .run(&["mcp", "call", "gone", "--json"])
        .refused(2, "usage");
    hermes
        .run(&["mcp", "call", "nobody.x", "--json"])
        .refused(3, "not_found");
}
