//! Which platform gets the tools of which servers.

use hermes_config::{Home, Settings};
use hermes_mcp::tools::toolset;
use hermes_testkit::{Behaviour, Tool};
use serde_json::{Value, json};

use crate::test_host::{TestHost, config, stdio, with};

fn servers() -> [(&'static str, Value); 4] {
    let entry = |tool: &str| {
        stdio(
            &Behaviour::new()
                .tools([Tool::named(tool)])
                .without_resources()
                .without_prompts(),
        )
    };
    [
        ("git", entry("commit")),
        ("my.notes", entry("note")),
        (
            "empty",
            with(entry("hidden"), "tools", json!({ "include": [] })),
        ),
        ("down", json!({ "command": "/no/such/program" })),
    ]
}

#[tokio::test]
async fn a_platform_gets_the_servers_it_names_or_all() {
    let host = TestHost::start(&servers()).await;
    host.ready("git").await;
    host.ready("my.notes").await;
    host.ready("empty").await;
    host.until("down", |link| link.error.is_some()).await;
    let registry = host.host.registry();
    let toolsets: Vec<String> = registry
        .servers()
        .into_iter()
        .map(toolset::toolset_name)
        .collect();
    assert_eq!(
        toolsets,
        ["mcp-git", "mcp-my.notes"],
        "an empty one is not made"
    );

    let all = ["mcp_git_commit", "mcp_my_notes_note"];
    let none: [&str; 0] = [];
    let cases: [(&str, &[&str]); 9] = [
        ("", &all),
        ("cli: [web, file]", &all),
        ("cli: [web, git]", &all[..1]),
        ("cli: [mcp-my.notes]", &all[1..]),
        ("cli: [git, my.notes]", &all),
        ("cli: [no_mcp]", &none),
        ("cli: [git, no_mcp]", &none),
        ("telegram: [git]", &all),
        ("cli: [down]", &none),
    ];
    for (platforms, expected) in cases {
        for (disabled, dropped) in [("[]", ""), ("[mcp-git]", "mcp_git_commit")] {
            let text = format!(
                "{}platform_toolsets: {{{platforms}}}\nagent: {{disabled_toolsets: {disabled}}}\n",
                config(&servers())
            );
            host.home.write_config(&text);
            let settings = Settings::load(&Home::at(host.home.path())).unwrap();
            let offered = toolset::tools_for_platform(&registry, &settings, "cli");
            let offered: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
            let expected: Vec<&str> = expected
                .iter()
                .copied()
                .filter(|name| *name != dropped)
                .collect();
            assert_eq!(offered, expected, "{platforms} without {disabled}");
        }
    }
}
