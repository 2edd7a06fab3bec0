//! What a person sees in the browser at the end of a login.

use hermes_config::ServerName;

/// It worked.
pub(super) fn success_page() -> String {
    render_page(
        "You are logged in",
        "Hermes has what it needs. You can close this window.",
    )
}

/// It did not work, and how to begin again. Somebody else's words may be in the reason.
pub(super) fn failure_page(server: &ServerName, reason: &str) -> String {
    let (reason, server) = (escape_html(reason), escape_html(server.as_str()));
    let text = format!(
        "{reason}</p><p>You can close this window. <code>hermes mcp login {server}</code> begins again."
    );
    render_page("The login did not work", &text)
}

/// Not the address of a login.
pub(super) fn not_found_page() -> String {
    render_page(
        "There is nothing here",
        "This address waits for the answer to a login.",
    )
}

fn render_page(title: &str, text: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:1.1em system-ui,sans-serif;max-width:32em;margin:15vh auto;padding:0 1em}}</style></head>\
         <body><main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )
}

fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_stay_words() {
        let page = failure_page(
            &ServerName::new("<b>"),
            "<img src=x onerror='alert(\"1\")'>&",
        );
        assert!(
            page.contains("&lt;img src=x onerror=&#39;alert(&quot;1&quot;)&#39;&gt;&amp;"),
            "{page}"
        );
        assert!(page.contains("login &lt;b&gt;<"), "{page}");
    }
}
