use std::time::Duration;

use hermes_config::{
    Settings, Variables,
    server::{CallOrder, ToolPolicy},
};
use rmcp::model::{ServerCapabilities, Tool};
use serde_json::{Value, json};

use super::*;

fn contribution(server: &str, tools: &[&str], change: impl FnOnce(&mut Server)) -> RegistryInput {
    let yaml = format!("mcp_servers:\n  {server}:\n    command: x\n");
    let settings = Settings::parse(&yaml, Variables::from_pairs::<String, String>([])).unwrap();
    let mut parsed = settings.servers[0].server.clone().unwrap();
    change(&mut parsed);
    let tools = tools
        .iter()
        .map(|name| Arc::new(NativeTool::new(tool(name))))
        .collect();
    RegistryInput {
        server: Arc::new(parsed),
        catalog: Some(Arc::new(Catalog {
            tools,
            ..Catalog::default()
        })),
        is_offered: true,
        tenant: None,
    }
}

fn tool(name: &str) -> Tool {
    serde_json::from_value(json!({"name": name, "inputSchema": {"type": "object"}})).unwrap()
}

fn with_capabilities(mut contribution: RegistryInput, capabilities: Value) -> RegistryInput {
    let catalog = Arc::make_mut(contribution.catalog.as_mut().unwrap());
    catalog.capabilities = serde_json::from_value::<ServerCapabilities>(capabilities).unwrap();
    contribution
}

fn build(contributions: &[RegistryInput]) -> Registry {
    Registry::build(1, Naming::Single, &HashSet::new(), contributions)
}

