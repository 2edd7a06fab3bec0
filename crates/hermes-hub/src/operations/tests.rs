use std::collections::{HashMap, HashSet};

use super::*;

/// The standard tools, in the order they are documented.
const STANDARD: [&str; 34] = [
    "list_tenants",
    "get_tenant",
    "create_tenant",
    "update_tenant",
    "delete_tenant",
    "set_tenant_access",
    "list_tenant_skills",
    "list_tenant_skill_files",
    "get_tenant_skill_file",
    "list_shares",
    "list_share_files",
    "read_share_file",
    "stat_share_path",
    "grep_share",
    "find_share_files",
    "write_share_file",
    "make_share_dir",
    "move_share_path",
    "remove_share_path",
    "list_tenant_crons",
    "get_tenant_cron",
    "create_tenant_cron",
    "update_tenant_cron",
    "delete_tenant_cron",
    "pause_tenant_cron",
    "resume_tenant_cron",
    "run_tenant_cron",
    "get_tenant_impact_config",
    "patch_tenant_impact_config",
    "get_agent_policy",
    "put_agent_policy",
    "get_agent_specialization",
    "put_agent_specialization",
    "sync_context",
];

#[test]
fn the_standard_tools_are_exactly_the_documented_ones_in_order() {
    let names: Vec<_> = table()
        .rows()
        .filter(|operation| operation.toolset == Toolset::Standard)
        .map(|operation| operation.name)
        .collect();
    assert_eq!(names, STANDARD);
}

/// What a tool could not give: a stream, bytes, or a secret that only REST shows; and what needs no token, as tools do.
const WITHOUT_TOOL: [&str; 12] = [
    "create_sign_in_link",
    "create_token",
    "create_webhook",
    "download_file",
    "download_share_file",
    "healthz",
    "openapi",
    "readyz",
    "rotate_runtime_key",
    "rotate_token",
    "watch_events",
    "watch_run",
];

#[test]
fn every_other_operation_is_an_extended_tool() {
    let rows = table().rows();
    let mut without: Vec<_> = rows
        .filter(|operation| operation.toolset == Toolset::None)
        .map(|operation| operation.name)
        .collect();
    without.sort_unstable();
    assert_eq!(without, WITHOUT_TOOL);
    for operation in table().rows() {
        if operation.toolset == Toolset::None {
            continue;
        }
        let name = operation.name;
        assert!(
            matches!(operation.output, Output::Json(_) | Output::Empty),
            "{name} shows nothing to a tool"
        );
        let properties = &operation.input.tool_schema()["properties"];
        assert!(
            operation.other_media.is_none() || properties.get("format").is_none(),
            "{name} could be asked for what a tool does not show"
        );
    }
}

#[test]
fn every_row_is_complete_and_its_own() {
    let mut names = HashSet::new();
    let mut routes = HashSet::new();
    let mut commands = HashSet::new();
    for operation in table().rows() {
        let name = operation.name;
        assert!(names.insert(name), "{name} occurs twice");
        for verb in operation.methods {
            assert!(
                routes.insert((*verb, operation.path)),
                "{name} shares its route"
            );
        }
        if let Some(command) = operation.command {
            assert!(commands.insert(command), "{name} shares its command");
        }
        assert!(
            !operation.title.is_empty() && operation.description.ends_with('.'),
            "{name}"
        );
        assert!(operation.path.starts_with("/v1/"), "{name}");
        assert!(
            table()
                .find(name)
                .is_some_and(|found| std::ptr::eq(found, operation))
        );
        let reads = operation.effect == Effect::Read;
        assert!(
            !reads || operation.idempotency == Idempotency::Idempotent,
            "{name}"
        );
        // A token that may only look must not come by anything that changes something, but for its own sessions.
        assert!(
            reads
                || matches!(name, "create_sign_in_link" | "end_console_session")
                || operation
                    .required_scope()
                    .is_some_and(|scope| !scope.is_read()),
            "{name}"
        );
    }
}

