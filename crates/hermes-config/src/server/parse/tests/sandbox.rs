//! The keys of a sandbox.

use super::*;

#[test]
fn a_sandbox_is_never_left_open_by_a_slip() {
    assert!(server(json!({"sandbox": true})).sandbox.enabled);
    assert!(
        server(json!({"sandbox": {"enabled": "${ON}"}}))
            .sandbox
            .enabled
    );
    let sandbox = server(json!({"sandbox": {
        "enabled": "yes", "read": "/usr", "write": ["/tmp"], "network": "deny",
        "unix_sockets": "deny", "required": true,
    }}))
    .sandbox;
    assert_eq!(
        sandbox,
        SandboxSettings {
            enabled: true,
            read: vec!["/usr".into()],
            write: vec!["/tmp".into()],
            network_denied: true,
            unix_sockets_denied: true,
            required: true,
        }
    );
    for bad in [
        json!("tight"),
        json!({"enabled": "maybe"}),
        json!({"network": "some"}),
        json!({"unix_sockets": true}),
        json!({"read": {}}),
        json!({"required": 7}),
    ] {
        let problem = problem_of(json!({"command": "x", "sandbox": bad}));
        assert!(problem.contains("`sandbox"), "{problem}");
    }
}

#[test]
fn a_sandbox_that_is_not_turned_on_or_has_nothing_to_confine_is_worth_a_word() {
    let (_, warning) = warned(json!({"sandbox": {"network": "deny"}}));
    assert!(warning.contains("`s.sandbox.enabled`"), "{warning}");
    let (_, warnings) = parse(json!({"url": "https://x.example", "sandbox": true}));
    assert!(warnings[0].contains("`s.sandbox`"), "{warnings:?}");
}
