//! Telegram's MarkdownV2, read as strictly as Telegram reads it.

/// Signs that must be escaped where they mean nothing.
const RESERVED: &str = "_*[]()~`>#+-=|{}.!";

/// The text without its markup, or what is wrong with it.
pub fn parse(text: &str) -> Result<String, String> {
    let mut parser = MarkdownParser {
        rest: text,
        plain: String::new(),
        open: Vec::new(),
        is_line_start: true,
    };
    while !parser.rest.is_empty() {
        parser.step()?;
    }
    match parser.open.last() {
        Some(mark) => Err(format!(
            "can't find end of the entity that begins with {mark}"
        )),
        None => Ok(parser.plain),
    }
}

struct MarkdownParser<'t> {
    rest: &'t str,
    plain: String,
    open: Vec<&'static str>,
    is_line_start: bool,
}

impl MarkdownParser<'_> {
    fn step(&mut self) -> Result<(), String> {
        let is_line_start = std::mem::replace(&mut self.is_line_start, false);
        for mark in ["```", "`"] {
            if let Some(after) = self.rest.strip_prefix(mark) {
                return self.code(mark, after);
            }
        }
        // Two signs are taken together before one is.
        for mark in ["||", "__", "*", "_", "~"] {
            if let Some(after) = self.rest.strip_prefix(mark) {
                self.rest = after;
                return self.toggle(mark);
            }
        }
        let Some(character) = self.rest.chars().next() else {
            return Ok(());
        };
        self.rest = &self.rest[character.len_utf8()..];
        match character {
            '\\' => {
                let escaped = self.rest.chars().next();
                if let Some(escaped) = escaped.filter(char::is_ascii) {
                    self.plain.push(escaped);
                    self.rest = &self.rest[1..];
                } else {
                    self.plain.push('\\');
                }
            }
            '[' => self.open.push("["),
            ']' if self.open.last() == Some(&"[") => return self.address(),
            '>' if is_line_start => {}
            character if RESERVED.contains(character) => {
                return Err(format!(
                    "character '{character}' is reserved and must be escaped"
                ));
            }
            character => {
                self.is_line_start = character == '\n';
                self.plain.push(character);
            }
        }
        Ok(())
    }

    fn toggle(&mut self, mark: &'static str) -> Result<(), String> {
        if self.open.last() == Some(&mark) {
            self.open.pop();
        } else if self.open.contains(&mark) {
            return Err(format!(
                "an entity that begins with {mark} is closed too early"
            ));
        } else {
            self.open.push(mark);
        }
        Ok(())
    }

    fn code(&mut self, mark: &str, after: &str) -> Result<(), String> {
        let mut escaped = false;
        for (at, character) in after.char_indices() {
            if escaped {
                escaped = false;
                self.plain.push(character);
            } else if character == '\\' {
                escaped = true;
            } else if after[at..].starts_with(mark) {
                let consumed = self.rest.len() - after.len() + at + mark.len();
                self.rest = &self.rest[consumed..];
                return Ok(());
            } else if character == '`' && mark.len() == 3 {
                return Err("character '`' is reserved within code".to_owned());
            } else {
                self.plain.push(character);
            }
        }
        Err(format!(
            "can't find end of the code that begins with {mark}"
        ))
    }

    fn address(&mut self) -> Result<(), String> {
        self.open.pop();
        let Some(after) = self.rest.strip_prefix('(') else {
            return Err("a link has no address".to_owned());
        };
        let mut escaped = false;
        for (at, character) in after.char_indices() {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                ')' => {
                    self.rest = &after[at + 1..];
                    return Ok(());
                }
                _ => {}
            }
        }
        Err("a link's address has no end".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_read_and_mistakes_are_found() {
        assert_eq!(
            parse(r"*a _b_* `c.d` [e\.](http://x.y) ~f~ ||g|| 1\.").unwrap(),
            "a b c.d e. f g 1."
        );
        assert_eq!(
            parse("```rust\nlet x;\n```\n>q").unwrap(),
            "rust\nlet x;\n\nq"
        );
        for wrong in [
            "a.b",
            "*a",
            "*a _b*_",
            "`a",
            "[a]",
            "[a](b",
            "a > b",
            "_a__b_",
            "```a`b```",
            "-",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
