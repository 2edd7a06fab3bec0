//! Decodes entities such as `&amp;`.

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
