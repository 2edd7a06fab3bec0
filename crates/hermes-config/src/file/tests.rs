//! Edits of a text: what changes, and that nothing else does.

mod random_edits;

use serde_json::json;

use super::*;

fn file(text: &str) -> ConfigFile {
    ConfigFile {
        path: "config.yaml".into(),
        text: text.into(),
        document: yaml::parse(text).unwrap(),
        failed_key: None,
    }
}

fn edited(text: &str, edit: impl FnOnce(&mut ConfigFile)) -> String {
    let mut file = file(text);
    edit(&mut file);
    assert_eq!(file.failed_key, None, "{text}");
    file.text()
}

const SAMPLE: &str = "\
# Hermes configuration
model: gpt   # the default

mcp_servers:
  # Files of the project
  # (read only)
  files:
    command: \"npx\"       # needs Node
    args: [-y, '@scope/files', \"/tmp\"]
    # timeout: 30

  # Issues
  github:
    command: npx
    env:
      # from .env
      TOKEN: \"${GITHUB_TOKEN}\"
    tools: {include: [a, b], prompts: no}   # few
  docs: {url: https://docs.example/mcp, enabled: yes} # flow

# Everything else
agent:
  disabled_toolsets: []
";

#[test]
fn a_new_server_goes_to_the_end_of_the_mapping() {
    let text = edited(SAMPLE, |file| {
        file.set_server(
            "time",
            &json!({"command": "uvx", "args": ["mcp-server-time"], "enabled": false}),
        );
    });
    let added =
        "  time:\n    command: uvx\n    args:\n      - mcp-server-time\n    enabled: false\n";
    assert_eq!(
        text,
        SAMPLE.replace("# flow\n", &format!("# flow\n{added}"))
    );
}

#[test]
fn comments_after_the_last_server_stay_with_it() {
    let text = "mcp_servers:\n  a:\n    command: x\n    # timeout: 5\n  # old:\n  #   command: y\n# top\nother: 1\n";
    let result = edited(text, |file| {
        file.set_server("c", &json!({"url": "https://c.example"}));
    });
    assert_eq!(
        result,
        text.replace("  # old", "  c:\n    url: https://c.example\n  # old")
    );
    assert_eq!(
        edited(&result, |file| assert!(file.remove_server("c"))),
        text
    );
}

#[test]
fn the_mapping_is_made_where_it_is_missing() {
    let entry = json!({"command": "x"});
    let set = |text: &str| edited(text, |file| file.set_server("a", &entry));
    assert_eq!(set(""), "mcp_servers:\n  a:\n    command: x\n");
    assert_eq!(set("# c"), "# c\nmcp_servers:\n  a:\n    command: x\n");
    assert_eq!(
        set("model: m"),
        "model: m\nmcp_servers:\n  a:\n    command: x"
    );
    assert_eq!(
        set("model: m\n"),
        "model: m\nmcp_servers:\n  a:\n    command: x\n"
    );
    assert_eq!(
        set("mcp_servers: # none yet\nmodel: m\n"),
        "mcp_servers: # none yet\n  a:\n    command: x\nmodel: m\n"
    );
    assert_eq!(
        set("mcp_servers: null\nmodel: m\n"),
        "mcp_servers:\n  a:\n    command: x\nmodel: m\n"
    );
    for text in [
        "mcp_servers: {}\nmodel: m\n",
        "mcp_servers: {} # c\nmodel: m\n",
    ] {
        let result = set(text);
        assert!(result.ends_with("model: m\n"), "{result}");
        assert_eq!(yaml::parse(&result).unwrap()["mcp_servers"]["a"], entry);
    }
}

#[test]
fn replacing_a_server_keeps_what_says_the_same() {
    let text = edited(SAMPLE, |file| {
        file.set_server(
            "github",
            &json!({
                "command": "npx",
                "env": {"TOKEN": "${GITHUB_TOKEN}", "LEVEL": "debug"},
                "timeout": 60,
            }),
        );
    });
    let expected = SAMPLE
        .replace("_TOKEN}\"\n", "_TOKEN}\"\n      LEVEL: debug\n")
        .replace(
            "    tools: {include: [a, b], prompts: no}   # few\n",
            "    timeout: 60\n",
        );
    assert_eq!(text, expected);
}

#[test]
fn an_emptied_mapping_stays_a_mapping() {
    let text = "mcp_servers:\n  a:\n    command: x\n    env:\n      A: b\n";
    let result = edited(text, |file| {
        file.set_server("a", &json!({"command": "x", "env": {}}));
    });
    assert_eq!(result, "mcp_servers:\n  a:\n    command: x\n    env: {}\n");
}

#[test]
fn setting_what_is_there_changes_nothing() {
    let mut file = file(SAMPLE);
    let entry = file.document["mcp_servers"]["github"].clone();
    file.set_server("github", &entry);
    file.set_server_key("files", &["command"], json!("npx"));
    assert_eq!(file.text(), SAMPLE);
}

#[test]
fn removing_a_server_takes_its_comment_and_nothing_else() {
    let without = |name: &str| edited(SAMPLE, |file| assert!(file.remove_server(name)));
    let cut = |from: &str, to: &str| {
        let start = SAMPLE.find(from).unwrap();
        let end = SAMPLE.find(to).unwrap();
        format!("{}{}", &SAMPLE[..start], &SAMPLE[end..])
    };
    assert_eq!(without("docs"), cut("  docs:", "\n# Everything"));
    assert_eq!(without("github"), cut("  # Issues", "  docs:"));
    assert_eq!(without("files"), cut("  # Files", "\n  # Issues"));
}

#[test]
fn removing_the_only_server_leaves_a_loadable_file() {
    let text = "mcp_servers:\n  # a\n  a:\n    command: x\nmodel: m\n";
    let result = edited(text, |file| assert!(file.remove_server("a")));
    assert!(result.ends_with("model: m\n"), "{result}");
    assert!(!result.contains('#'), "{result}");
    let again = edited(&result, |file| {
        file.set_server("b", &json!({"command": "y"}));
    });
    assert_eq!(
        yaml::parse(&again).unwrap()["mcp_servers"],
        json!({"b": {"command": "y"}})
    );
}

#[test]
fn removing_what_is_not_there_says_so() {
    let mut file = file(SAMPLE);
    assert!(!file.remove_server("nobody"));
    assert!(!file.unset_server_key("files", &["tools", "include"]));
    assert_eq!(file.text(), SAMPLE);
}

#[test]
fn the_comment_of_the_entry_before_survives() {
    let text = "mcp_servers:\n  a:\n    command: x\n    # timeout: 30\n  b:\n    command: y\n";
    let result = edited(text, |file| assert!(file.remove_server("b")));
    assert_eq!(
        result,
        "mcp_servers:\n  a:\n    command: x\n    # timeout: 30\n"
    );
}

#[test]
fn one_key_is_set_in_place() {
    let text = edited(SAMPLE, |file| {
        file.set_server_key("files", &["command"], json!("bunx"));
        file.set_server_key("github", &["tools", "include"], json!(["c"]));
        file.set_server_key("docs", &["enabled"], json!(false));
    });
    let expected = SAMPLE
        .replace("\"npx\"       # needs", "bunx       # needs")
        .replace("[a, b]", "[c]")
        .replace("enabled: yes", "enabled: false");
    assert_eq!(
        text.replace('"', "").replace(" [ c ]", " [c]"),
        expected.replace('"', "")
    );
}

#[test]
fn a_nested_key_is_made_and_removed_again() {
    let text = edited(SAMPLE, |file| {
        file.set_server_key("files", &["tools", "include"], json!(["read_file"]));
        assert!(file.unset_server_key("files", &["tools"]));
    });
    assert_eq!(text, SAMPLE);
}

#[test]
fn other_layouts_are_kept() {
    let set = |text: &str| {
        edited(text, |file| {
            file.set_server_key("a", &["enabled"], json!(false));
        })
    };
    // CRLF
    assert_eq!(
        set("mcp_servers:\r\n  a:\r\n    command: x\r\nmodel: m\r\n"),
        "mcp_servers:\r\n  a:\r\n    command: x\r\n    enabled: false\r\nmodel: m\r\n"
    );
    // Four spaces, quoted keys
    assert_eq!(
        set("mcp_servers:\n    'a':\n        \"command\": x\n"),
        "mcp_servers:\n    'a':\n        \"command\": x\n        enabled: false\n"
    );
    // No line break at the end
    assert_eq!(
        set("mcp_servers:\n  a:\n    command: x").trim_end(),
        "mcp_servers:\n  a:\n    command: x\n    enabled: false"
    );
    // Flow over several lines
    let flow = set("mcp_servers:\n  a: {\n    command: x, # why\n  }\nmodel: m\n");
    assert!(flow.contains("command: x, # why"), "{flow}");
    // JSON
    assert_eq!(
        set("{\"mcp_servers\": {\"a\": {\"command\": \"x\"}}}\n"),
        "{\"mcp_servers\": {\"a\": {\"command\": \"x\", \"enabled\": false}}}\n"
    );
    // A document marker
    assert_eq!(
        set("---\nmcp_servers:\n  a:\n    command: x\n...\n"),
        "---\nmcp_servers:\n  a:\n    command: x\n    enabled: false\n...\n"
    );
}

#[test]
fn removal_keeps_other_layouts() {
    let remove = |text: &str| edited(text, |file| assert!(file.remove_server("b")));
    assert_eq!(
        remove("mcp_servers:\r\n  a:\r\n    command: x\r\n  # b\r\n  b:\r\n    url: https://y\r\n"),
        "mcp_servers:\r\n  a:\r\n    command: x\r\n"
    );
    assert_eq!(
        remove("mcp_servers: {a: {command: x}, b: {command: y}} # c\n"),
        "mcp_servers: {a: {command: x}} # c\n"
    );
    assert_eq!(
        remove("mcp_servers:\n  a: {command: x}\n  'b': {command: y}"),
        "mcp_servers:\n  a: {command: x}\n"
    );
    assert_eq!(
        remove(
            "mcp_servers:\n    a:\n        command: x\n\n    b:\n        command: y\n\n    c:\n        command: z\n"
        ),
        "mcp_servers:\n    a:\n        command: x\n\n\n    c:\n        command: z\n"
    );
}

#[test]
fn references_and_odd_strings_survive_the_round_trip() {
    let entry = json!({
        "url": "https://x.example/${PATH}?a=b#c",
        "headers": {
            "Authorization": "Bearer ${TOKEN}",
            "X-Yes": "yes", "X-Null": "null", "X-Number": "0123", "X-Star": "*x", "X-Empty": "",
            "X-Lines": "a\nb: c\n\n# d\n", "X-Colon": "a: b", "X-Quote": "it's \"so\"", "X-Tab": "\ta ",
        },
        "timeout": 1.5, "enabled": true, "oauth": {}, "roots": [], "tools": {"include": ["a*", "- b"]},
    });
    for text in [
        SAMPLE,
        "",
        "mcp_servers: {z: {command: x}}\n",
        "mcp_servers:\r\n  z:\r\n    command: x\r\n",
    ] {
        let result = edited(text, |file| file.set_server("x.y:z", &entry));
        assert_eq!(
            yaml::parse(&result).unwrap()["mcp_servers"]["x.y:z"],
            entry,
            "{result}"
        );
        let back = edited(&result, |file| assert!(file.remove_server("x.y:z")));
        assert!(
            document::is_equivalent(&yaml::parse(&back).unwrap(), &yaml::parse(text).unwrap())
                || text.is_empty()
        );
    }
}

#[test]
fn unusual_layouts_can_be_edited_too() {
    for text in [
        "\u{feff}mcp_servers:\n  b:\n    command: x\n  c:\n    command: y\n",
        "mcp_servers:\n  ? b\n  : command: x\n  ? c\n  : command: y\n",
        "mcp_servers:\n  b:\n    args:\n    - x\n    - y\n    command: z\n  c: {command: y}\n",
        "mcp_servers:\n  b: {\n  command: x\n  }\n  c: {command: y}\n",
        "mcp_servers:\n  b:\n    command: >-\n      a\n\n      b\n\n  c: {command: y}\n",
        "%YAML 1.2\n---\nmcp_servers:\n  b: {command: x}\n  c: {command: y}\n",
    ] {
        let rest = json!({"c": {"command": "y"}});
        let removed = edited(text, |file| assert!(file.remove_server("b")));
        assert_eq!(
            yaml::parse(&removed).unwrap()["mcp_servers"],
            rest,
            "{removed}"
        );
        let changed = edited(text, |file| {
            file.set_server_key("b", &["enabled"], json!(false));
            file.set_server("d", &json!({"url": "https://d.example"}));
        });
        let servers = &yaml::parse(&changed).unwrap()["mcp_servers"];
        assert_eq!(servers["b"]["enabled"], json!(false), "{changed}");
        assert_eq!(servers["d"]["url"], json!("https://d.example"), "{changed}");
    }
}

#[test]
fn top_level_keys_are_set_as_well() {
    let text = edited(SAMPLE, |file| {
        file.set(&["approvals", "mcp_reload_confirm"], json!(false));
        file.set(&["agent", "disabled_toolsets"], json!(["web"]));
    });
    assert_eq!(
        yaml::parse(&text).unwrap()["agent"]["disabled_toolsets"],
        json!(["web"])
    );
    assert!(
        text.ends_with("approvals:\n  mcp_reload_confirm: false\n"),
        "{text}"
    );
    assert!(text.starts_with(&SAMPLE[..SAMPLE.find("  disabled").unwrap()]));
}

#[test]
fn anchors_stay_and_an_edit_that_would_reach_further_is_refused() {
    let text = "base: &base\n  command: x\nmcp_servers:\n  a:\n    <<: *base\n    timeout: 5\n  b: &b\n    command: y\n  c: *b\n";
    let result = edited(text, |file| {
        file.set_server_key("a", &["timeout"], json!(9));
    });
    assert_eq!(result, text.replace("timeout: 5", "timeout: 9"));

    // Changing `b` would change `c`; adding to `c` cannot be done in an alias.
    for name in ["b", "c"] {
        let mut file = file(text);
        file.set_server_key(name, &["enabled"], json!(false));
        assert_eq!(file.text(), text);
        let error = file.save().unwrap_err().to_string();
        assert!(
            error.contains(&format!("mcp_servers.{name}.enabled")),
            "{error}"
        );
    }
}

#[test]
fn a_mapping_is_not_forced_into_something_else() {
    let mut file = file("mcp_servers: hello\n");
    file.set_server("a", &json!({"command": "x"}));
    assert_eq!(file.text(), "mcp_servers: hello\n");
    assert!(matches!(
        file.save(),
        Err(ConfigFileError::NotEditable { .. })
    ));
}
