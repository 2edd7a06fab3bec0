//! Commands within a conversation, as they are typed: `/name` and the rest of the line.

/// A command that was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlashCommand<'a> {
    /// The word after the stroke.
    pub(crate) name: &'a str,
    /// What follows it.
    pub(crate) rest: &'a str,
}

impl<'a> SlashCommand<'a> {
    /// Reads a line. `None` if it is something to say: a path such as `/etc/hosts` is not a command.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim().strip_prefix('/')?;
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (!name.is_empty() && name.chars().all(is_name)).then_some(Self {
            name,
            rest: rest.trim(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_things_to_say() {
        let read = |line| SlashCommand::parse(line).map(|slash| (slash.name, slash.rest));
        assert_eq!(read("/tools"), Some(("tools", "")));
        assert_eq!(
            read("  /call a.b {\"x\": 1} "),
            Some(("call", "a.b {\"x\": 1}"))
        );
        assert_eq!(read("/reload-mcp now"), Some(("reload-mcp", "now")));
        for text in ["hello", "/etc/hosts is odd", "/", "// no", "a /b"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
