//! Every operation has a place in the console, or a reason why it has none.

use std::{collections::BTreeSet, fs, path::Path};

use hermes_hub::operations::table;

/// Operations that no page uses, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("decide_run", "a run is decided by its approval"),
    (
        "explain_policy",
        "a page of a tool says what the policy does with it",
    ),
    ("get_agent_card", "for other agents"),
    ("get_platform", "the list of platforms has all of each"),
    ("get_tenant_access", "the tenant has it"),
    ("healthz", "for load balancers"),
    ("openapi", "the reference at /docs shows it"),
    ("stat_share_path", "the list of a folder has it"),
    ("sync_context", "copies files to the machine of a program"),
    ("update_mcp_server", "the form has the whole entry"),
];

/// All that pages are made of, without tests.
fn read_sources(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, text);
        } else if path
            .extension()
            .is_some_and(|end| end == "rs" || end == "html")
        {
            let source = fs::read_to_string(&path).unwrap();
            text.push_str(source.split("#[cfg(test)]").next().unwrap_or_default());
        }
    }
}

#[test]
fn every_operation_has_a_place_in_the_console_or_a_reason_to_have_none() {
    let mut sources = String::new();
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    read_sources(&pages, &mut sources);
    let is_used = |name: &str| {
        let places = [
            format!("\"{name}\""),
            format!("\"/do/{name}\""),
            format!("/do/{name}{{"),
            format!("\"{name}?"),
            format!("\"{name}:"),
        ];
        places.iter().any(|place| sources.contains(place))
    };
    let listed: BTreeSet<&str> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    let missing: Vec<&str> = table()
        .rows()
        .map(|row| row.name)
        .filter(|name| !is_used(name) && !listed.contains(name))
        .collect();
    assert!(missing.is_empty(), "no page has {missing:?}");
    for name in listed {
        assert!(table().find(name).is_some(), "`{name}` is no operation");
    }
}