fn names(registry: &Registry) -> Vec<&str> {
    registry.tools().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn hyphens_and_dots_become_underscores_and_both_spellings_are_found() {
    let registry = build(&[contribution("my-api", &["list-items.v2"], |_| {})]);
    assert_eq!(names(&registry), ["mcp_my_api_list_items_v2"]);
    let tool = registry.find("mcp__my_api__list_items_v2").unwrap();
    assert_eq!(tool.original_name(), "list-items.v2");
    assert!(registry.find("mcp_my_api_list-items.v2").is_none());
}

#[test]
fn ten_thousand_tools_that_want_one_name_get_one_each_in_no_time() {
    let tools: Vec<String> = (0..10_000u32)
        .map(|number| char::from_u32(0x4e00 + number).unwrap().to_string())
        .collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let contributions = [contribution("s", &tools, |_| {})];
    let began = std::time::Instant::now();
    let registry = build(&contributions);
    let is_registered = |tool: &&str| {
        registry
            .find_original(&ServerName::new("s"), tool)
            .is_some()
    };
    assert!(tools.iter().all(is_registered));
    // A search among all the others for each takes minutes.
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let distinct: HashSet<&str> = names(&registry).into_iter().collect();
    assert_eq!(distinct.len(), 10_000);
    assert!(distinct.contains("mcp_s___10000"));
}

#[test]
fn a_native_tool_that_takes_the_place_of_a_utility_is_worth_a_warning() {
    let native = contribution("s", &["list_resources"], |_| {});
    let registry = build(&[with_capabilities(native, json!({"resources": {}}))]);
    assert_eq!(
        names(&registry),
        ["mcp_s_list_resources", "mcp_s_read_resource"]
    );
    let warning = registry.warnings().join("\n");
    assert!(
        warning.starts_with("s: ") && warning.contains("`list_resources`"),
        "{warning}"
    );
    let without = build(&[contribution("s", &["list_resources"], |_| {})]);
    assert!(
        without.warnings().is_empty(),
        "there is nothing to displace"
    );
}

#[test]
fn double_naming_registers_the_other_spelling() {
    let contributions = [contribution("my-api", &["list-items.v2"], |_| {})];
    let registry = Registry::build(1, Naming::Double, &HashSet::new(), &contributions);
    assert_eq!(names(&registry), ["mcp__my_api__list_items_v2"]);
    assert!(registry.find("mcp_my_api_list_items_v2").is_some());
}

#[test]
fn the_first_of_two_equal_names_keeps_it_and_the_other_gets_a_number() {
    let registry = build(&[
        contribution("a-b", &["c"], |_| {}),
        contribution("a", &["b.c", "b-c"], |_| {}),
    ]);
    assert_eq!(
        names(&registry),
        ["mcp_a_b_c", "mcp_a_b_c_2", "mcp_a_b_c_3"]
    );
    assert_eq!(registry.find("mcp_a_b_c").unwrap().server.as_str(), "a-b");
    assert_eq!(registry.find("mcp_a_b_c_3").unwrap().original_name(), "b-c");
    assert_eq!(registry.warnings().len(), 2);
}

#[test]
fn a_built_in_tool_keeps_its_name() {
    let reserved = HashSet::from(["mcp_a_read".to_owned()]);
    let registry = Registry::build(
        1,
        Naming::Single,
        &reserved,
        &[contribution("a", &["read", "write"], |_| {})],
    );
    assert_eq!(names(&registry), ["mcp_a_write"]);
    assert!(registry.warnings()[0].contains("built-in"));
}

#[test]
fn an_alias_never_hides_a_registered_name() {
    // `mcp__a__b` is both the other spelling of a/b and the registered name of the server `_a_` with the tool `b`.
    let registry = build(&[
        contribution("a", &["b"], |_| {}),
        contribution("_a_", &["b"], |_| {}),
    ]);
    assert_eq!(registry.find("mcp__a__b").unwrap().server.as_str(), "_a_");
}

#[test]
fn utilities_need_both_the_flag_and_the_capability() {
    let both = json!({"resources": {}, "prompts": {}});
    let registry = build(&[with_capabilities(
        contribution("s", &[], |_| {}),
        both.clone(),
    )]);
    assert_eq!(
        names(&registry),
        [
            "mcp_s_list_resources",
            "mcp_s_read_resource",
            "mcp_s_list_prompts",
            "mcp_s_get_prompt"
        ]
    );
    let no_prompts = contribution("s", &[], |server| {
        server.tools = ToolPolicy {
            prompts: false,
            ..ToolPolicy::default()
        }
    });
    let registry = build(&[with_capabilities(no_prompts, both)]);
    assert_eq!(
        names(&registry),
        ["mcp_s_list_resources", "mcp_s_read_resource"]
    );
    assert!(
        build(&[contribution("s", &[], |_| {})])
            .servers()
            .is_empty()
    );
}

#[test]
fn a_servers_own_tool_wins_over_the_utility_of_that_name() {
    let registry = build(&[with_capabilities(
        contribution("s", &["list_resources"], |_| {}),
        json!({"resources": {}}),
    )]);
    assert_eq!(
        names(&registry),
        ["mcp_s_list_resources", "mcp_s_read_resource"]
    );
    assert!(matches!(
        registry.find("mcp_s_list_resources").unwrap().origin,
        ToolOrigin::Native(_)
    ));
}

#[test]
fn an_empty_include_leaves_only_the_utilities() {
    let registry = build(&[with_capabilities(
        contribution("docs", &["search"], |server| {
            server.tools = ToolPolicy {
                include: Some(Vec::new()),
                prompts: false,
                ..ToolPolicy::default()
            };
        }),
        json!({"resources": {}, "prompts": {}, "tools": {}}),
    )]);
    assert_eq!(
        names(&registry),
        ["mcp_docs_list_resources", "mcp_docs_read_resource"]
    );
}

#[test]
fn a_filter_that_matches_nothing_warns() {
    let registry = build(&[contribution("s", &["a"], |server| {
        server.tools.include = Some(vec!["a".into(), "gone*".into()]);
    })]);
    assert_eq!(names(&registry), ["mcp_s_a"]);
    assert_eq!(
        registry.warnings(),
        ["s: the filter `gone*` matches none of its tools"]
    );
}

#[test]
fn a_server_without_any_tool_left_is_not_a_toolset() {
    let registry = build(&[
        contribution("empty", &["a"], |server| {
            server.tools.exclude = Some(vec!["a".into()]);
        }),
        contribution("full", &["a"], |_| {}),
    ]);
    assert_eq!(registry.servers(), [&ServerName::new("full")]);
}

#[test]
fn names_of_a_withdrawn_server_still_lead_to_it() {
    let parked = RegistryInput {
        is_offered: false,
        ..contribution("s", &["a"], |_| {})
    };
    let registry = build(&[parked]);
    assert!(names(&registry).is_empty());
    assert!(registry.find("mcp_s_a").is_some());
}

#[test]
fn a_tool_without_a_description_is_still_described() {
    let registry = build(&[contribution("s", &["a"], |server| {
        server.calls = CallOrder::Parallel;
        server.timeout = Duration::from_secs(1);
    })]);
    let tool = registry.find("mcp_s_a").unwrap();
    assert_eq!(tool.description(), "Tool `a` of the MCP server `s`.");
    assert_eq!(tool.order, CallOrder::Parallel);
    assert_eq!(
        tool.definition()["parameters"],
        json!({"type": "object", "properties": {}})
    );
}

#[test]
fn tools_are_asked_about_by_pattern_or_by_their_own_hint() {
    let asked = |patterns: &[&str]| {
        let mut contribution = contribution("s", &["delete_all", "read"], |server| {
            server.tools.approve = patterns.iter().map(ToString::to_string).collect();
        });
        let catalog = Arc::make_mut(contribution.catalog.as_mut().unwrap());
        for (name, is_destructive) in [("wipe", true), ("tidy", false)] {
            let definition = json!({
                "name": name, "inputSchema": {"type": "object"},
                "annotations": {"destructiveHint": is_destructive},
            });
            let definition = serde_json::from_value(definition).unwrap();
            catalog.tools.push(Arc::new(NativeTool::new(definition)));
        }
        let registry = build(&[with_capabilities(contribution, json!({"resources": {}}))]);
        let needed = registry
            .tools()
            .filter(|tool| tool.approval == ToolApproval::Required);
        let needed: Vec<String> = needed.map(|tool| tool.original_name().to_owned()).collect();
        (needed, registry.warnings().len())
    };
    assert_eq!(asked(&[]), (vec![], 0));
    assert_eq!(asked(&["delete_*"]), (vec!["delete_all".into()], 0));
    assert_eq!(asked(&["@destructive"]), (vec!["wipe".into()], 0));
    assert_eq!(asked(&["read_resource"]), (vec!["read_resource".into()], 0));
    assert_eq!(asked(&["nothing"]), (vec![], 1));
    assert_eq!(asked(&["*"]).0.len(), 6);
}
