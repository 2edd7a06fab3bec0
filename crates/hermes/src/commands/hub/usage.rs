//! `hermes hub usage`: what runs used.

use serde_json::{Value, json};

use crate::{
    cli::HubUsageArgs,
    commands::hub::client::{Column, HubCall, HubClient},
    context::Context,
    failure::Failure,
};

const COUNTS: [Column; 6] = [
    ("RUNS", "/runs"),
    ("TOOL CALLS", "/toolCalls"),
    ("TOKENS IN", "/inputTokens"),
    ("CACHED", "/cachedTokens"),
    ("TOKENS OUT", "/outputTokens"),
    ("COST", "/cost"),
];

pub(super) fn run(context: &Context, args: HubUsageArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let call = HubCall::new("get_usage")
        .with_optional("by", args.by)
        .with_optional("from", args.from)
        .with_optional("to", args.to);
    if args.csv {
        let text = hub.call_text(&call.with("format", "csv"))?;
        hub.output().raw(&text);
        return Ok(());
    }
    let answer = hub.call(&call)?.value;
    let title = match answer["by"].as_str() {
        Some("model") => "MODEL",
        Some("day") => "DAY",
        _ => "TENANT",
    };
    let mut columns = vec![(title, "/key")];
    columns.extend(COUNTS);
    let mut rows = answer["usage"].as_array().cloned().unwrap_or_default();
    if rows.len() > 1 {
        rows.push(total_row(&answer["total"]));
    }
    hub.show_items(&rows, &columns, "Nothing was used on these days.");
    Ok(())
}

fn total_row(total: &Value) -> Value {
    let mut row = json!({"key": "(all)"});
    if let (Some(row), Some(total)) = (row.as_object_mut(), total.as_object()) {
        row.extend(total.clone());
    }
    row
}
