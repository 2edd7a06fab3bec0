//! The reference as a self-contained HTML page, without scripts and external requests.

use std::{fmt::Write, sync::LazyLock};

use super::markdown::{effect_text, scope_text};
use crate::operations::{Operation, Toolset, table};

pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) const STYLESHEET: &str = include_str!("reference.css");

static PAGE: LazyLock<String> = LazyLock::new(render_page);

pub(crate) fn reference_html() -> &'static str {
    &PAGE
}

fn render_page() -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Hermes Hub</title>\n\
         <link rel=\"stylesheet\" href=\"/reference.css\">\n</head>\n<body>\n<main>\n<h1>Hermes Hub</h1>\n\
         <p>REST at <code>/v1</code> (<a href=\"/v1/openapi.json\">OpenAPI</a>), MCP at <code>/mcp</code>. Every \
         request but those to health and documents needs <code>Authorization: Bearer</code> and a management token.</p>\n",
    );
    page.push_str("<nav aria-label=\"Operations\"><ul>\n");
    for operation in table().rows() {
        let _ = writeln!(page, "<li><a href=\"#{0}\">{0}</a></li>", operation.name);
    }
    page.push_str("</ul></nav>\n");
    for operation in table().rows() {
        render_section(&mut page, operation);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn render_section(page: &mut String, operation: &Operation) {
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        let _ = writeln!(page, "{arguments}");
    };
    line(format_args!(
        "<section id=\"{0}\">\n<h2>{0}</h2>\n<p>{1}</p>\n<dl>",
        operation.name,
        render_prose(operation.description)
    ));
    for verb in operation.methods {
        let path = escape_html(&operation.path.replace("{*", "{"));
        line(format_args!(
            "<dt>REST</dt><dd><code>{} {path}</code></dd>",
            verb.as_str()
        ));
    }
    match operation.toolset {
        Toolset::Standard => line(format_args!(
            "<dt>MCP</dt><dd>tool <code>{}</code></dd>",
            operation.name
        )),
        Toolset::Extended => line(format_args!(
            "<dt>MCP</dt><dd>extended tool <code>{}</code></dd>",
            operation.name
        )),
        Toolset::None => {}
    }
    if let Some(command) = operation.command {
        line(format_args!(
            "<dt>Command</dt><dd><code>hermes {command}</code></dd>"
        ));
    }
    line(format_args!(
        "<dt>Scope</dt><dd>{}</dd>",
        render_prose(&scope_text(operation))
    ));
    line(format_args!(
        "<dt>Effect</dt><dd>{}</dd>\n</dl>",
        effect_text(operation)
    ));
    if !operation.input.arguments.is_empty() {
        line(format_args!(
            "<table><thead><tr><th scope=\"col\">argument</th><th scope=\"col\">meaning</th></tr></thead><tbody>"
        ));
        for member in &operation.input.arguments {
            let need = if member.is_required { "Required. " } else { "" };
            let description = member
                .schema
                .get("description")
                .and_then(|text| text.as_str())
                .unwrap_or_default();
            line(format_args!(
                "<tr><td><code>{}</code></td><td>{need}{}</td></tr>",
                escape_html(&member.name),
                render_prose(description)
            ));
        }
        line(format_args!("</tbody></table>"));
    }
    line(format_args!("</section>"));
}

/// Escapes a text and turns backticks into `<code>`.
fn render_prose(text: &str) -> String {
    let mut html = String::new();
    for (number, part) in escape_html(text).split('`').enumerate() {
        if number > 0 {
            html.push_str(if number % 2 == 1 { "<code>" } else { "</code>" });
        }
        html.push_str(part);
    }
    html
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code_and_every_one_is_closed() {
        assert_eq!(
            render_prose("say `a<b` & go"),
            "say <code>a&lt;b</code> &amp; go"
        );
        let page = reference_html();
        assert!(page.contains("<code>deleted</code>") && !page.contains('`'));
        let count = |tag: &str| page.matches(tag).count();
        assert_eq!(count("<code>"), count("</code>"));
    }
}
