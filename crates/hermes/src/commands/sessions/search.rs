//! `hermes sessions search`.

use hermes_store::{SearchHit, SearchQuery};
use serde_json::{Value, json};

use super::conversation::shown_time;
use crate::{
    cli::SearchArgs,
    context::Context,
    failure::Failure,
    output::{Output, Tone, printable},
};

/// What the store puts around a match.
const MATCH_MARKERS: (&str, &str) = (">>>", "<<<");

/// A picture inside a message is one very long word.
const MAX_SNIPPET_LENGTH: usize = 300;

pub(super) async fn run(context: &Context, args: &SearchArgs) -> Result<(), Failure> {
    let text = args.text.join(" ");
    let hits = match super::open_store(context).await? {
        Some(store) => {
            let search = SearchQuery {
                sources: args.source.clone(),
                limit: args.limit,
                ..SearchQuery::new(text.clone())
            };
            store.search(&search).await?
        }
        None => Vec::new(),
    };
    let output = context.output;
    if hits.is_empty() {
        output.note(format!("No message has `{}` in it.", printable(&text)));
    }
    for hit in &hits {
        output.line(render_hit(output, hit));
    }
    output.json(json!({"hits": hits.iter().map(hit_json).collect::<Vec<_>>()}));
    Ok(())
}

fn render_hit(output: Output, hit: &SearchHit) -> String {
    let who = hit.tool_name.as_deref().unwrap_or(hit.role.as_str());
    let title = hit.title.as_deref().unwrap_or_default();
    let head = format!(
        "{}  {}  {}  {}",
        output.tint(Tone::Strong, &printable(hit.session.as_str())),
        shown_time(hit.timestamp),
        printable(who),
        printable(title),
    );
    let words: Vec<&str> = hit.snippet.split_whitespace().collect();
    let snippet: String = printable(&words.join(" "))
        .chars()
        .take(MAX_SNIPPET_LENGTH)
        .collect();
    format!(
        "{}\n  {}",
        head.trim_end(),
        highlight_matches(output, &snippet)
    )
}

/// Matches stand out by colour, or keep their marks.
fn highlight_matches(output: Output, snippet: &str) -> String {
    if output.tint(Tone::Strong, "x") == "x" {
        return snippet.to_owned();
    }
    let mut text = String::new();
    for (index, part) in snippet.split(MATCH_MARKERS.0).enumerate() {
        match part.split_once(MATCH_MARKERS.1) {
            Some((matched, rest)) if index > 0 => {
                text.push_str(&output.tint(Tone::Strong, matched));
                text.push_str(rest);
            }
            _ => text.push_str(part),
        }
    }
    text
}

fn hit_json(hit: &SearchHit) -> Value {
    json!({
        "session_id": hit.session.as_str(),
        "message_id": hit.message.0,
        "role": hit.role.as_str(),
        "timestamp": hit.timestamp,
        "snippet": hit.snippet,
        "tool_name": hit.tool_name,
        "source": hit.source,
        "title": hit.title,
    })
}
