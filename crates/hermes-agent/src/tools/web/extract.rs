//! `web_extract`: the text of web pages.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value, json};

use super::{FetchedPage, WebClient, html};
use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output, run_blocking,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const NAME: &str = "web_extract";
const MAX_PAGES: usize = 5;
const MAX_PAGE_BYTES: usize = 5 << 20;
const MAX_PAGE_CHARS: usize = 100_000;

pub struct WebExtractTool {
    web: Arc<WebClient>,
}

impl WebExtractTool {
    pub fn new(web: Arc<WebClient>) -> Self {
        Self { web }
    }

    async fn extract_pages(&self, arguments: &ToolArguments) -> Result<ToolOutput, ToolError> {
        let mut urls = arguments.texts("urls")?;
        urls.extend(arguments.text("url")?);
        if urls.is_empty() || urls.len() > MAX_PAGES {
            return Err(ToolError::new(format!(
                "`urls` is required: 1 to {MAX_PAGES} addresses"
            )));
        }
        let pages = join_all(urls.iter().map(|url| self.extract_page(url))).await;
        let failed = pages.iter().filter_map(|page| page.as_ref().err());
        let problems: Vec<String> = failed.map(ToString::to_string).collect();
        if problems.len() == urls.len() {
            return Err(ToolError::new(problems.join("; ")));
        }
        let texts: Vec<String> = pages
            .into_iter()
            .map(|page| page.unwrap_or_else(|problem| format!("Not read: {problem}")))
            .collect();
        Ok(ToolOutput::from_untrusted(NAME, texts.join("\n\n---\n\n")))
    }

    async fn extract_page(&self, url: &str) -> Result<String, ToolError> {
        let fetched = self.web.fetch(url, MAX_PAGE_BYTES).await?;
        // Parsing a large page takes a while.
        run_blocking(move || format_page(&fetched)).await
    }
}

/// URL, title and text of a page.
fn format_page(fetched: &FetchedPage) -> Result<String, ToolError> {
    let (title, mut body) = extract_page_text(fetched)?;
    let is_long = body.char_indices().nth(MAX_PAGE_CHARS);
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
fn extract_page_text(fetched: &FetchedPage) -> Result<(Option<String>, String), ToolError> {
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
        let page = html::extract_text(&text(), &fetched.url);
        Ok((page.title, page.body))
    } else if is_text {
        Ok((None, text()))
    } else {
        Err(ToolError::new(format!(
            "{} is not text but `{kind}`; download it with the terminal if you need it",
            fetched.url
        )))
    }
}

impl Tool for WebExtractTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            NAME,
            "Reads web pages and returns their text, with headings, lists and links as in Markdown.",
            json!({
                "urls": {
                    "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_PAGES,
                    "description": "http or https addresses",
                },
            }),
            &["urls"],
        )
    }

    fn toolset(&self) -> &'static str {
        "web"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(
            async move { into_output(self.extract_pages(&ToolArguments::new(arguments)).await) },
        )
    }
}
