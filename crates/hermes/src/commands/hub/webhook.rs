//! `hermes hub webhook …`: addresses that get events.

use std::path::Path;

use serde_json::Value;

use crate::{
    cli::{HubWebhookArgs, HubWebhookCommand, WebhookCreateArgs, WebhookUpdateArgs},
    commands::hub::{
        client::{Column, HubCall, HubClient},
        tenant::env::read_secret,
    },
    context::Context,
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("ON", "/enabled"),
    ("URL", "/url"),
    ("EVENTS", "/events"),
    ("TENANTS", "/tenants"),
];
const DELIVERIES: &[Column] = &[
    ("ID", "/id"),
    ("TYPE", "/type"),
    ("STATE", "/state"),
    ("ATTEMPTS", "/attempts"),
    ("NEXT", "/nextAttemptAt"),
    ("LAST ERROR", "/lastError"),
];

pub(super) fn run(context: &Context, args: HubWebhookArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    match args.command {
        HubWebhookCommand::List => {
            let answer = hub.call(&HubCall::new("list_webhooks"))?;
            hub.show_list(&answer, "webhooks", COLUMNS, "There are no webhooks.");
        }
        HubWebhookCommand::Get { webhook } => {
            let answer = hub.call(&webhook_call("get_webhook", &webhook))?;
            if !output.is_json() {
                hub.show_members(&answer.value);
            }
        }
        HubWebhookCommand::Create(args) => create_webhook(hub, args)?,
        HubWebhookCommand::Update(args) => update_webhook(hub, args)?,
        HubWebhookCommand::Delete { webhook, sure } => {
            let question =
                format!("Delete `{webhook}`, with everything that waits to be sent to it?");
            hub.confirm(sure.yes, &question)?;
            hub.call(&webhook_call("delete_webhook", &webhook))?;
            output.note(format!("Deleted `{webhook}`."));
        }
        HubWebhookCommand::Test { webhook } => {
            let answer = hub.call(&webhook_call("test_webhook", &webhook))?;
            output.note(format!(
                "The test is `{}`; `hermes hub webhook deliveries {webhook}` tells what came of it.",
                printable(answer.text("/id"))
            ));
        }
        HubWebhookCommand::Deliveries {
            webhook,
            state,
            page,
        } => {
            let call = webhook_call("list_deliveries", &webhook).with_optional("state", state);
            let answer = hub.call_list(call, "deliveries", &page.into())?;
            hub.show_list(&answer, "deliveries", DELIVERIES, "Nothing was sent to it.");
        }
        HubWebhookCommand::Redeliver { webhook, delivery } => {
            let call = webhook_call("redeliver", &webhook).with("delivery_id", delivery.as_str());
            hub.call(&call)?;
            output.note(format!("`{delivery}` is sent again."));
        }
    }
    Ok(())
}

fn webhook_call(operation: &'static str, webhook: &str) -> HubCall {
    HubCall::new(operation).with("webhook_id", webhook)
}

fn create_webhook(hub: &HubClient<'_>, args: WebhookCreateArgs) -> Result<(), Failure> {
    let mut call = HubCall::new("create_webhook")
        .with("url", args.url)
        .with_list("events", args.events)
        .with_list("tenants", args.tenants)
        .with_optional("enabled", args.disabled.then_some(false));
    if args.secret {
        // Who gave it has it.
        call = call.with(
            "secret",
            read_secret("Secret of the webhook")?.expose().as_str(),
        );
        let mut answer = hub.call_quietly(&call)?;
        remove_secret(&mut answer.value);
        hub.output().note(format!(
            "The webhook is `{}`.",
            printable(answer.text("/id"))
        ));
        if hub.output().is_json() {
            hub.output().object(&answer.value);
        }
        return Ok(());
    }
    if let Some(path) = args.output {
        return create_into_file(hub, &call, &path);
    }
    let answer = hub.call(&call)?;
    hub.output().note(format!(
        "The webhook is `{}`; its secret is shown this once:",
        printable(answer.text("/id"))
    ));
    hub.output().line(answer.text("/secret"));
    Ok(())
}

fn create_into_file(hub: &HubClient<'_>, call: &HubCall, path: &Path) -> Result<(), Failure> {
    let mut answer = hub.call_quietly(call)?;
    let id = printable(answer.text("/id")).into_owned();
    let secret = format!("{}\n", answer.text("/secret"));
    hermes_config::replace_file(path, secret.as_bytes()).map_err(|error| {
        Failure::failed(format!("`{}` cannot be written: {error}", path.display())).hint(format!(
            "the secret is lost; `hermes hub webhook update {id} --secret` sets another one"
        ))
    })?;
    remove_secret(&mut answer.value);
    hub.output().note(format!(
        "The webhook is `{id}`; its secret is in `{}`.",
        path.display()
    ));
    if hub.output().is_json() {
        hub.output().object(&answer.value);
    }
    Ok(())
}

fn remove_secret(answer: &mut Value) {
    if let Some(members) = answer.as_object_mut() {
        members.shift_remove("secret");
    }
}

fn update_webhook(hub: &HubClient<'_>, args: WebhookUpdateArgs) -> Result<(), Failure> {
    let enabled = match (args.enable, args.disable) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let mut call = webhook_call("update_webhook", &args.webhook)
        .with_optional("url", args.url)
        .with_list("events", args.events)
        .with_list("tenants", args.tenants)
        .with_optional("enabled", enabled);
    if args.all_tenants {
        call = call.with("tenants", Value::Null);
    }
    if args.secret {
        call = call.with(
            "secret",
            read_secret("Secret of the webhook")?.expose().as_str(),
        );
    }
    hub.call(&call.if_match(args.version.if_match))?;
    hub.output().note(format!("Changed `{}`.", args.webhook));
    Ok(())
}
