use serde_json::json;

use super::*;

fn enter_hermes(text: &str, syntax: FileSyntax) -> Result<FileEdit, ImportError> {
    let key = match syntax {
        FileSyntax::Toml => "mcp_servers",
        _ => "mcpServers",
    };
    let entry =
        json!({"command": "/bin/hermes", "args": ["mcp", "serve"], "env": {"HERMES_HOME": "/h"}});
    put_entry(text, syntax, key, "hermes", &entry, Path::new("/x/file"))
}

#[track_caller]
fn changed(text: &str, syntax: FileSyntax) -> String {
    match enter_hermes(text, syntax) {
        Ok(FileEdit::Changed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_entry_is_added_and_every_other_byte_stays() {
    let before = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\":\"x\" , },  /* odd */\n  },\n  \"z\":  1\n}\n";
    let after = changed(before, FileSyntax::JsonWithComments);
    let at = after.find("\"hermes\"").unwrap();
    let common = before.find("/* odd */").unwrap();
    assert_eq!(&after[..common], &before[..common]);
    assert!(after.ends_with("},\n  \"z\":  1\n}\n"), "{after}");
    assert!(at > common, "{after}");
    assert_eq!(
        enter_hermes(&after, FileSyntax::JsonWithComments),
        Ok(FileEdit::Same)
    );
}

#[test]
fn toml_keeps_its_comments_and_order() {
    let before =
        "# mine\nmodel = \"x\"   # best\n\n[mcp_servers.a]\ncommand = 'y'\n\n[tui]\nz = 1\n";
    let after = changed(before, FileSyntax::Toml);
    for line in before.lines() {
        assert!(after.contains(line), "{line}\n{after}");
    }
    assert!(
        after.contains("[mcp_servers.hermes]\ncommand = \"/bin/hermes\"\n"),
        "{after}"
    );
    assert!(!after.contains("[mcp_servers]\n"), "{after}");
    assert_eq!(enter_hermes(&after, FileSyntax::Toml), Ok(FileEdit::Same));
}

#[test]
fn a_new_file_has_just_the_entry() {
    for syntax in [
        FileSyntax::Json,
        FileSyntax::JsonWithComments,
        FileSyntax::Toml,
    ] {
        let after = changed("", syntax);
        assert!(after.ends_with('\n'), "{after}");
        assert_eq!(enter_hermes(&after, syntax), Ok(FileEdit::Same));
    }
}

#[test]
fn an_entry_that_differs_is_brought_up_to_date_and_keeps_its_other_keys() {
    let before = r#"{"mcpServers": {"hermes": {"command": "/old", "timeout": 5, "args": ["mcp", "serve"]}}}"#;
    let after = changed(before, FileSyntax::Json);
    let value: Value = serde_json::from_str(&after).unwrap();
    let hermes = &value["mcpServers"]["hermes"];
    assert_eq!(hermes["command"], "/bin/hermes");
    assert_eq!(hermes["timeout"], 5);
    assert_eq!(hermes["env"]["HERMES_HOME"], "/h");

    let before = "[mcp_servers.hermes]\ncommand = \"/old\" # here\nenabled = true\n";
    let after = changed(before, FileSyntax::Toml);
    assert!(
        after.starts_with(
            "[mcp_servers.hermes]\ncommand = \"/bin/hermes\" # here\nenabled = true\n"
        ),
        "{after}"
    );
}

#[test]
fn a_broken_file_is_refused_with_the_place() {
    for (text, syntax) in [
        ("{\n  \"mcpServers\": {,}\n}", FileSyntax::JsonWithComments),
        ("{\n  // no comments here\n}", FileSyntax::Json),
        ("a = 1\nb = = 2\n", FileSyntax::Toml),
    ] {
        let error = enter_hermes(text, syntax).unwrap_err().to_string();
        assert!(error.starts_with("/x/file:2:"), "{error}");
    }
    for text in ["[]", "{\"mcpServers\": []}"] {
        assert!(
            matches!(
                enter_hermes(text, FileSyntax::Json),
                Err(ImportError::Shape { .. })
            ),
            "{text}"
        );
    }
}
