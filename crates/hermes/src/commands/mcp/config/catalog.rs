//! `hermes mcp catalog` and `presets`: the servers that `install` and `add --preset` know.

use serde_json::{Value, json};

use crate::{
    catalog::{Catalog, Manifest, built_in::PRESETS},
    cli::CatalogArgs,
    context::Context,
    output::{Table, Tone},
};

pub(crate) fn run(context: &Context, args: &CatalogArgs) {
    let catalog = load_catalog(context);
    let entries = catalog.entries().iter();
    let entries: Vec<&Manifest> = entries
        .filter(|manifest| {
            let word = args.word.as_deref();
            word.is_none_or(|word| matches_word(manifest, word))
        })
        .collect();
    let mut table = Table::new(&["ID", "TRANSPORT", "ASKS FOR", "DESCRIPTION"]);
    for manifest in &entries {
        let variables: Vec<&str> = manifest
            .prompts
            .iter()
            .map(|prompt| prompt.variable.as_str())
            .collect();
        table.row([
            (manifest.id.clone(), Tone::Strong),
            (transport(manifest).to_owned(), Tone::Plain),
            (variables.join(", "), Tone::Plain),
            (manifest.description.clone(), Tone::Faint),
        ]);
    }
    if entries.is_empty() {
        context.output.note("No catalog entry matches.");
    } else {
        context.output.table(&table);
        if context.output.is_interactive() {
            context
                .output
                .note("\nInstall one with `hermes mcp install ID`.");
        }
    }
    let entries: Vec<Value> = entries.into_iter().map(describe).collect();
    context.output.json(json!({"entries": entries}));
}

/// The catalog, with manifests that cannot be used named.
pub(crate) fn load_catalog(context: &Context) -> Catalog {
    let catalog = Catalog::load(context.home.path());
    for problem in catalog.problems() {
        context.output.warning(format!("{problem}; it is left out"));
    }
    catalog
}

fn matches_word(manifest: &Manifest, word: &str) -> bool {
    let word = word.to_lowercase();
    [&manifest.id, &manifest.title, &manifest.description]
        .iter()
        .any(|text| text.to_lowercase().contains(&word))
}

fn transport(manifest: &Manifest) -> &'static str {
    match manifest.transport.command {
        Some(_) => "stdio",
        None => "http",
    }
}

fn describe(manifest: &Manifest) -> Value {
    let prompts: Vec<Value> = manifest
        .prompts
        .iter()
        .map(|prompt| {
            json!({
                "variable": prompt.variable,
                "question": prompt.question,
                "secret": prompt.secret,
                "required": prompt.required,
                "default": prompt.default,
            })
        })
        .collect();
    json!({
        "id": manifest.id,
        "title": manifest.title,
        "description": manifest.description,
        "homepage": manifest.homepage,
        "transport": transport(manifest),
        "prompts": prompts,
    })
}

pub(crate) fn run_presets(context: &Context) {
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
