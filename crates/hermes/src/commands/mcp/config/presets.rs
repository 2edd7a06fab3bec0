//! `hermes mcp presets`: what `add --preset` knows.

use serde_json::json;

use crate::{
    catalog::presets::PRESETS,
    context::Context,
    output::{Table, Tone},
};

pub(crate) fn run(context: &Context) {
    let mut table = Table::new(&["PRESET", "RUNS", "DESCRIPTION"]);
    let mut presets = Vec::new();
    for preset in &PRESETS {
        let line = [&[preset.command], preset.args].concat().join(" ");
        table.row([
            (preset.name.to_owned(), Tone::Strong),
            (line, Tone::Plain),
            (preset.description.to_owned(), Tone::Faint),
        ]);
        presets.push(json!({
            "name": preset.name,
            "description": preset.description,
            "command": preset.command,
            "args": preset.args,
        }));
    }
    context.output.table(&table);
    context.output.json(json!({"presets": presets}));
    if context.output.is_interactive() {
        context
            .output
            .note("\nAdd one with `hermes mcp add NAME --preset PRESET`.");
    }
}
