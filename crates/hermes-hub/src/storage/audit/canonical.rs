//! Canonical JSON (RFC 8785), for values without fractions.

use serde_json::Value;

/// Members sorted, no spaces. Numbers must be integers; serde_json escapes strings as the RFC requires.
pub(crate) fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            text.push('{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(member, text);
            }
            text.push('}');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_sorted_by_their_utf16_units_and_strings_escaped_as_little_as_possible() {
        // The order of the RFC's own example: U+1F600 comes before U+FB33, since it begins with a surrogate.
        let value = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Dalet", "1": "One",
            "\u{1f600}": "Smiley", "\u{80}": "Control", "\u{f6}": "O",
        });
        assert_eq!(
            canonical_json(&value),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"\u{f6}\":\"O\",\
             \"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Smiley\",\"\u{fb33}\":\"Dalet\"}"
        );
        assert_eq!(
            canonical_json(&json!(["\u{f}\n\"\\/", 56, true, null])),
            "[\"\\u000f\\n\\\"\\\\/\",56,true,null]"
        );
    }
}
