//! The head of a Markdown file: YAML between two lines of `---`.

use serde_json::{Map, Value};

/// Values in a head, those included that aliases stand for.
const MAX_VALUES: usize = 10_000;

/// Splits a text into its head and the rest. What is not YAML is read line by line as `key: value`.
pub(super) fn split_frontmatter(text: &str) -> (Map<String, Value>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((yaml, body)) = split_fenced(text) else {
        return (Map::new(), text);
    };
    let head = match parse_yaml(yaml) {
        Ok(Value::Object(map)) => map,
        Ok(_) => Map::new(),
        Err(_) => parse_lines(yaml),
    };
    (head, body)
}

/// The head of a text, which must have one that is a YAML mapping; or why not.
pub(super) fn parse_strictly(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((yaml, _)) = split_fenced(text) else {
        return Err("there is none".into());
    };
    match parse_yaml(yaml) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("it is not a mapping".into()),
        Err(error) => {
            let at = error.location();
            let at = at.map_or(0, |location| location.line());
            Err(format!("it is not YAML in line {}", at + 1))
        }
    }
}

fn parse_yaml(yaml: &str) -> Result<Value, serde_saphyr::Error> {
    // A tag called `y` or `no` is a word.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        // A few lines about a skill, whoever wrote them.
        budget: serde_saphyr::budget! {
            max_events: 3 * MAX_VALUES,
            max_nodes: MAX_VALUES,
            max_depth: 16,
            max_recorded_anchor_events: MAX_VALUES,
        },
        // Aliases in what aliases stand for make it deeper than it is written.
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_VALUES,
            max_replay_stack_depth: 4,
        },
    };
    serde_saphyr::from_str_with_options::<Value>(yaml, options)
}

fn split_fenced(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn parse_lines(yaml: &str) -> Map<String, Value> {
    yaml.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_head_is_yaml() {
        let (head, body) = split_frontmatter(
            "\u{feff}---\nname: a\nmetadata:\n  hermes:\n    tags: [x, y]\n---\n# Body\n",
        );
        assert_eq!(head["name"], "a");
        assert_eq!(head["metadata"]["hermes"]["tags"], json!(["x", "y"]));
        assert_eq!(body, "# Body\n");
    }

    #[test]
    fn bad_yaml_is_read_line_by_line() {
        let (head, body) = split_frontmatter("---\nname: a\ndescription: Use: when [asked\n---\nx");
        assert_eq!(head["name"], "a");
        assert_eq!(head["description"], "Use: when [asked");
        assert_eq!(body, "x");
    }

    #[test]
    fn without_a_closed_head_all_is_body() {
        for text in ["# x\n---\n", "---\nname: a\n", "", "---"] {
            let (head, body) = split_frontmatter(text);
            assert!(head.is_empty());
            assert_eq!(body, text);
        }
        let (head, body) = split_frontmatter("---\r\nname: a\r\n---\r\nx");
        assert_eq!((head["name"].as_str(), body), (Some("a"), "x"));
    }
}
