//! `hermes tenant create` and `update`: what a tenant is to be.

use serde_json::{Map, Value, json};

use super::{messaging::limit_members, tenant_call};
use crate::{
    cli::{TenantCreateArgs, TenantMembers, TenantUpdateArgs},
    commands::hub::client::{HubCall, HubClient, call},
    failure::Failure,
    output::printable,
};

pub(super) fn create_tenant(hub: &HubClient<'_>, args: TenantCreateArgs) -> Result<(), Failure> {
    let call = HubCall::new("create_tenant")
        .with_all(tenant_members(args.members)?)
        .with_optional("id", args.tenant);
    let answer = hub.call(&call.with_optional("start", args.no_start.then_some(false)))?;
    // The answer also has the runtime key. Only the tenant's agent needs it, and the Hub gives it to that one.
    hub.output()
        .note(format!("Created `{}`.", printable(answer.text("/id"))));
    Ok(())
}

pub(super) fn update_tenant(hub: &HubClient<'_>, args: TenantUpdateArgs) -> Result<(), Failure> {
    let members = tenant_members(args.members)?;
    let limits = limit_members(&args.limits)?;
    if members.is_empty() && limits.is_empty() {
        return Err(Failure::usage("nothing is to be changed")
            .hint("name what changes, such as `--name` or `--flavor`"));
    }
    if !members.is_empty() {
        let call = tenant_call("update_tenant", &args.tenant).with_all(members);
        hub.call(&call.if_match(args.version.if_match))?;
    }
    if !limits.is_empty() {
        hub.call(&tenant_call("patch_limits", &args.tenant).with_all(limits))?;
    }
    hub.output().note(format!("Updated `{}`.", args.tenant));
    Ok(())
}

/// The members that the arguments name, over those of a file.
fn tenant_members(args: TenantMembers) -> Result<Map<String, Value>, Failure> {
    let mut members = call::read_optional_object(args.from.as_deref())?;
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    set("displayName", args.name.map(Value::from));
    set("flavor", args.flavor.map(Value::from));
    if !args.groups.is_empty() {
        let groups = args.groups.iter().map(|text| parse_group(text)).collect();
        set("groups", Some(Value::Array(groups)));
    }
    if !args.labels.is_empty() {
        let labels = call::parse_pairs("--label", &args.labels)?;
        set("labels", Some(Value::Object(labels)));
    }
    for (name, value) in [("model", args.model), ("timezone", args.timezone)] {
        let Some(value) = value else { continue };
        let agent = members.entry("agent").or_insert_with(|| json!({}));
        match agent.as_object_mut() {
            Some(agent) => agent.insert(name.to_owned(), value.into()),
            None => return Err(Failure::usage("`agent` in the file must be an object")),
        };
    }
    Ok(members)
}

/// `division1` or `division1:write`.
fn parse_group(text: &str) -> Value {
    let (id, access) = text.split_once(':').unwrap_or((text, "read"));
    json!({"id": id, "access": access})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_win_over_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            r#"{"displayName": "A", "agent": {"model": "m", "autoStart": false}}"#,
        )
        .unwrap();
        let members = tenant_members(TenantMembers {
            name: Some("B".into()),
            model: Some("n".into()),
            groups: vec!["one".into(), "two:write".into()],
            from: Some(file.path().into()),
            ..TenantMembers::default()
        });
        assert_eq!(
            Value::Object(members.unwrap()),
            json!({
                "displayName": "B",
                "agent": {"model": "n", "autoStart": false},
                "groups": [{"id": "one", "access": "read"}, {"id": "two", "access": "write"}],
            })
        );
    }
}
