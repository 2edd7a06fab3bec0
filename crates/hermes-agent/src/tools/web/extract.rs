//! `web_extract`: the text of web pages.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value, json};

use super::{Fetched, Web, html};
use crate::{
    model::ToolDefinition,
    tool::{Company, Tool, ToolContext, ToolOutput},
    tools::{Problem, arguments::Arguments, blocking, definition, finish},
};

const NAME: &str = "web_extract";
const MOST_PAGES: usize = 5;
const MOST_BYTES: usize = 5 << 20;
const MOST_CHARACTERS: usize = 100_000;

pub struct WebExtract {
    web: Arc<Web>,
}

impl WebExtract {
    pub fn new(web: Arc<Web>) -> Self {
        Self { web }
    }

    async fn read(&self, arguments: &Arguments) -> Result<ToolOutput, Problem> {
        let mut urls = arguments.texts("urls")?;
        urls.extend(arguments.text("url")?);
        if urls.is_empty() || urls.len() > MOST_PAGES {
            return Err(Problem::new(format!(
                "`urls` is required: 1 to {MOST_PAGES} addresses"
            )));
        }
        let pages = join_all(urls.iter().map(|url| self.page(url))).await;
        let failed = pages.iter().filter_map(|page| page.as_ref().err());
        let problems: Vec<String> = failed.map(ToString::to_string).collect();
        if problems.len() == urls.len() {
            return Err(Problem::new(problems.join("; ")));
        }
        let texts: Vec<String> = pages
            .into_iter()
            .map(|page| page.unwrap_or_else(|problem| format!("Not read: {problem}")))
            .collect();
        Ok(ToolOutput::from_outside(NAME, texts.join("\n\n---\n\n")))
    }

    async fn page(&self, url: &str) -> Result<String, Problem> {
        let fetched = self.web.fetch(url, MOST_BYTES).await?;
        // Parsing a large page takes a while.
        blocking(move || describe(&fetched)).await
    }
}

/// URL, title and text of a page.
fn describe(fetched: &Fetched) -> Result<String, Problem> {
    let (title, mut body) = text_of(fetched)?;
    let is_long = body.char_indices().nth(MOST_CHARACTERS);
    if let Some((end, _)) = is_long {
        body.truncate(end);
    }
    if fetched.is_cut || is_long.is_some() {
        body.push_str("\n\n[the page is longer; the rest was left out]");
    }
    let title = title.map(|title| format!("Title: {title}\n"));
    let (url, title) = (&fetched.url, title.unwrap_or_default());
    Ok(format!("Address: {url}\n{title}\n{body}"))
}

/// Title and text of a page.
fn text_of(fetched: &Fetched) -> Result<(Option<String>, String), Problem> {
    let kind = fetched.media_type.as_str();
    let text = || match std::str::from_utf8(&fetched.bytes) {
        Ok(text) => text.to_owned(),
        // A page cut inside a character, or one that is not UTF-8: most others are like Latin-1.
        Err(error) if fetched.is_cut && error.error_len().is_none() => {
            String::from_utf8_lossy(&fetched.bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => fetched.bytes.iter().copied().map(char::from).collect(),
    };
    let is_html = matches!(kind, "text/html" | "application/xhtml+xml");
    let is_text = kind.starts_with("text/")
        || kind.ends_with("json")
        || kind.ends_with("xml")
        || kind.ends_with("javascript")
        || kind.ends_with("yaml");
    let is_text = is_text || (kind.is_empty() && !fetched.bytes.contains(&0));
    if is_html || (kind.is_empty() && is_text && text().trim_start().starts_with('<')) {
        let page = html::read(&text(), &fetched.url);
        Ok((page.title, page.body))
    } else if is_text {
        Ok((None, text()))
    } else {
        Err(Problem::new(format!(
            "{} is not text but `{kind}`; download it with the terminal if you need it",
            fetched.url
        )))
    }
}

impl Tool for WebExtract {
    fn definition(&self) -> ToolDefinition {
        definition(
            NAME,
            "Reads web pages and returns their text, with headings, lists and links as in Markdown.",
            json!({
                "urls": {
                    "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_PAGES,
                    "description": "http or https addresses",
                },
            }),
            &["urls"],
        )
    }

    fn toolset(&self) -> &'static str {
        "web"
    }

    fn company(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Company {
        Company::Any
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { finish(self.read(&Arguments::new(arguments)).await) })
    }
}