#[test]
fn every_argument_in_a_route_is_an_argument_and_all_are_described() {
    for operation in table().rows() {
        let in_route: Vec<_> = operation
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| name.trim_start_matches('*'))
            .collect();
        let placed: Vec<_> = operation
            .input
            .arguments
            .iter()
            .filter(|member| member.location == ArgumentLocation::Path)
            .map(|member| member.name.as_str())
            .collect();
        let (mut one, mut other) = (in_route.clone(), placed.clone());
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!(one, other, "{}", operation.name);
        for member in &operation.input.arguments {
            let described = member
                .schema
                .get("description")
                .is_some_and(|text| text.as_str() != Some(""));
            assert!(described, "{}.{}", operation.name, member.name);
        }
    }
}

#[test]
fn tools_have_no_arguments_of_rest_alone() {
    let tool = table().find("delete_tenant").unwrap();
    assert!(
        tool.input
            .arguments
            .iter()
            .any(|member| member.name == "purge")
    );
    let properties = tool.input.tool_schema()["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["tenant_id"]);
    let arguments = serde_json::json!({"tenant_id": "a", "purge": true});
    let arguments = arguments.as_object().unwrap();
    assert!(tool.input.check(arguments, NamingStyle::Tool).is_err());
    assert!(tool.input.check(arguments, NamingStyle::Rest).is_ok());
}

#[test]
fn every_schema_stands_alone() {
    for operation in table().rows() {
        let mut schemas = vec![Value::Object(operation.input.tool_schema().clone())];
        if let Output::Json(schema) = &operation.output {
            schemas.push(Value::Object(schema.clone()));
        }
        for schema in schemas {
            assert_eq!(schema["type"], "object", "{}", operation.name);
            assert!(!schema.to_string().contains("$ref"), "{}", operation.name);
            assert!(!schema.to_string().contains("uint"), "{}", operation.name);
            jsonschema::validator_for(&schema).unwrap();
        }
    }
}

#[test]
fn every_member_of_an_input_has_its_right_in_the_table() {
    for operation in table().rows() {
        for member in &operation.input.arguments {
            let member_path = format!("{}.{}", operation.name, member.name);
            let right = operation.member_right(&member.name);
            if member.location == ArgumentLocation::Path {
                assert_eq!(right, None, "{member_path} is in the route");
                continue;
            }
            let right =
                right.unwrap_or_else(|| panic!("{member_path} is not in the table of rights"));
            let properties = member.schema.get("properties").and_then(Value::as_object);
            let is_document = operation.input.whole_body == Some(member.name.as_str());
            match (right, properties) {
                (MemberRight::Parts(parts), Some(properties)) => {
                    let mut known: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
                    let mut there: Vec<_> = properties.keys().map(String::as_str).collect();
                    known.sort_unstable();
                    there.sort_unstable();
                    assert_eq!(known, there, "{member_path}");
                }
                (MemberRight::Parts(_), None) => panic!("{member_path} has no parts"),
                (_, Some(_)) => assert!(is_document, "{member_path} has parts of its own"),
                (_, None) => {}
            }
            if let MemberRight::SameAs(name) = right {
                assert!(table().find(name).is_some(), "{member_path} names `{name}`");
            }
        }
    }
}

#[test]
fn members_of_one_name_take_one_right_wherever_that_name_is() {
    let mut rights: HashMap<&str, MemberRight> = HashMap::new();
    for operation in table().rows() {
        for member in &operation.input.arguments {
            let name = member.name.as_str();
            let right = operation.member_right(name);
            if let Some(right) = right.filter(|right| *right != MemberRight::Inherited) {
                let known = *rights.entry(name).or_insert(right);
                assert_eq!(known, right, "{}.{name}", operation.name);
            }
        }
    }
    for operation in table().rows() {
        for member in &operation.input.arguments {
            // A filter of a list sets nothing.
            let is_own = operation.effect != Effect::Read
                && operation.member_right(&member.name) == Some(MemberRight::Inherited);
            let elsewhere = rights.get(member.name.as_str());
            assert!(
                !is_own || elsewhere.is_none(),
                "{}.{} takes {elsewhere:?} elsewhere",
                operation.name,
                member.name
            );
        }
    }
}
