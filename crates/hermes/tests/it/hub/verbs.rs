//! The table of operations and the verbs of the command line agree.

use std::collections::BTreeSet;

use clap::CommandFactory;
use hermes_hub::operations::table;

/// Families whose verbs are operations of a Hub.
const FAMILIES: [&str; 7] = [
    "hub",
    "tenant",
    "share",
    "group",
    "policy",
    "specialization",
    "token",
];

/// Verbs that are a second way to an operation, or none of the Hub's own.
const OTHERS: [(&str, &str); 8] = [
    ("tenant unblock", "set_tenant_access"),
    ("tenant skill disable", "set_skill_state"),
    ("hub audit export", "list_audit"),
    ("hub serve", ""),
    ("hub doctor", ""),
    ("hub backup", ""),
    ("hub restore", ""),
    ("hub migrate", ""),
];

/// All verbs below a command, as `tenant cron list`.
fn verbs(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
    let mut children = command
        .get_subcommands()
        .filter(|child| child.get_name() != "help")
        .peekable();
    if children.peek().is_none() {
        found.insert(path.to_owned());
    }
    for child in children {
        verbs(child, &format!("{path} {}", child.get_name()), found);
    }
}

#[test]
fn every_operation_with_a_verb_has_it_and_every_verb_its_operation() {
    let mut cli = hermes::Cli::command();
    cli.build();
    let mut offered = BTreeSet::new();
    for family in FAMILIES {
        verbs(cli.find_subcommand(family).unwrap(), family, &mut offered);
    }
    let mut known: BTreeSet<String> = table()
        .rows()
        .filter_map(|operation| operation.command)
        .map(str::to_owned)
        .collect();
    for (verb, operation) in OTHERS {
        assert!(
            operation.is_empty() || table().find(operation).is_some(),
            "{operation}"
        );
        assert!(
            known.insert(verb.to_owned()),
            "`{verb}` is in the table now"
        );
    }
    assert_eq!(offered, known);
}
