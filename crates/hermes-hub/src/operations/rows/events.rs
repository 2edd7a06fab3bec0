//! What happens in the Hub: events, webhooks, usage.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post},
    Operation,
};
use crate::{
    api_types::{Delivery, Scope, Webhook},
    service::{hub_events, usage, webhooks},
};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("watch_events", &[Get], "/v1/events", hub_events::watch)
            .docs(
                "Watch the Hub",
                "Streams what happens to tenants: runs that ended, approvals that wait, tenants that failed or changed. \
                 `Last-Event-ID` or `after` resumes.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .command("hub events")
            .returns_events(),
        Operation::new("get_usage", &[Get], "/v1/usage", usage::get)
            .docs(
                "Get usage",
                "Shows how many runs ended, those of chats included, and the tools, tokens and money that they used, by \
                 tenant, model or day.",
            )
            .scope(Scope::RunsRead)
            .read_only()
            .extended_tool()
            .command("hub usage")
            .rest_only(&["format"])
            .also_returns("text/csv")
            .returns::<usage::UsageReport>(),
        Operation::new("list_webhooks", &[Get], "/v1/webhooks", webhooks::list)
            .docs("List webhooks", "Lists the addresses that get events.")
            .scope(Scope::WebhooksRead)
            .gate(Gate::WholeHub)
            .read_only()
            .extended_tool()
            .command("hub webhook list")
            .returns::<webhooks::WebhookList>(),
        Operation::new("create_webhook", &[Post], "/v1/webhooks", webhooks::create)
            .docs(
                "Create a webhook",
                "Creates a webhook: later events are posted to its address, signed as Standard Webhooks has it. The \
                 reply shows its secret, once.",
            )
            .scope(Scope::WebhooksWrite)
            .gate(Gate::WholeHub)
            .open_world()
            .success(&[201])
            .errors(&[409, 422])
            .command("hub webhook create")
            .returns::<webhooks::CreatedWebhook>(),
        Operation::new("get_webhook", &[Get], "/v1/webhooks/{webhook_id}", webhooks::get)
            .docs("Get a webhook", "Shows one webhook, without its secret.")
            .scope(Scope::WebhooksRead)
            .gate(Gate::WholeHub)
            .read_only()
            .versioned()
            .extended_tool()
            .command("hub webhook get")
            .returns::<Webhook>(),
        Operation::new("update_webhook", &[Patch], "/v1/webhooks/{webhook_id}", webhooks::update)
            .docs(
                "Change a webhook",
                "Changes a webhook. What happens while it is turned off is never sent to it.",
            )
            .scope(Scope::WebhooksWrite)
            .gate(Gate::WholeHub)
            .idempotent()
            .open_world()
            .errors(&[409, 412, 422])
            .extended_tool()
            .command("hub webhook update")
            .rest_only(&["secret"])
            .returns::<Webhook>(),
        Operation::new("delete_webhook", &[Delete], "/v1/webhooks/{webhook_id}", webhooks::delete)
            .docs("Delete a webhook", "Deletes a webhook with everything that waits to be sent to it.")
            .scope(Scope::WebhooksWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("hub webhook delete")
            .returns_nothing(),
        Operation::new("test_webhook", &[Post], "/v1/webhooks/{webhook_id}/test", webhooks::test)
            .docs(
                "Test a webhook",
                "Sends an event of the type `webhook.test` to a webhook. Its deliveries show the result.",
            )
            .scope(Scope::WebhooksWrite)
            .gate(Gate::WholeHub)
            .open_world()
            .success(&[202])
            .errors(&[409])
            .extended_tool()
            .command("hub webhook test")
            .returns::<Delivery>(),
        Operation::new(
            "list_deliveries",
            &[Get],
            "/v1/webhooks/{webhook_id}/deliveries",
            webhooks::deliveries,
        )
        .docs(
            "List deliveries",
            "Lists what was or will be sent to a webhook, newest first. Those in the state `dead` were given up after a \
             day.",
        )
        .scope(Scope::WebhooksRead)
        .gate(Gate::WholeHub)
        .read_only()
        .extended_tool()
        .command("hub webhook deliveries")
        .returns::<webhooks::DeliveryList>(),
        Operation::new(
            "redeliver",
            &[Post],
            "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
            webhooks::redeliver,
        )
        .docs(
            "Send a delivery again",
            "Sends a delivery that ended once more, under the same id.",
        )
        .scope(Scope::WebhooksWrite)
        .gate(Gate::WholeHub)
        .open_world()
        .success(&[202])
        .errors(&[409])
        .extended_tool()
        .command("hub webhook redeliver")
        .returns::<Delivery>(),
    ]
}
