//! Error texts of libraries without the names of Rust types.

/// The text without types and their values, which libraries put into their messages.
pub(crate) fn strip_type_names(text: &str) -> String {
    let text = strip_transport_prefix(text);
    let text = match value_start(&text) {
        Some(at) => match text[..at].trim_end_matches([' ', ':', ',', '(']) {
            "" => "it does not answer as MCP asks for".to_owned(),
            words => format!("{words} something else"),
        },
        None => text,
    };
    let words = text.split(' ').filter(|word| !word.contains("::"));
    words.collect::<Vec<_>>().join(" ")
}

/// Takes out `Transport [a type] error: `.
fn strip_transport_prefix(text: &str) -> String {
    const BEGIN: &str = "Transport [";
    const END: &str = "] error: ";
    let mut text = text.to_owned();
    while let Some(begin) = text.find(BEGIN)
        && let Some(length) = text[begin..].find(END)
    {
        text.replace_range(begin..begin + length + END.len(), "");
    }
    text
}

/// Where a value begins that is written as Rust writes it: `Type(…` or `Type { …`.
fn value_start(text: &str) -> Option<usize> {
    let mut start = None;
    for (at, character) in text.char_indices() {
        let rest = &text[at..];
        if let Some(start) = start
            && is_type_name(&text[start..at])
            && (rest.starts_with('(') || rest.starts_with(" { "))
        {
            return Some(start);
        }
        if !(character.is_ascii_alphanumeric() || character == '_') {
            start = None;
        } else if start.is_none() {
            start = Some(at);
        }
    }
    None
}

fn is_type_name(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.contains(|character: char| character.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_left_out_and_words_stay() {
        for (text, words) in [
            (
                "expect initialized response, but received: Some(Response(JsonRpcResponse { id: 1 }))",
                "expect initialized response, but received something else",
            ),
            (
                "Transport [rmcp::transport::worker::WorkerTransport<X>] error: Connection refused (os error 111)",
                "Connection refused (os error 111)",
            ),
            ("Transport(Closed)", "it does not answer as MCP asks for"),
            ("Method Not Allowed (405)", "Method Not Allowed (405)"),
            ("bad JSON at line 1 {", "bad JSON at line 1 {"),
            ("no answer within 2 s", "no answer within 2 s"),
        ] {
            assert_eq!(strip_type_names(text), words, "{text}");
        }
    }
}
