//! The table of operations and the verbs of the command line agree.

use std::collections::BTreeSet;

use clap::CommandFactory;
use hermes_hub::operations::table;

/// Families whose verbs are operations of a Hub.
const FAMILIES: [&str; 8] = [
    "hub",
    "tenant",
    "share",
    "group",
    "policy",
    "specialization",
    "token",
    "skill-library",
];

/// Verbs that are a second way to an operation, or none of the Hub's own.
const OTHERS: [(&str, &str); 9] = [
    ("tenant unblock", "set_tenant_access"),
    ("tenant skill disable", "set_skill_state"),
    ("hub audit export", "list_audit"),
    ("hub connect", ""),
    ("hub serve", ""),
    ("hub doctor", ""),
    ("hub backup", ""),
    ("hub restore", ""),
    ("hub migrate", ""),
];

/// Operations that are part of another operation's verb, or that nobody asks for on a command line.
const WITHOUT_VERB: [&str; 17] = [
    "download_file",
    "get_agent_card",
    "get_memory",
    "get_run",
    "get_soul",
    "get_tenant_access",
    "get_tenant_agent",
    "healthz",
    "list_approvals",
    "patch_limits",
    "read_file",
    "respond_approval",
    "stop_run",
    "test_tenant_model",
    "update_mcp_server",
    "update_tenant_model",
    "version",
];

/// All verbs below a command, as `tenant cron list`.
fn verbs(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
    let mut children = command
        .get_subcommands()
        .filter(|child| child.get_name() != "help")
        .peekable();
    // `tenant files` is a verb of its own, and has some.
    if children.peek().is_none() || !command.is_subcommand_required_set() {
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

#[test]
fn operations_without_a_verb_of_their_own_are_these() {
    let without: BTreeSet<&str> = table()
        .rows()
        .filter(|operation| operation.command.is_none())
        .map(|operation| operation.name)
        .collect();
    assert_eq!(without, BTreeSet::from(WITHOUT_VERB));
}
