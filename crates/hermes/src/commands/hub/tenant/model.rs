//! `hermes tenant model`: shows, changes and tests the model of a tenant.

use std::time::Duration;

use serde_json::Value;

use super::tenant_call;
use crate::{
    cli::TenantModelArgs,
    commands::hub::client::{HubCall, HubClient},
    failure::Failure,
    output::printable,
};

pub(super) fn run(hub: &HubClient<'_>, args: TenantModelArgs) -> Result<(), Failure> {
    let tenant = args.tenant.clone();
    let wants_test = args.test;
    let change = build_change(args);
    let shown = match &change {
        // With `--json` one document is printed: the one that the command ends with.
        Some(change) if wants_test => hub.call_quietly(change)?,
        Some(change) => hub.call(change)?,
        None if wants_test => return test(hub, &tenant),
        None => hub.call(&tenant_call("get_tenant_model", &tenant))?,
    };
    if change.is_some() {
        hub.output()
            .note(format!("Changed the model of `{tenant}`."));
    }
    if !hub.output().is_json() {
        hub.show_members(&shown.value);
    }
    if wants_test {
        return test(hub, &tenant);
    }
    Ok(())
}

fn build_change(args: TenantModelArgs) -> Option<HubCall> {
    let mut call = tenant_call("update_tenant_model", &args.tenant);
    // An empty value removes a setting.
    let member = |text: String| {
        if text.is_empty() {
            Value::Null
        } else {
            text.into()
        }
    };
    let texts = [
        ("model", args.name),
        ("provider", args.provider),
        ("base_url", args.base_url),
        ("key_env", args.key_env),
        ("api_mode", args.api_mode),
    ];
    let mut is_changed = false;
    for (name, value) in texts {
        is_changed |= value.is_some();
        call = call.with_optional(name, value.map(member));
    }
    is_changed |= args.context_length.is_some();
    call = call.with_optional("context_length", args.context_length);
    is_changed.then_some(call)
}

/// The model has a minute; the agent may have to be woken first.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

fn test(hub: &HubClient<'_>, tenant: &str) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call("test_tenant_model", tenant).with_timeout(TEST_TIMEOUT))?;
    let value = &answer.value;
    if value["ok"] != true {
        let error = printable(value["error"].as_str().unwrap_or("it did not answer"));
        let failure = Failure::failed(format!("the model of `{tenant}` does not answer: {error}"));
        return Err(if hub.output().is_json() {
            failure.mark_printed()
        } else {
            failure
        });
    }
    if !hub.output().is_json() {
        let text = |name: &str| printable(value[name].as_str().unwrap_or("-")).into_owned();
        hub.output().line(format!(
            "{} ({}) answers in {} ms: {}",
            text("model"),
            text("provider"),
            value["elapsedMs"],
            text("reply")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> TenantModelArgs {
        TenantModelArgs {
            tenant: "acme".into(),
            name: None,
            provider: None,
            base_url: None,
            key_env: None,
            api_mode: None,
            context_length: None,
            test: false,
        }
    }

    #[test]
    fn without_options_nothing_is_changed_and_an_empty_one_removes() {
        assert!(build_change(args()).is_none());
        let change = build_change(TenantModelArgs {
            base_url: Some(String::new()),
            ..args()
        });
        assert!(change.is_some_and(|change| change.has("base_url") && !change.has("model")));
    }
}
