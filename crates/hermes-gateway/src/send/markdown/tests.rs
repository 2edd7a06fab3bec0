//! What becomes of Markdown.

use hermes_testkit::platform::parse_markdown_v2;
use proptest::prelude::*;

use super::*;

fn telegram(text: &str) -> String {
    render_markdown(text, Dialect::Telegram)
}

fn slack(text: &str) -> String {
    render_markdown(text, Dialect::Slack)
}

#[test]
fn what_means_something_to_telegram_is_escaped() {
    assert_eq!(telegram("1. a-b (c)!"), r"1\. a\-b \(c\)\!");
    assert_eq!(
        telegram("snake_case_name 2*3*4"),
        r"snake\_case\_name 2\*3\*4"
    );
    assert_eq!(telegram(r"a \* b \d"), r"a \* b \\d");
}

#[test]
fn common_markup_is_translated_for_telegram() {
    for (markdown, expected) in [
        ("**bold**", "*bold*"),
        ("*italic* and _italic_", "_italic_ and _italic_"),
        ("~~gone~~ ||hidden||", "~gone~ ||hidden||"),
        ("**a *b* c**", "*a _b_ c*"),
        ("*a **b** c*", "_a *b* c_"),
        ("## A **b**. c", r"*A b\. c*"),
        ("> said.", r"> said\."),
        ("[a.b](http://x.y/(z))", r"[a\.b](http://x.y/(z\))"),
        ("`a\\b.c`", r"`a\\b.c`"),
        ("``a`b``", r"`a\`b`"),
        ("** no ** * no *", r"\*\* no \*\* \* no \*"),
        ("**open", r"\*\*open"),
        ("[not a link]", r"\[not a link\]"),
        ("#hashtag", r"\#hashtag"),
    ] {
        assert_eq!(telegram(markdown), expected, "{markdown}");
    }
}

#[test]
fn code_keeps_its_signs_and_is_always_closed() {
    assert_eq!(
        telegram("```rust\nlet x = \"`\\\\\";\n```\ndone."),
        "```rust\nlet x = \"\\`\\\\\\\\\";\n```\ndone\\."
    );
    assert_eq!(telegram("```\na.b"), "```\na.b\n```");
    assert_eq!(slack("```rust\na < b\n```"), "```\na &lt; b\n```");
}

#[test]
fn common_markup_is_translated_for_slack() {
    for (markdown, expected) in [
        ("**bold** and *italic*", "*bold* and _italic_"),
        ("# Title", "*Title*"),
        ("~~gone~~", "~gone~"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        (
            "[text](https://x.y?a=1&b=2)",
            "<https://x.y?a=1&amp;b=2|text>",
        ),
        (
            "<@U12345678> <!here> <https://x.y|z>",
            "<@U12345678> <!here> <https://x.y|z>",
        ),
        ("> quoted", "> quoted"),
        ("snake_case_name", "snake_case_name"),
    ] {
        assert_eq!(slack(markdown), expected, "{markdown}");
    }
}

proptest! {
    #[test]
    fn telegram_can_parse_whatever_is_made_for_it(
        text in r"(?s)([a-z .\n]|\*\*|\*|_|~~|\|\||`|```|\[|\]|\(|\)|\\|>|#|é|👩){0,60}",
    ) {
        let rendered = telegram(&text);
        let parsed = parse_markdown_v2(&rendered);
        prop_assert!(parsed.is_ok(), "{text:?} -> {rendered:?}: {parsed:?}");
    }
}
