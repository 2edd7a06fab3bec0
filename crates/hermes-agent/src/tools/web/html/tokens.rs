//! Splits a page into text and tags, and decodes entities such as `&amp;`.

/// Elements whose content is raw text.
const RAW_TEXT_ELEMENTS: [&str; 5] = ["script", "style", "textarea", "title", "noscript"];
const NAMED: [(&str, &str); 34] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("shy", ""),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("bull", "•"),
    ("middot", "·"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("deg", "°"),
    ("times", "×"),
    ("euro", "€"),
    ("pound", "£"),
    ("sect", "§"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("szlig", "ß"),
    ("eacute", "é"),
];
const MAX_ENTITY_CHARS: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'p> {
    /// Entities are not decoded yet.
    Text(&'p str),
    Open(Tag<'p>),
    Close(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag<'p> {
    /// In lower case.
    pub(super) name: String,
    attributes: &'p str,
    /// Whether it ends itself: `<br/>`.
    pub(super) is_closed: bool,
}

impl Tag<'_> {
    pub(super) fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            let end = rest.find(|c: char| c.is_whitespace() || c == '=' || c == '/');
            let name = &rest[..end.unwrap_or(rest.len())];
            rest = rest[name.len()..].trim_start();
            let value = match rest.strip_prefix('=') {
                Some(after) => {
                    let (value, after) = parse_value(after.trim_start());
                    rest = after;
                    value
                }
                None => "",
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(decode_entities(value));
            }
            if name.is_empty() {
                // A stray character: skip it.
                let mut letters = rest.chars();
                letters.next();
                rest = letters.as_str();
            }
        }
    }
}

/// A value, quoted or not, and what comes after it.
fn parse_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote).unwrap_or((inside, ""));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at(end)
}

/// The tokens of a page, in order, without comments and declarations.
pub(super) fn tokenize(page: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = page;
    // The open raw text element.
    let mut raw: Option<String> = None;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            if let Some(name) = raw.take() {
                let end = find_close(rest, &name);
                let (text, after) = rest.split_at(end);
                rest = after;
                if !text.is_empty() {
                    return Some(Token::Text(text));
                }
                continue;
            }
            if !begins_tag(rest) {
                let next = rest
                    .char_indices()
                    .skip(1)
                    .find(|(at, letter)| *letter == '<' && begins_tag(&rest[*at..]));
                let (text, after) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
                rest = after;
                return Some(Token::Text(text));
            }
            let (token, after) = parse_markup(rest);
            rest = after;
            if let Some(token) = token {
                if let Token::Open(tag) = &token
                    && RAW_TEXT_ELEMENTS.contains(&tag.name.as_str())
                    && !tag.is_closed
                {
                    raw = Some(tag.name.clone());
                }
                return Some(token);
            }
        }
    })
}

/// Whether a `<` here begins a tag, a comment or a declaration.
fn begins_tag(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next() == Some('<')
        && letters
            .next()
            .is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'))
}

/// A tag, or `None` for what is omitted, and the rest.
fn parse_markup(text: &str) -> (Option<Token<'_>>, &str) {
    if let Some(comment) = text.strip_prefix("<!--") {
        return (
            None,
            comment.split_once("-->").map_or("", |(_, after)| after),
        );
    }
    let end = tag_end(text);
    let after = text.get(end + 1..).unwrap_or_default();
    let inside = &text[1..end];
    if inside.starts_with(['!', '?']) {
        return (None, after);
    }
    if let Some(name) = inside.strip_prefix('/') {
        return (
            Some(Token::Close(name_of(name).to_ascii_lowercase())),
            after,
        );
    }
    let name = name_of(inside);
    let is_closed = inside.ends_with('/');
    let tag = Tag {
        name: name.to_ascii_lowercase(),
        attributes: inside[name.len()..].trim_end_matches('/'),
        is_closed,
    };
    (Some(Token::Open(tag)), after)
}

fn name_of(inside: &str) -> &str {
    let end = inside.find(|c: char| c.is_whitespace() || c == '/');
    &inside[..end.unwrap_or(inside.len())]
}

/// The end of a tag; a `>` in quotes does not count.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '>') => return at,
            (None, '"' | '\'') if before == '=' => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            _ => {}
        }
        if !letter.is_whitespace() {
            before = letter;
        }
    }
    text.len()
}

/// Where `</name` is.
fn find_close(text: &str, name: &str) -> usize {
    let is_close = |at: &usize| {
        let after = text.get(at + 2..at + 2 + name.len());
        after.is_some_and(|after| after.eq_ignore_ascii_case(name))
    };
    let mut offsets = text.match_indices("</").map(|(at, _)| at);
    offsets.find(is_close).unwrap_or(text.len())
}

/// Decodes all entities. Unknown ones stay unchanged.
pub(super) fn decode_entities(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // The limit keeps a page full of `&` fast.
        let end = rest
            .bytes()
            .take(MAX_ENTITY_CHARS + 1)
            .position(|byte| byte == b';');
        match end.and_then(|end| decode_entity(&rest[..end])) {
            Some((length, text)) => {
                decoded.push_str(&text);
                rest = &rest[length + 1..];
            }
            None => decoded.push('&'),
        }
    }
    decoded.push_str(rest);
    decoded
}

/// The decoded entity, and the length of its name.
fn decode_entity(name: &str) -> Option<(usize, String)> {
    let text = if let Some(digits) = name.strip_prefix('#') {
        let number = match digits.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => digits.parse().ok()?,
        };
        char::from_u32(number)?.to_string()
    } else {
        let mut known = NAMED.iter();
        known.find(|(known, _)| *known == name)?.1.to_owned()
    };
    Some((name.len(), text))
}

#[cfg(test)]
mod tests {
    use super::decode_entities;

    #[test]
    fn entities_are_decoded_and_the_rest_stays() {
        assert_eq!(
            decode_entities("a &amp;lt; b &#65;&#x42; &nbsp;c"),
            "a &lt; b AB  c"
        );
        assert_eq!(
            decode_entities("AT&T & &unknown; &#xffffffff; &"),
            "AT&T & &unknown; &#xffffffff; &"
        );
    }
}
