//! Extracts the text of an HTML page: headings, lists, links and code are marked as in
//! Markdown, navigation and the like are omitted.
//!
//! This is not a browser. It reads tags one after the other, since real pages are often not well-formed.

mod tokens;

use tokens::{Tag, Token, tokenize};
use url::Url;

const SKIPPED_ELEMENTS: [&str; 14] = [
    "title", "script", "style", "noscript", "template", "svg", "nav", "footer", "aside", "iframe",
    "select", "button", "head", "dialog",
];
/// Elements that start on a new line.
const BLOCK_ELEMENTS: [&str; 26] = [
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "table",
    "tr",
    "blockquote",
    "pre",
    "figure",
    "figcaption",
    "dl",
    "dt",
    "dd",
    "form",
    "details",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PageText {
    pub(super) title: Option<String>,
    pub(super) body: String,
}

/// Extracts the text. Relative links are resolved against the page's URL.
pub(super) fn extract_text(page: &str, address: &Url) -> PageText {
    let tokens: Vec<Token<'_>> = tokenize(page).collect();
    let title = find_title(&tokens);
    // If a page marks its main content, the rest is ignored.
    for element in ["main", "article"] {
        if let Some(part) = element_content(&tokens, element) {
            let body = render(part, address);
            if body.len() > 200 {
                return PageText { title, body };
            }
        }
    }
    let body = render(&tokens, address);
    PageText { title, body }
}

fn find_title(tokens: &[Token<'_>]) -> Option<String> {
    let part = element_content(tokens, "title")?;
    let text: String = part
        .iter()
        .filter_map(|token| match token {
            Token::Text(text) => Some(tokens::decode_entities(text)),
            _ => None,
        })
        .collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The content of the first element of this name.
fn element_content<'t, 'p>(tokens: &'t [Token<'p>], name: &str) -> Option<&'t [Token<'p>]> {
    let start = tokens
        .iter()
        .position(|token| matches!(token, Token::Open(tag) if tag.name == name))?;
    let rest = &tokens[start + 1..];
    Some(&rest[..element_end(rest, name)])
}

/// The end of the element that is open here.
fn element_end(tokens: &[Token<'_>], name: &str) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open(tag) if tag.name == name && !tag.is_closed => depth += 1,
            Token::Close(closed) if closed == name && depth == 0 => return at,
            Token::Close(closed) if closed == name => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

fn render(tokens: &[Token<'_>], address: &Url) -> String {
    let mut page = PageWriter {
        address,
        text: String::new(),
        has_space: false,
        pre: 0,
        links: Vec::new(),
    };
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Text(text) => page.write(&tokens::decode_entities(text)),
            Token::Open(tag) if SKIPPED_ELEMENTS.contains(&tag.name.as_str()) => {
                if !tag.is_closed {
                    at += element_end(&tokens[at..], &tag.name) + 1;
                }
            }
            Token::Open(tag) => page.open(tag),
            Token::Close(name) => page.close(name),
        }
    }
    page.finish()
}

/// Writes the text of a page.
struct PageWriter<'a> {
    address: &'a Url,
    text: String,
    /// Whether a space precedes the next word.
    has_space: bool,
    /// The number of enclosing `pre` elements.
    pre: usize,
    /// Open links: the start of their text, and their target.
    links: Vec<(usize, Option<String>)>,
}

impl PageWriter<'_> {
    fn write(&mut self, text: &str) {
        if self.pre > 0 {
            self.text.push_str(text);
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.has_space = true;
        }
        for word in text.split_whitespace() {
            let is_at_start = self.text.is_empty() || self.text.ends_with(['\n', ' ', '[']);
            if self.has_space && !is_at_start {
                self.text.push(' ');
            }
            self.text.push_str(word);
            self.has_space = true;
        }
        if !text.is_empty() {
            self.has_space = text.ends_with(char::is_whitespace);
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        match name {
            "br" => self.text.push('\n'),
            "hr" => self.mark("---"),
            "td" | "th" => {
                self.has_space = false;
                if !self.text.is_empty() && !self.text.ends_with('\n') {
                    self.text.push_str(" | ");
                }
            }
            "a" => {
                if self.has_space && !self.text.ends_with(['\n', ' ']) {
                    self.text.push(' ');
                }
                self.has_space = false;
                let target = tag.attribute("href").and_then(|href| self.target(&href));
                self.links.push((self.text.len(), target));
            }
            "img" => {
                if let Some(words) = tag
                    .attribute("alt")
                    .filter(|words| !words.trim().is_empty())
                {
                    self.write(&format!(" [image: {}] ", words.trim()));
                }
            }
            _ if BLOCK_ELEMENTS.contains(&name) => {
                self.begin_block(name);
            }
            _ => {}
        }
    }

    fn begin_block(&mut self, name: &str) {
        match name {
            "li" => {
                self.new_line();
                self.text.push_str("- ");
            }
            "tr" | "dt" | "dd" => self.new_line(),
            "pre" => {
                self.mark("```");
                self.new_line();
                self.pre += 1;
            }
            "h1" => self.mark("# "),
            "h2" => self.mark("## "),
            "h3" => self.mark("### "),
            "h4" | "h5" | "h6" => self.mark("#### "),
            "blockquote" => self.mark("> "),
            _ => self.blank_line(),
        }
        self.has_space = false;
    }

    fn close(&mut self, name: &str) {
        match name {
            "a" => {
                if let Some((start, Some(target))) = self.links.pop()
                    && self.text.len() > start
                {
                    self.text.insert(start, '[');
                    self.text.push_str("](");
                    self.text.push_str(&target);
                    self.text.push(')');
                }
            }
            "pre" if self.pre > 0 => {
                self.pre -= 1;
                self.new_line();
                self.text.push_str("```");
                self.blank_line();
            }
            "li" | "tr" | "dt" | "dd" => self.new_line(),
            _ if BLOCK_ELEMENTS.contains(&name) => self.blank_line(),
            _ => {}
        }
    }

    /// The target of a link, if that is another page.
    fn target(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.starts_with('#') {
            return None;
        }
        let target = self.address.join(href).ok()?;
        matches!(target.scheme(), "http" | "https" | "mailto").then(|| target.to_string())
    }

    fn mark(&mut self, mark: &str) {
        self.blank_line();
        self.text.push_str(mark);
    }

    fn new_line(&mut self) {
        self.trim_line();
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.has_space = false;
    }

    fn blank_line(&mut self) {
        // In a list item, the first paragraph starts right after the dash.
        if self.text.ends_with("- ") || self.text.ends_with("> ") || self.text.ends_with("# ") {
            return;
        }
        self.new_line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn trim_line(&mut self) {
        while self.pre == 0 && self.text.ends_with(' ') && !self.text.ends_with("- ") {
            self.text.pop();
        }
    }

    /// The text without empty items and without consecutive empty lines.
    fn finish(self) -> String {
        let mut lines: Vec<&str> = Vec::new();
        for line in self.text.lines() {
            let line = line.trim_end();
            let says_nothing = matches!(line, "-" | "#" | "##" | "###" | "####" | ">" | "|");
            let is_blank = line.is_empty() && lines.last().is_none_or(|last| last.is_empty());
            if !says_nothing && !is_blank {
                lines.push(line);
            }
        }
        lines.join("\n").trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> PageText {
        extract_text(html, &Url::parse("https://example.org/dir/page").unwrap())
    }

    #[test]
    fn a_page_becomes_readable_text() {
        let html = r#"<!DOCTYPE html><html><head><title> A &amp;
        B </title><style>p { color: red }</style><script>if (a < b) { "</p>" }</script></head>
        <body><nav><a href="/">Home</a></nav>
        <h1>Great   things</h1><p>First <b>bold</b>, then
        <a href="../other?x=1&amp;y=2">a link</a>.</p>
        <ul><li>one</li><li><p>two</p></li></ul>
        <pre><code>fn main() {
    run();
}</code></pre>
        <!-- not <p>this</p> --><p>Last&hellip;</p><footer>imprint</footer></body></html>"#;
        let text = page(html);
        assert_eq!(text.title.as_deref(), Some("A & B"));
        assert_eq!(
            text.body,
            "# Great things\n\nFirst bold, then [a link](https://example.org/other?x=1&y=2).\n\n- one\n- two\n\n\
         ```\nfn main() {\n    run();\n}\n```\n\nLast…"
        );
    }

    #[test]
    fn what_a_page_calls_its_content_is_all_that_is_read() {
        let content = "word ".repeat(60);
        let html = format!("<div>menu</div><main><p>{content}</p></main><div>ads</div>");
        assert_eq!(page(&html).body, content.trim());
        let html = "<div>menu</div><main></main><p>the rest</p>";
        assert_eq!(page(html).body, "menu\n\nthe rest");
    }

    #[test]
    fn tables_are_rows_of_cells() {
        let html = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>";
        assert_eq!(page(html).body, "a | b\n1 | 2");
    }

    #[test]
    fn broken_pages_do_no_harm() {
        for html in [
            "",
            "<",
            "<p",
            "<p a='",
            "<script>",
            "</",
            "<!--",
            "a < b && c > d",
            "<a href=>x</a>",
            "<a = b href='#x'>x</a>",
            "<svg><nav>",
            "</a></pre></p>",
            "<p title=\"a > b\">x</p>",
            "<ä>",
        ] {
            page(html);
        }
        assert_eq!(page("a < b && c > d").body, "a < b && c > d");
        assert_eq!(page("<p title=\"a > b\">x</p>").body, "x");
        assert_eq!(page("<a = b href='#x'>x</a>").body, "x");
    }

    #[test]
    fn a_hostile_page_takes_no_time() {
        for piece in [
            "&",
            "<a ",
            "<",
            "<nav>",
            "</p",
            "<p a='",
            "&#",
            "<script>",
            "<!--",
            "<a href=x>y",
        ] {
            page(&piece.repeat(20_000));
        }
    }

    #[test]
    fn only_links_to_pages_are_kept() {
        let html = "<a href='javascript:alert(1)'>run</a> <a href='#top'>up</a> <a href='/x'></a><a href='/y'>y</a>";
        assert_eq!(page(html).body, "run up [y](https://example.org/y)");
    }
}
