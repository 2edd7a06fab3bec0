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
