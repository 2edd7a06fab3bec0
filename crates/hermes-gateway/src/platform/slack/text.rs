//! Slack's markup in received texts, as people read it.

/// A received text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlackText {
    /// Without the mention of the bot.
    pub(super) text: String,
    pub(super) mentions_bot: bool,
}

/// Replaces references by names and addresses, and removes mentions of the bot.
pub(super) fn read_text(
    raw: &str,
    bot: &str,
    find_name: &dyn Fn(&str) -> Option<String>,
) -> SlackText {
    let mut text = String::with_capacity(raw.len());
    let mut mentions_bot = false;
    let mut rest = raw;
    while let Some(begin) = rest.find('<') {
        push_unescaped(&mut text, &rest[..begin]);
        let after = &rest[begin + 1..];
        let Some(end) = after.find('>') else {
            rest = &rest[begin..];
            break;
        };
        let reference = &after[..end];
        rest = &after[end + 1..];
        if is_mention_of(reference, bot) {
            mentions_bot = true;
            // "<@bot> hello" reads "hello".
            if text.is_empty() || text.ends_with(char::is_whitespace) {
                rest = rest.strip_prefix(' ').unwrap_or(rest);
            }
        } else {
            push_reference(&mut text, reference, find_name);
        }
    }
    push_unescaped(&mut text, rest);
    SlackText {
        text: text.trim().to_owned(),
        mentions_bot,
    }
}

fn is_mention_of(reference: &str, bot: &str) -> bool {
    let user = reference.strip_prefix('@').unwrap_or_default();
    !bot.is_empty() && user.split('|').next() == Some(bot)
}

fn push_reference(text: &mut String, reference: &str, find_name: &dyn Fn(&str) -> Option<String>) {
    let (target, label) = match reference.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (reference, None),
    };
    if let Some(user) = target.strip_prefix('@') {
        text.push('@');
        match label.map(str::to_owned).or_else(|| find_name(user)) {
            Some(name) => push_unescaped(text, name.trim_start_matches('@')),
            None => text.push_str(user),
        }
    } else if let Some(channel) = target.strip_prefix('#') {
        text.push('#');
        let name = label.map(str::to_owned).or_else(|| find_name(channel));
        push_unescaped(text, name.as_deref().unwrap_or(channel));
    } else if let Some(special) = target.strip_prefix('!') {
        // `!here`, `!subteam^S123|@team`, `!date^…|fallback`.
        if let Some(label) = label {
            push_unescaped(text, label);
        } else {
            text.push('@');
            text.push_str(special.split('^').next().unwrap_or(special));
        }
    } else {
        let address = target.strip_prefix("mailto:").unwrap_or(target);
        match label {
            // Slack writes "example.com" as a link to itself.
            Some(label) if !address.contains(label) => {
                text.push('[');
                push_unescaped(text, label);
                text.push_str("](");
                push_unescaped(text, address);
                text.push(')');
            }
            _ => push_unescaped(text, address),
        }
    }
}

/// Slack escapes three characters.
fn push_unescaped(text: &mut String, escaped: &str) {
    let mut rest = escaped;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let entities = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')];
        let found = entities.iter().find(|(entity, _)| rest.starts_with(entity));
        if let Some((entity, character)) = found {
            text.push(*character);
            rest = &rest[entity.len()..];
        } else {
            text.push('&');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> (String, bool) {
        let names = |id: &str| (id == "U1").then(|| "Ada".to_owned());
        let received = read_text(raw, "UBOT", &names);
        (received.text, received.mentions_bot)
    }

    #[test]
    fn the_mention_of_the_bot_is_taken_out() {
        assert_eq!(read("<@UBOT> hello"), ("hello".into(), true));
        assert_eq!(
            read("hello <@UBOT|hermes> there"),
            ("hello there".into(), true)
        );
        assert_eq!(read("hello <@UBOT>!"), ("hello !".into(), true));
        assert_eq!(read("<@UBOT>"), (String::new(), true));
        assert_eq!(read("hello <@UBOTS>"), ("hello @UBOTS".into(), false));
    }

    #[test]
    fn references_and_entities_read_as_text() {
        let cases = [
            ("ask <@U1> and <@U2|bob>", "ask @Ada and @bob"),
            ("see <#C1|general> and <#C2>", "see #general and #C2"),
            ("<!here> <!subteam^S1|@team>", "@here @team"),
            ("<https://a.b/c?d=1&amp;e=2>", "https://a.b/c?d=1&e=2"),
            ("<http://a.b|a.b>", "http://a.b"),
            ("<https://a.b|the site>", "[the site](https://a.b)"),
            ("<mailto:x@y.z|x@y.z>", "x@y.z"),
            (
                "1 &lt; 2 &amp;&amp; 3 &gt; 2 & &amp;lt;",
                "1 < 2 && 3 > 2 & &lt;",
            ),
            ("a < b", "a < b"),
            ("", ""),
        ];
        for (raw, expected) in cases {
            assert_eq!(read(raw).0, expected, "{raw}");
        }
    }
}
